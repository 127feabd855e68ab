//! Amounts, with the algorithm that holds them.

use std::sync::Arc;
use std::time::Duration;

use super::super::decode::At;
use super::super::explain;
use super::super::file::{Algorithm, File, LimitDecl};
use super::super::report::{Findings, Span};
use super::super::units::{self, RateDecl, Within};
use super::calendars;
use super::routes::{Routes, shortest_response};
use super::slots;
use crate::limit::Meter;
use crate::limit::algorithm::{
    Bucket, BucketSpec, FixedWindow, InvalidMeter, Refill, SlidingLog, SlidingWindow,
};
use crate::policy::Amount;
use crate::time::Micros;

/// How long a request waits in a queue at most, where nothing is said.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// What holds for all amounts of a limit.
pub(in crate::config) struct Plan {
    pub(in crate::config) algorithm: Algorithm,
    pub(in crate::config) refill: Refill,
    /// Nobody waits: 0.
    pub(in crate::config) queue: u64,
    pub(in crate::config) max_wait: Duration,
}

/// Amounts that hold together, each with what it means in words.
pub(super) fn amounts(
    plan: &Plan,
    decl: &LimitDecl,
    rates: &[At<RateDecl>],
    found: &mut Findings,
) -> Option<Vec<(Amount, String)>> {
    let mut whole = check_windows(rates, found);
    let burst = rates.iter().find(|rate| rate.value.burst().is_some());
    if let Some(rate) = burst.filter(|_| !plan.algorithm.is_bucket()) {
        misplaced(rate.span, "burst", BUCKETS, plan.algorithm, found);
        whole = false;
    }
    if plan.queue > 0 && rates.len() > 1 {
        found
            .error(decl.name.span, "a limit with a queue has one amount")
            .help("make two limits of it");
        whole = false;
    }
    let mut amounts = Vec::new();
    for rate in rates {
        match amount(plan, decl, &rate.value, rates.len()) {
            Ok(amount) => amounts.push(amount),
            Err(InvalidMeter(why)) => {
                found.error(rate.span, why);
                whole = false;
            }
        }
    }
    whole.then_some(amounts)
}

/// The algorithm, and what belongs to it. `rates` are what `allow` says, or what stands in its place.
pub(super) fn plan(
    decl: &LimitDecl,
    rates: &[At<RateDecl>],
    file: &File,
    routes: &Routes,
    found: &mut Findings,
) -> Option<Plan> {
    let burst = rates.iter().find(|rate| rate.value.burst().is_some());
    let implied = if burst.is_some() {
        Algorithm::TokenBucket
    } else if rates.iter().all(calendars::is_calendar) {
        Algorithm::FixedWindow
    } else {
        Algorithm::SlidingWindow
    };
    let algorithm = decl.algorithm.as_ref().map_or(implied, |at| at.value);
    let mut whole = calendars::check(decl, rates, found);
    let mut misplaced = |span: Span, field: &str, owners: &str| {
        misplaced(span, field, owners, algorithm, found);
        whole = false;
    };
    if let Some(rate) = burst.filter(|_| !algorithm.is_bucket()) {
        misplaced(rate.span, "burst", BUCKETS);
    }
    if let Some(refill) = decl
        .refill
        .as_ref()
        .filter(|_| algorithm != Algorithm::TokenBucket)
    {
        misplaced(refill.span, "refill", "token_bucket");
    }
    if let Some(queue) = decl
        .queue
        .as_ref()
        .filter(|_| algorithm != Algorithm::LeakyBucket)
    {
        misplaced(queue.span, "queue", "leaky_bucket");
    } else if let Some(wait) = decl
        .max_wait
        .as_ref()
        .filter(|_| algorithm != Algorithm::LeakyBucket)
    {
        misplaced(wait.span, "max_wait", "leaky_bucket");
    }
    let queue = decl.queue.as_ref().map_or(0, |queue| queue.value);
    let max_wait = max_wait(decl, queue, file, routes, found);
    let refill = decl
        .refill
        .as_ref()
        .map_or(Refill::Continuous, |refill| refill.value);
    whole.then_some(Plan {
        algorithm,
        refill,
        queue,
        max_wait,
    })
}

/// The owners of `burst`.
const BUCKETS: &str = "token_bucket and leaky_bucket";

/// A field that means nothing to the algorithm.
fn misplaced(span: Span, field: &str, owners: &str, algorithm: Algorithm, found: &mut Findings) {
    let word = algorithm.word();
    let problem = found.error(
        span,
        format!("`{field}` belongs to {owners}, and this is a {word}"),
    );
    problem.help(format!(
        "write `algorithm: {}`, or remove `{field}`",
        owners.split(' ').next().unwrap_or_default()
    ));
}

fn max_wait(
    decl: &LimitDecl,
    queue: u64,
    file: &File,
    routes: &Routes,
    found: &mut Findings,
) -> Duration {
    let response = shortest_response(file, routes);
    let bound = response
        .as_ref()
        .map_or(MAX_WAIT, |response| response.value);
    let Some(given) = &decl.max_wait else {
        return MAX_WAIT.min(bound);
    };
    if queue == 0 && decl.queue.is_none() {
        found
            .error(given.span, "nobody waits without a `queue`")
            .help("add `queue: 10`, or remove `max_wait`");
    }
    if let Some(response) = response.filter(|response| given.value > response.value) {
        found
            .error(
                given.span,
                "this is longer than a route waits for its answer",
            )
            .also(
                response.span,
                format!(
                    "the shortest response timeout is {}",
                    units::short(response.value)
                ),
            );
    }
    given.value
}

