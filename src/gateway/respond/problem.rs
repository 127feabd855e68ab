//! The body of an answer that the gateway makes (RFC 9457). Nothing in it comes from the client.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::StatusCode;
use serde::Serialize;

use super::Rejection;
use crate::limit::Retry;
use crate::limiter::{Cause, Refusal, Shown};
use crate::policy::{Limit, Policy};
use crate::time::Micros;

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";

/// A problem, as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Problem<'p> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    #[serde(rename = "violated-policies", skip_serializing_if = "Vec::is_empty")]
    violated: Vec<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<Cow<'static, str>>,
}

impl<'p> Problem<'p> {
    /// Of an answer with this status.
    pub(super) fn of(rejection: &Rejection, status: StatusCode, policy: &'p Policy) -> Self {
        let problem = Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            violated: Vec::new(),
            detail: detail(rejection).map(Cow::Borrowed),
        };
        let Rejection::Refused(refusal) = rejection else {
            return problem;
        };
        let (kind, title) = match refusal {
            Refusal::Limited { .. } => (QUOTA_EXCEEDED, "Too many requests"),
            Refusal::StoreDown { .. } => (REDUCED_CAPACITY, "Temporarily reduced capacity"),
            _ => (problem.kind, problem.title),
        };
        let violated = violated(refusal, policy);
        Self {
            kind,
            title,
            violated,
            detail: refused(refusal, policy).map(Cow::Owned),
            ..problem
        }
    }

    pub(super) fn to_json(&self) -> Bytes {
        // Plain texts and numbers: there is nothing in it that JSON cannot hold.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

fn detail(rejection: &Rejection) -> Option<&'static str> {
    Some(match rejection {
        Rejection::Malformed(why) => why,
        Rejection::Framing => "the length of the body is ambiguous",
        Rejection::Method => "this gateway does not forward this method",
        Rejection::TargetTooLong => "the request target is longer than 8 KiB",
        Rejection::Expectation => "only 100-continue can be expected",
        Rejection::Loop => "the request has passed this gateway before",
        Rejection::NoRoute => "no route matches this request",
        Rejection::Crowded { .. } => "too many requests wait their turn already",
        Rejection::SlowUpload => "the body of the request stopped coming",
        Rejection::Connect(_) => "the upstream cannot be reached",
        Rejection::Upstream(super::Fault::Silent) => "the upstream did not answer in time",
        Rejection::Upstream(_) => "the upstream's answer is broken",
        Rejection::Refused(_) | Rejection::ClientGone => return None,
    })
}

/// The names of the policies that stood in the way, as `RateLimit-Policy` calls them.
fn violated<'p>(refusal: &Refusal, policy: &'p Policy) -> Vec<&'p str> {
    match refusal {
        Refusal::Limited { shown, .. } => shown
            .iter()
            .filter(|shown| shown.rejected.is_some())
            .filter_map(|shown| {
                Some(
                    &*policy
                        .limits
                        .get(shown.limit)?
                        .amounts
                        .get(shown.amount)?
                        .shown_as,
                )
            })
            .collect(),
        Refusal::StoreDown { limit, .. } => {
            let amounts = policy
                .limits
                .get(*limit)
                .map(Limit::windows)
                .unwrap_or_default();
            amounts.iter().map(|amount| &*amount.shown_as).collect()
        }
        _ => Vec::new(),
    }
}

/// In words: "at most 100 per minute per client address; try again in 12 s".
fn refused(refusal: &Refusal, policy: &Policy) -> Option<String> {
    match refusal {
        Refusal::Limited { retry, shown, .. } => {
            let decisive = refusal.decisive()?;
            if decisive.cause == Cause::Block
                && let Retry::After(span) = retry
            {
                return blocked(decisive.limit, shown, *span, policy);
            }
            let bound = bound(decisive, policy)?;
            Some(match retry {
                Retry::After(span) => {
                    format!("{bound}; try again in {} s", span.ceil_seconds().max(1))
                }
                Retry::Unknown => format!("{bound}; try again when one of them has ended"),
                Retry::Never => format!("{bound}; this request costs more than that"),
            })
        }
        Refusal::Unkeyed { limit } => {
            let limit = policy.limits.get(*limit)?;
            Some(format!(
                "the request does not say whom to count it for: {} is missing",
                limit.per_words
            ))
        }
        Refusal::AmbiguousKey { limit } => {
            let limit = policy.limits.get(*limit)?;
            Some(format!(
                "the request says twice whom to count it for: {}",
                limit.per_words
            ))
        }
        Refusal::AmbiguousPlan { limit } => {
            let plans = policy.limits.get(*limit)?.choice.as_ref()?.plans.as_ref()?;
            Some(format!(
                "the request says twice which plan it has: {}",
                plans.from_words
            ))
        }
        Refusal::StoreDown { .. } => Some("requests cannot be counted at the moment".to_owned()),
    }
}

/// "blocked for 15 minutes after going over 5 per hour per client address; try again in 12 min".
fn blocked(index: usize, shown: &[Shown], left: Micros, policy: &Policy) -> Option<String> {
    let limit = policy.limits.get(index)?;
    let length = &limit.then.as_ref()?.words;
    let amounts = shown
        .iter()
        .filter(|shown| shown.limit == index)
        .filter_map(|shown| Some(&*limit.amounts.get(shown.amount)?.words));
    let amounts = amounts.collect::<Vec<_>>().join(" or ");
    Some(format!(
        "blocked for {length} after going over {amounts} per {}; try again in {}",
        limit.per_words,
        wait(left)
    ))
}

/// A wait that is rounded up, in seconds up to two minutes, in minutes up to two hours, else in hours.
fn wait(span: Micros) -> String {
    let seconds = span.ceil_seconds().max(1);
    match seconds {
        0..=120 => format!("{seconds} s"),
        121..=7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

fn bound(shown: &Shown, policy: &Policy) -> Option<String> {
    let limit = policy.limits.get(shown.limit)?;
    let words = &limit.amounts.get(shown.amount)?.words;
    let words = words.strip_prefix("at most ").unwrap_or(words);
    Some(format!("at most {words} per {}", limit.per_words))
}
