//! `X-RateLimit-Limit`, `-Remaining` and `-Reset`: no standard, and room for one amount only. They describe the one that
//! binds first, in the numbers of `RateLimit`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use super::{Item, left};
use crate::limiter::Shown;
use crate::policy::LegacyReset;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Removes all three.
pub(super) fn clear(headers: &mut HeaderMap) {
    for field in [LIMIT, REMAINING, RESET] {
        headers.remove(field);
    }
}

/// Sets all three for the amount that binds first; no reset where nobody knows when that is.
pub(super) fn add<'a>(
    headers: &mut HeaderMap,
    told: impl Iterator<Item = (&'a Item, &'a Shown)>,
    reset: LegacyReset,
) {
    let Some((item, shown)) = told.reduce(tighter) else {
        return;
    };
    headers.insert(LIMIT, HeaderValue::from(item.quota));
    headers.insert(REMAINING, HeaderValue::from(left(shown)));
    if let Some(seconds) = item.seconds(shown) {
        let value = match reset {
            LegacyReset::Epoch => epoch(seconds, SystemTime::now()),
            LegacyReset::Delta | LegacyReset::Off => seconds,
        };
        headers.insert(RESET, HeaderValue::from(value));
    }
}

/// The one that rejects longest; where none rejects, the one of which the smallest share is left. The first of equals.
fn tighter<'a>(one: (&'a Item, &'a Shown), other: (&'a Item, &'a Shown)) -> (&'a Item, &'a Shown) {
    let shares = share(other, one).cmp(&share(one, other));
    let order = other.1.rejected.cmp(&one.1.rejected);
    if order.then(shares.reverse()).is_gt() {
        other
    } else {
        one
    }
}

/// What is left of `one`, on a scale that it shares with `other`.
fn share(one: (&Item, &Shown), other: (&Item, &Shown)) -> u128 {
    u128::from(left(one.1)) * u128::from(other.0.burst)
}

/// The moment `seconds` from `now`, in whole seconds since the epoch, never too early.
fn epoch(seconds: u64, now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let begun = u64::from(since.subsec_nanos() > 0);
    since
        .as_secs()
        .saturating_add(begun)
        .saturating_add(seconds)
}
