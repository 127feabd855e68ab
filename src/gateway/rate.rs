//! `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-11): what a client is told about its limits.

mod legacy;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use sfv::{FieldType as _, List, ListEntry, Parser};

use crate::limit::{Meter, Retry};
use crate::limiter::Shown;
use crate::policy::{Amount, HeaderFields, LegacyReset, Policy, RateLimitDialect};
use crate::time::Micros;

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");
/// The largest integer of a structured field (RFC 9651 section 3.3.1).
const LARGEST: u64 = 999_999_999_999_999;

/// What a client is told about its limits.
#[derive(Debug)]
pub(super) struct RateFields {
    /// The constant part of the fields, by index into `Policy::limits` and `Limit::amounts`.
    items: Vec<Vec<Item>>,
    /// Which fields are sent.
    fields: HeaderFields,
}

#[derive(Debug)]
struct Item {
    /// The item of `RateLimit-Policy`.
    policy: String,
    /// The name, as it opens the item of `RateLimit`.
    name: String,
    quota: u64,
    /// The most that may pass at once.
    burst: u64,
    pace: Pace,
}

/// How a client may understand `t`.
#[derive(Debug)]
enum Pace {
    /// Until what was spent counts no more.
    Window,
    /// A bucket refills while it is spent: r / t must not promise more than q / w. With w in seconds.
    Bucket(u64),
    /// Nobody knows when someone is done.
    Concurrency,
}

impl RateFields {
    pub(super) fn compile(policy: &Policy) -> Self {
        Self {
            items: policy
                .limits
                .iter()
                .map(|limit| limit.amounts.iter().map(Item::compile).collect())
                .collect(),
            fields: policy.headers,
        }
    }

    /// Takes from an answer what would contradict the gateway's own fields.
    pub(super) fn clear(&self, headers: &mut HeaderMap) {
        if self.fields.legacy != LegacyReset::Off {
            legacy::clear(headers);
        }
    }

    /// Adds the fields for what is shown.
    pub(super) fn add(&self, headers: &mut HeaderMap, shown: &[Shown]) {
        if self.fields.ratelimit == RateLimitDialect::Draft11 {
            self.add_lists(headers, shown);
        }
        let told = self.items(shown);
        match self.fields.legacy {
            LegacyReset::Off => {}
            reset @ (LegacyReset::Delta | LegacyReset::Epoch) => legacy::add(headers, told, reset),
        }
    }

    fn items<'a>(&'a self, shown: &'a [Shown]) -> impl Iterator<Item = (&'a Item, &'a Shown)> {
        shown
            .iter()
            .filter_map(|shown| Some((self.items.get(shown.limit)?.get(shown.amount)?, shown)))
    }

    /// `RateLimit-Policy` and `RateLimit`, in one list with what the upstream said of its own limits.
    fn add_lists(&self, headers: &mut HeaderMap, shown: &[Shown]) {
        let items = || self.items(shown);
        let mut policy = String::new();
        let mut state = String::new();
        for (item, shown) in items() {
            if !policy.is_empty() {
                policy.push_str(", ");
                state.push_str(", ");
            }
            policy.push_str(&item.policy);
            item.state(shown, &mut state);
        }
        if policy.is_empty() {
            return;
        }
        let taken = |name: &str| {
            items().any(|(item, _)| item.name.trim_matches('"').eq_ignore_ascii_case(name))
        };
        join(headers, POLICY, policy, "q", taken);
        join(headers, STATE, state, "r", taken);
    }
}

impl Item {
    fn compile(amount: &Amount) -> Self {
        let name = format!("\"{}\"", amount.shown_as);
        let quota = amount.quota.min(LARGEST);
        let window = amount
            .window
            .map(|window| window.as_secs().clamp(1, LARGEST));
        let mut policy = format!("{name};q={quota}");
        if let Some(window) = window {
            push(&mut policy, ";w=", window);
        }
        if let Meter::Concurrency(_) = amount.meter {
            policy.push_str(";qu=\"concurrent-requests\"");
        }
        if let Some(burst) = amount.burst {
            push(&mut policy, ";sluice-burst=", burst);
        }
        let pace = match (amount.meter, window) {
            (Meter::Concurrency(_), _) => Pace::Concurrency,
            (Meter::Bucket(_), Some(window)) => Pace::Bucket(window),
            (_, _) => Pace::Window,
        };
        Self {
            policy,
            name,
            quota,
            burst: amount.burst.unwrap_or(quota).min(LARGEST),
            pace,
        }
    }

    fn state(&self, shown: &Shown, out: &mut String) {
        out.push_str(&self.name);
        push(out, ";r=", left(shown));
        if let Some(seconds) = self.seconds(shown) {
            push(out, ";t=", seconds);
        }
    }

    /// `t`: whole seconds, rounded up; none where nobody knows.
    fn seconds(&self, shown: &Shown) -> Option<u64> {
        let reset = shown.quota.reset_after;
        match (shown.rejected, &self.pace) {
            (Some(Retry::After(retry)), _) => Some(retry.ceil_seconds().max(1)),
            (Some(Retry::Unknown), _) | (_, Pace::Concurrency) => None,
            (_, Pace::Window) => Some(reset.ceil_seconds()),
            (_, Pace::Bucket(window)) => {
                let time = self.time_for(left(shown), *window);
                Some(reset.max(time).ceil_seconds())
            }
        }
    }

    /// How long a quota of so many seconds takes to yield `units`.
    fn time_for(&self, units: u64, window: u64) -> Micros {
        let micros = u128::from(units) * u128::from(window) * 1_000_000;
        let time = micros.div_ceil(u128::from(self.quota.max(1)));
        Micros::new(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

/// `r`.
fn left(shown: &Shown) -> u64 {
    shown.quota.remaining.min(LARGEST)
}

fn push(out: &mut String, key: &str, value: u64) {
    out.push_str(key);
    out.push_str(&value.min(LARGEST).to_string());
}

/// One field line: ours first, then the upstream's items as far as they are well formed and under names of their own.
fn join(
    headers: &mut HeaderMap,
    field: HeaderName,
    mut ours: String,
    required: &str,
    taken: impl Fn(&str) -> bool,
) {
    for theirs in headers.get_all(&field) {
        let Ok(list) = Parser::new(theirs).parse::<List>() else {
            continue;
        };
        let kept: List = list
            .into_iter()
            .filter(|entry| is_sound(entry, required, &taken))
            .collect();
        if let Some(text) = kept.serialize() {
            ours.push_str(", ");
            ours.push_str(&text);
        }
    }
    if let Ok(value) = HeaderValue::try_from(ours) {
        headers.insert(field, value);
    }
}

fn is_sound(entry: &ListEntry, required: &str, taken: &impl Fn(&str) -> bool) -> bool {
    let ListEntry::Item(item) = entry else {
        return false;
    };
    let name = item.bare_item.as_string().map(|name| name.as_str());
    let name = name.or_else(|| item.bare_item.as_token().map(|name| name.as_str()));
    let value = item
        .params
        .get(required)
        .and_then(|value| value.as_integer());
    name.is_some_and(|name| !taken(name)) && value.is_some_and(|value| i64::from(value) >= 0)
}

#[cfg(test)]
mod tests;
