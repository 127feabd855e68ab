//! What operators see: metrics, events (a log line and a metric together), the access log.
//!
//! One [`Registry`] a process; each worker counts in cells of its own, which the registry sums at a scrape.

pub mod access;
pub mod events;
pub mod metrics;

pub use access::{AccessEntry, AccessSink};
pub use events::{Decided, DecisionSource, Events, LimitEvents, RouteEvents, UpstreamEvents};
pub use metrics::Registry;
