//! What a limit means.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::{Allowance, Choice, CostRule, Count, Reply, Then};
use crate::limit::key::Source;
use crate::limit::{KeySpec, Meter};
use crate::request::Facts;
use crate::route::Index;
use crate::time::{Calendar, Timestamp};

/// A named rule: which requests, per which key, how much.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Unique, `[a-z0-9][a-z0-9_-]{0,31}`.
    pub name: Arc<str>,
    /// Requests that it does not count, from its `except` and `skip`; compares exactly.
    pub except: Index,
    /// Whose counter is charged.
    pub per: KeySpec,
    /// `per` in words, for people: "client address", "header X-User-Id".
    pub per_words: Arc<str>,
    /// Every amount that a request may be held to. Without a [`Choice`] all of them hold, and none means `unlimited`.
    pub amounts: Vec<Amount>,
    /// Which of them hold for whom; none: all of them for every request.
    pub choice: Option<Choice>,
    /// What a request costs.
    pub cost: CostRule,
    /// Which requests it counts in the end.
    pub count: Count,
    /// Whether it rejects.
    pub mode: LimitMode,
    /// An amount that is tried beside the others, with a code of its own: counted and reported, never enforced and never
    /// shown to clients.
    pub candidate: Option<Amount>,
    /// What going over it leads to.
    pub then: Option<Then>,
    /// What CORS preflights are to it.
    pub preflight: Preflight,
    /// What it does while the store is away.
    pub if_down: IfDown,
    /// What a client is answered that it rejects.
    pub reply: Reply,
}

impl Limit {
    /// Whether it counts a request that its `when` matches.
    #[must_use]
    pub fn applies(&self, facts: &Facts<'_>) -> bool {
        let free = self.preflight == Preflight::Free && facts.is_preflight();
        !free && self.except.first(facts).is_none()
    }

    /// Whether its key is in the body.
    #[must_use]
    pub fn counts_by_body(&self) -> bool {
        let mut sources = self.per.parts.iter().flatten();
        sources.any(|source| matches!(source, Source::Body(_)))
    }

    /// What holds where nothing is chosen: for every request, or for one with neither an override nor a listed plan.
    #[must_use]
    pub fn otherwise(&self) -> Allowance {
        self.choice.as_ref().map_or_else(
            || Allowance::new(0..self.amounts.len()),
            |choice| choice.otherwise,
        )
    }

    /// The amounts of an allowance, each with its index.
    pub fn held(&self, allowance: Allowance) -> impl Iterator<Item = (usize, &Amount)> {
        let run = allowance.run();
        run.clone().zip(self.amounts.get(run).unwrap_or_default())
    }

    /// One amount of each window: amounts of the same window share a counter and a name.
    #[must_use]
    pub fn windows(&self) -> &[Amount] {
        let first = self.amounts.first().map(|amount| &amount.shown_as);
        let again = self
            .amounts
            .iter()
            .skip(1)
            .position(|amount| Some(&amount.shown_as) == first);
        let end = again.map_or(self.amounts.len(), |at| at.saturating_add(1));
        self.amounts.get(..end).unwrap_or_default()
    }
}

/// One amount of a limit, with the counter that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// The algorithm with its amounts.
    pub meter: Meter,
    /// Whose windows they are, of an amount within a calendar's. The meters alone know none.
    pub calendar: Option<Arc<Calendar>>,
    /// CODE of the key: algorithm and window, as `sw60s`.
    pub code: Arc<str>,
    /// The name that clients see: the limit's, with the window where a limit has several amounts (`per-user-1s`,
    /// `per-user-concurrent`).
    pub shown_as: Arc<str>,
    /// The quota of a window, or what may be under way at once: `q` of `RateLimit-Policy`.
    pub quota: u64,
    /// The usual length of a window: `w` of `RateLimit-Policy`, in whole seconds, at least 1. None: they differ in length,
    /// or the quota is so much at once.
    pub window: Option<Duration>,
    /// The most that may pass at once, where that is not the quota.
    pub burst: Option<u64>,
    /// In words, as in "at most 100 per minute".
    pub words: Arc<str>,
}

impl Amount {
    /// What the store is asked by, when its clock shows `now`.
    #[must_use]
    pub fn meter_at(&self, now: impl FnOnce() -> Timestamp) -> Meter {
        match &self.calendar {
            Some(calendar) => self.meter.around(calendar.around(now())),
            None => self.meter,
        }
    }

    /// The share of one of so many gateways, each of which counts on its own.
    #[must_use]
    pub fn share_at(&self, instances: NonZeroU32, now: impl FnOnce() -> Timestamp) -> Meter {
        self.meter_at(now).divided(instances)
    }
}

/// What CORS preflights are to a limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Preflight {
    /// Requests as any other.
    #[default]
    Count,
    /// It does not apply to them: browsers send them without the fields that say who asks.
    Free,
}

/// What a limit does when the store cannot answer in time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IfDown {
    /// It lets pass.
    Allow,
    /// It answers 503.
    Deny,
    /// It counts in this process.
    #[default]
    Local,
}

/// What becomes of a request that is over a limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LimitMode {
    /// It is rejected.
    #[default]
    Enforce,
    /// It passes; it is only counted and reported.
    Shadow,
    /// It passes, and the upstream is told the limit's name.
    Tag,
}
