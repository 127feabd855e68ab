//! Who gets which amount: `allow`, `plans` and `overrides`, which share one counter.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::decode::At;
use super::super::file::{Allow, File, LimitDecl, PlanSource};
use super::super::report::{Findings, Span};
use super::super::units::RateDecl;
use super::meters::{self, Plan};
use super::overrides;
use super::routes::Routes;
use crate::limit::Meter;
use crate::limit::key::Source;
use crate::policy::{Allowance, Amount, Choice, Overrides, Plans};

/// What a limit allows, and whom.
pub(super) struct Allowed {
    pub(super) amounts: Vec<Amount>,
    pub(super) choice: Option<Choice>,
    /// What `allow` says, a sentence an amount.
    pub(super) sentences: Vec<String>,
    /// What each plan gets.
    pub(super) plans: Vec<String>,
}

/// Compiles every amount of a limit.
pub(super) fn allowed(
    decl: &LimitDecl,
    file: &File,
    routes: &Routes,
    found: &mut Findings,
) -> Option<Allowed> {
    let mut amounts = Amounts::new(decl, file, routes, found)?;
    let otherwise = decl
        .allow
        .as_ref()
        .and_then(|allow| amounts.add(allow, found));
    let plans = match &decl.plans {
        None => Some((None, Vec::new())),
        Some(_) => {
            plans(decl, file, &mut amounts, found).map(|(plans, words)| (Some(plans), words))
        }
    };
    let overrides = match &decl.overrides {
        None => Some(Overrides::default()),
        Some(_) => overrides::overrides(decl, file, routes, &mut amounts, found),
    };
    let (otherwise, sentences) = otherwise?;
    let (plans, words) = plans?;
    let overrides = overrides?;
    let choice = (plans.is_some() || !overrides.is_empty()).then_some(Choice {
        otherwise,
        plans,
        overrides,
    });
    Some(Allowed {
        amounts: amounts.all,
        choice,
        sentences,
        plans: words,
    })
}

/// The amounts of a limit, each once.
pub(super) struct Amounts<'f> {
    decl: &'f LimitDecl,
    /// How all of them are counted; none: all are `unlimited`.
    plan: Option<Plan>,
    all: Vec<Amount>,
    known: HashMap<Vec<Meter>, Allowance>,
    /// The windows that all of them have, and where they were given.
    windows: Option<(Vec<Arc<str>>, Span)>,
}

impl<'f> Amounts<'f> {
    /// No amounts yet. What is said first says how they are counted: `allow`, else the plans, else the overrides.
    fn new(
        decl: &'f LimitDecl,
        file: &File,
        routes: &Routes,
        found: &mut Findings,
    ) -> Option<Self> {
        let plans = decl.plans.iter().flat_map(|plans| &plans.listed);
        let overrides = decl.overrides.iter().flatten();
        let allow: Vec<At<RateDecl>> = rates(&decl.allow.iter().collect::<Vec<_>>());
        let plans = rates(&plans.map(|(_, allow)| allow).collect::<Vec<_>>());
        let overrides = rates(
            &overrides
                .filter_map(|one| one.allow.as_ref())
                .collect::<Vec<_>>(),
        );
        let deciding = [allow, plans, overrides]
            .into_iter()
            .find(|rates| !rates.is_empty());
        let plan = match deciding {
            Some(rates) => Some(meters::plan(decl, &rates, file, routes, found)?),
            None => None,
        };
        Some(Self {
            decl,
            plan,
            all: Vec::new(),
            known: HashMap::new(),
            windows: None,
        })
    }

    /// Adds what one says, with a sentence for each of its amounts.
    pub(super) fn add(
        &mut self,
        allow: &Allow,
        found: &mut Findings,
    ) -> Option<(Allowance, Vec<String>)> {
        let (Allow::Rates(rates), Some(plan)) = (allow, &self.plan) else {
            return Some((Allowance::UNLIMITED, vec!["unlimited".to_owned()]));
        };
        let span = rates.first()?.span;
        let mut held = meters::amounts(plan, self.decl, rates, found)?;
        let codes = || held.iter().map(|(amount, _)| Arc::clone(&amount.code));
        let (windows, first) = self
            .windows
            .get_or_insert_with(|| (codes().collect(), span));
        let mut order = Vec::new();
        for code in codes() {
            order.extend(windows.iter().position(|window| *window == code));
        }
        if order.len() != windows.len() || held.len() != windows.len() {
            found
                .error(span, "all amounts of a limit have the same windows, and these differ")
                .also(*first, "from those here")
                .help("they share one counter, so that a key whose amount changes keeps what it has used");
            return None;
        }
        held.sort_by_cached_key(|(amount, _)| {
            windows.iter().position(|window| *window == amount.code)
        });
        let (amounts, sentences): (Vec<Amount>, Vec<String>) = held.into_iter().unzip();
        let meters = amounts.iter().map(|amount| amount.meter).collect();
        let allowance = *self.known.entry(meters).or_insert_with(|| {
            let first = self.all.len();
            self.all.extend(amounts);
            Allowance::new(first..self.all.len())
        });
        Some((allowance, sentences))
    }
}

fn rates(allows: &[&Allow]) -> Vec<At<RateDecl>> {
    let rates = allows.iter().flat_map(|allow| allow.rates());
    rates.cloned().collect()
}

/// What each plan gets, and the same in words.
fn plans(
    decl: &LimitDecl,
    file: &File,
    amounts: &mut Amounts<'_>,
    found: &mut Findings,
) -> Option<(Plans, Vec<String>)> {
    let plans = decl.plans.as_ref()?;
    let mut listed = HashMap::new();
    let mut words = Vec::new();
    let mut whole = true;
    for (name, allow) in &plans.listed {
        match amounts.add(allow, found) {
            Some((allowance, sentences)) => {
                listed.insert(name.value.as_bytes().into(), allowance);
                words.push(format!("{}: {}", name.value, sentences.join("; ")));
            }
            None => whole = false,
        }
    }
    let Some(from) = plans.from.as_ref().or(file.plan.as_ref()) else {
        found
            .error(plans.span, "nothing says where a request's plan comes from")
            .help("write `plan: trusted header X-Plan` at the top of the file, or `from: ...` among the plans");
        return None;
    };
    warn_of_source(from, file, found);
    let plans = Plans {
        from: from.value.sources.clone(),
        from_words: Arc::from(from.value.words.as_str()),
        listed,
    };
    whole.then_some((plans, words))
}

/// A plan that any client can claim, or that nobody can.
fn warn_of_source(from: &At<PlanSource>, file: &File, found: &mut Findings) {
    let forged = |source: &Source| {
        matches!(
            source,
            Source::Header(_) | Source::Cookie(_) | Source::Query(_)
        )
    };
    let trusted = |source: &Source| matches!(source, Source::TrustedHeader(_));
    if from.value.sources.iter().any(forged) {
        found
            .warn(
                from.span,
                "any client can write this, and so choose its plan",
            )
            .help("`trusted header NAME` counts only when a peer in `trusted_proxies` sends it");
    } else if file.clients.trusted.is_empty() && from.value.sources.iter().all(trusted) {
        found
            .warn(from.span, "no peer is trusted, so no request has a plan")
            .help("name in `trusted_proxies` who sets this header");
    }
}