/// Two amounts of the same window would share one counter.
fn check_windows(rates: &[At<RateDecl>], found: &mut Findings) -> bool {
    let mut whole = true;
    for (index, rate) in rates.iter().enumerate() {
        let first = rates
            .iter()
            .take(index)
            .find(|other| same_window(&other.value, &rate.value));
        if let Some(first) = first {
            let problem = match rate.value.within {
                Within::Window { .. } | Within::Calendar(_) => {
                    "two amounts of one limit have the same window"
                }
                Within::Concurrent => "a limit says twice how much is at once",
            };
            found
                .error(rate.span, problem)
                .also(first.span, "first here")
                .help("the smaller one holds: remove the other");
            whole = false;
        }
    }
    whole
}

fn same_window(one: &RateDecl, other: &RateDecl) -> bool {
    match (&one.within, &other.within) {
        (Within::Window { length: one, .. }, Within::Window { length: other, .. }) => one == other,
        (Within::Calendar(one), Within::Calendar(other)) => one.unit() == other.unit(),
        (Within::Concurrent, Within::Concurrent) => true,
        (Within::Window { .. } | Within::Calendar(_) | Within::Concurrent, _) => false,
    }
}

/// What holds one amount, and what it means in words.
pub(super) fn amount(
    plan: &Plan,
    decl: &LimitDecl,
    rate: &RateDecl,
    count: usize,
) -> Result<(Amount, String), InvalidMeter> {
    let name = decl.name.value.as_str();
    let shown_as = |window: &str| match count {
        1 => Arc::from(name),
        _ => Arc::from(format!("{name}-{window}")),
    };
    match &rate.within {
        &Within::Window { length, burst } => {
            let burst = size(plan, rate.amount, burst);
            let meter = meter(plan, rate.amount, length, burst)?;
            let burst = burst.filter(|burst| *burst != rate.amount);
            let words = match burst {
                Some(burst) => format!("{} ({burst} at once)", rate.words()),
                None => rate.words(),
            };
            let amount = Amount {
                meter,
                calendar: None,
                code: Arc::from(code(plan, length)),
                shown_as: shown_as(&units::short(length)),
                quota: rate.amount,
                window: Some(Duration::from_secs(
                    Micros::from(length).ceil_seconds().max(1),
                )),
                burst,
                words: Arc::from(words),
            };
            Ok((amount, explain::sentence(plan, rate, length, burst)))
        }
        Within::Calendar(calendar) => {
            let amount = calendars::amount(rate, calendar, &shown_as(calendar.unit().word()))?;
            Ok((amount, explain::calendar(rate, calendar)))
        }
        Within::Concurrent => {
            let amount = slots::amount(rate, shown_as("concurrent"))?;
            Ok((amount, explain::at_once(rate.amount)))
        }
    }
}

/// The size of the bucket, where there is one: what is said, else the amount, and 1 where there is a queue.
fn size(plan: &Plan, amount: u64, burst: Option<u64>) -> Option<u64> {
    match plan.algorithm {
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            Some(burst.unwrap_or(if plan.queue > 0 { 1 } else { amount }))
        }
        Algorithm::SlidingWindow | Algorithm::SlidingLog | Algorithm::FixedWindow => None,
    }
}

fn meter(
    plan: &Plan,
    amount: u64,
    length: Duration,
    burst: Option<u64>,
) -> Result<Meter, InvalidMeter> {
    let window = Micros::from(length);
    Ok(match plan.algorithm {
        Algorithm::SlidingWindow => Meter::SlidingWindow(SlidingWindow::new(amount, window)?),
        Algorithm::SlidingLog => Meter::SlidingLog(SlidingLog::new(amount, window)?),
        Algorithm::FixedWindow => Meter::FixedWindow(FixedWindow::new(amount, window)?),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            Meter::Bucket(Bucket::new(BucketSpec {
                amount,
                window,
                burst: burst.unwrap_or(amount),
                queue: plan.queue,
                max_wait: Micros::from(plan.max_wait),
                refill: plan.refill,
            })?)
        }
    })
}

/// Algorithm and window, as they stand in a key: a change of either starts a fresh count.
fn code(plan: &Plan, window: Duration) -> String {
    let algorithm = match (plan.algorithm, plan.refill) {
        (Algorithm::SlidingWindow, _) => "sw",
        (Algorithm::SlidingLog, _) => "sl",
        (Algorithm::FixedWindow, _) => "fw",
        (Algorithm::TokenBucket, Refill::Interval) => "ti",
        (Algorithm::TokenBucket, Refill::Continuous) => "tb",
        (Algorithm::LeakyBucket, _) => "lb",
    };
    match window.subsec_nanos() {
        0 => format!("{algorithm}{}s", window.as_secs()),
        _ => format!("{algorithm}{}ms", window.as_millis()),
    }
}
