//! `retry_jitter`: clients that were rejected together do not come back together.

use std::time::Duration;

use crate::limit::Retry;
use crate::limiter::Refusal;
use crate::store::random_number;
use crate::time::Micros;

/// The refusal with a later time to come back, by at most `most`; never an earlier one. One number for the whole
/// refusal, so that `Retry-After` and `RateLimit` agree.
pub(super) fn later(refusal: Refusal, most: Duration) -> Refusal {
    let most = Micros::from(most).get();
    if most == 0 {
        return refusal;
    }
    // Without randomness all come at the earliest moment, which is right too.
    let by = random_number().map_or(0, |number| number % (most + 1));
    moved(refusal, Micros::new(by))
}

fn moved(refusal: Refusal, by: Micros) -> Refusal {
    let push = |retry: Retry| match retry {
        Retry::After(span) => Retry::After(Micros::new(span.get().saturating_add(by.get()))),
        Retry::Unknown | Retry::Never => retry,
    };
    match refusal {
        Refusal::Limited {
            retry,
            mut shown,
            met,
        } => {
            for shown in &mut shown {
                shown.rejected = shown.rejected.map(push);
            }
            Refusal::Limited {
                retry: push(retry),
                shown,
                met,
            }
        }
        Refusal::StoreDown { limit, retry } => Refusal::StoreDown {
            limit,
            retry: retry.saturating_add(by.into()),
        },
        refusal @ (Refusal::Unkeyed { .. }
        | Refusal::AmbiguousKey { .. }
        | Refusal::AmbiguousPlan { .. }) => refusal,
    }
}
