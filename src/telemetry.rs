//! What operators see: metrics, events (a log line and a metric together), the access log.
//!
//! One [`Registry`] a process; each worker counts in cells of its own, which the registry sums at a scrape. Labels come
//! only from the configuration, never from a client.

pub mod access;
mod cells;
pub mod events;
mod groups;
pub mod metrics;
mod quiet;
mod series;

pub use access::{AccessEntry, AccessSink};
pub use events::{Decided, DecisionSource, Events, LimitEvents, RouteEvents, UpstreamEvents};
pub use metrics::Registry;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Takes a lock; what another thread left behind when it panicked is still a valid count.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
