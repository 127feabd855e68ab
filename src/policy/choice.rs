//! Who gets which amount of a limit: plans and overrides.
//!
//! All amounts of a limit have the same algorithm and windows, so a key whose plan changes keeps its one counter and what
//! it has used. An override says something about one key, and so wins over its plan.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use super::Overrides;
use crate::limit::key::{Ambiguous, Source, Values, first};
use crate::request::Facts;

/// The amounts that hold for a request together: a run of `Limit::amounts`. An empty one: unlimited.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Allowance {
    first: usize,
    count: usize,
}

impl Allowance {
    /// No limit at all.
    pub const UNLIMITED: Self = Self { first: 0, count: 0 };

    /// The amounts in `run`, indexes into `Limit::amounts`.
    #[must_use]
    pub const fn new(run: Range<usize>) -> Self {
        Self {
            first: run.start,
            count: run.end.saturating_sub(run.start),
        }
    }

    /// Indexes into `Limit::amounts`.
    #[must_use]
    pub const fn run(self) -> Range<usize> {
        self.first..self.first.saturating_add(self.count)
    }
}

/// What a request gets of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Grant {
    /// It is counted, and these hold.
    Allow(Allowance),
    /// The limit does not apply to it.
    Skip,
}

/// How a limit chooses what a request gets.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What a request gets that has neither an override nor a listed plan.
    pub otherwise: Allowance,
    /// By plan; none: there are no plans.
    pub plans: Option<Plans>,
    /// By key.
    pub overrides: Overrides,
}

/// What the plans of a limit allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Plans {
    /// Where a request's plan is read; the first that is there counts.
    pub from: Vec<Source>,
    /// The same for people: "trusted header X-Plan".
    pub from_words: Arc<str>,
    /// By the plan's name, compared exactly but for blanks around it.
    pub listed: HashMap<Box<[u8]>, Allowance>,
}

impl Choice {
    /// What a request gets whose key is made of `values`; `params` is what the limit's `when` captured.
    ///
    /// # Errors
    /// Its plan counts, and the request names it twice.
    pub fn of(
        &self,
        values: &Values<'_>,
        facts: &Facts<'_>,
        params: &[(&str, Cow<'_, str>)],
    ) -> Result<Grant, Ambiguous> {
        if let Some(grant) = self.overrides.find(values, facts.client.address) {
            return Ok(grant);
        }
        let Some(plans) = &self.plans else {
            return Ok(Grant::Allow(self.otherwise));
        };
        let named = first(&plans.from, facts, params)?;
        let listed = named.and_then(|name| plans.listed.get(name.bytes.trim_ascii()));
        Ok(Grant::Allow(listed.copied().unwrap_or(self.otherwise)))
    }
}
