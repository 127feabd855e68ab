//! Amounts in plain words.

use std::time::Duration;

use crate::config::compile::Plan;
use crate::config::file::Algorithm;
use crate::config::units::{RateDecl, in_words, short, span_in_words};
use crate::limit::algorithm::{LEASE, Refill};
use crate::policy::{Begins, Then};
use crate::time::{Calendar, Unit};

/// One amount: "100 per minute, burst 20: at most 20 at once, then one every 600 ms".
pub(in crate::config) fn sentence(
    plan: &Plan,
    rate: &RateDecl,
    length: Duration,
    burst: Option<u64>,
) -> String {
    let words = rate.words();
    let window = short(length);
    let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
    let every = in_words(micros / rate.amount.max(1));
    let once = burst.unwrap_or(rate.amount);
    let said = burst.map_or_else(|| words.clone(), |burst| format!("{words}, burst {burst}"));
    match plan.algorithm {
        Algorithm::SlidingWindow => {
            format!("{words}: never more than {} in any {window}", rate.amount)
        }
        Algorithm::SlidingLog => {
            format!(
                "{words}: never more than {} in any {window}, remembering each request",
                rate.amount
            )
        }
        Algorithm::FixedWindow => format!(
            "{words}: {} from a key's first request to the end of its {window}, so up to {} around that end",
            rate.amount,
            rate.amount.saturating_mul(2)
        ),
        Algorithm::TokenBucket if plan.refill == Refill::Interval => {
            format!(
                "{said}: at most {once} at once, then {} more at the end of each {window}",
                rate.amount
            )
        }
        Algorithm::LeakyBucket if plan.queue > 0 => format!(
            "{said}: at most {once} at once, then one every {every}; up to {} wait their turn, each at most {}",
            plan.queue,
            short(plan.max_wait)
        ),
        Algorithm::TokenBucket | Algorithm::LeakyBucket => {
            format!("{said}: at most {once} at once, then one every {every}")
        }
    }
}

/// What going over a limit leads to; `after` so many rejections in so long.
pub(in crate::config) fn then(then: &Then, after: Option<(u64, Duration)>) -> String {
    let length = &then.words;
    match (then.begins, after) {
        (Begins::Answers, _) => {
            format!(
                "blocks for {length} when what stays charged after the answers reaches the amount"
            )
        }
        (Begins::Rejections, Some((count, within))) if count > 1 => format!(
            "blocks for {length} after {count} rejections in {}",
            span_in_words(within)
        ),
        (Begins::Rejections, _) => format!("blocks for {length} with its first rejection"),
    }
}

/// One amount: "10000 per calendar day in Europe/Paris: from midnight to midnight there".
pub(in crate::config) fn calendar(rate: &RateDecl, calendar: &Calendar) -> String {
    let place = match calendar.zone() {
        Calendar::UTC => "UTC",
        _ => "there",
    };
    let words = rate.words();
    match calendar.unit() {
        Unit::Minute => format!("{words}: from one full minute to the next, {place}"),
        Unit::Hour => format!("{words}: from one full hour to the next, {place}"),
        Unit::Day => format!("{words}: from midnight to midnight {place}"),
        Unit::Week => format!("{words}: from Monday to Monday, midnight {place}"),
        Unit::Month => format!("{words}: from the first to the first, midnight {place}"),
    }
}

/// `20 concurrent`.
pub(in crate::config) fn at_once(slots: u64) -> String {
    format!(
        "{slots} concurrent: at most {slots} at once, each until its answer has ended; a gateway that dies frees its slots within {}",
        in_words(LEASE.get())
    )
}
