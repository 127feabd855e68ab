//! One method for each event: the log line and the metric together. `Send + Sync`, cheap to clone, one for each worker.
use std::sync::Arc;
use std::time::Duration;
use super::Registry;

/// The events of one worker (or of the admin runtime).
#[derive(Clone, Debug)]
pub struct Events(Registry);

/// How a request fared with one limit: the label `decision`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Decided {
    /// It passed at once.
    Allowed,
    /// It waited its turn.
    Delayed,
    /// It was over the limit.
    Rejected,
    /// Its cost can never pass.
    Never,
    /// It was over a limit in shadow.
    ShadowRejected,
    /// The limit did not apply (`skip`, `except`, `if_missing: skip`).
    Skipped,
    /// The store was away and the limit says `deny`.
    StoreDown,
}

/// Who decided: the label `source`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum DecisionSource {
    /// The store.
    Store,
    /// This process, while the store is away.
    Local,
    /// Nobody: the store is away and the limit says `allow`.
    Open,
    /// Nobody: the store is away and the limit says `deny`.
    Closed,
}

impl Events {
    /// The events of one more worker, counted in `registry`.
    #[must_use]
    pub fn new(registry: &Registry) -> Self { Self(registry.clone()) }
    /// The cells of a limit, resolved once for each snapshot.
    #[must_use]
    pub fn limit(&self, _name: &str) -> LimitEvents { LimitEvents }
    /// The cells of a route (`none` where nothing matched), resolved once for each snapshot.
    #[must_use]
    pub fn route(&self, _name: &str) -> RouteEvents { RouteEvents }
    /// The cells of an upstream, resolved once for each snapshot.
    #[must_use]
    pub fn upstream(&self, _name: &str) -> UpstreamEvents { UpstreamEvents }
    /// A call to the store came back (or failed) after `took`, carrying `batch` requests.
    pub fn store_call(&self, _took: Duration, _batch: usize) {}
    /// A call to the store failed; `kind` is one of a closed set (`timeout`, `unreachable`, `noscript`, `loading`, ...), `detail` is for the log and carries no credential.
    pub fn store_error(&self, _kind: &'static str, _detail: &dyn std::fmt::Display) {}
    /// Whether the store answers: moves `sluice_store_up`, logs changes only.
    pub fn store_up(&self, _up: bool) {}
    /// Whether the breaker is open: moves `sluice_store_breaker_open`, logs changes only.
    pub fn store_breaker(&self, _open: bool) {}
    /// Whether decisions are being made without the store: `sluice_store_fallback`.
    pub fn store_fallback(&self, _active: bool) {}
    /// A settlement was dropped because the queue was full.
    pub fn settlement_dropped(&self) {}
    /// How many keys the memory store holds, and how many it may.
    pub fn keys(&self, _now: usize, _max: usize) {}
    /// A client connected to `listener` (its address as configured); the guard counts it out again.
    #[must_use]
    pub fn connection(&self, _listener: &str) -> ConnectionGuard { ConnectionGuard }
    /// A connection was refused or closed before it made a request.
    pub fn connection_refused(&self, _reason: &'static str) {}
    /// A reload ended: `ok`, `invalid` or `restart_required`.
    pub fn reloaded(&self, _result: &'static str) {}
}

/// Counts a connection out when dropped.
#[derive(Debug)]
pub struct ConnectionGuard;

/// The cells of one limit.
#[derive(Clone, Debug)]
pub struct LimitEvents;
impl LimitEvents {
    /// One request met the limit.
    pub fn decided(&self, _decided: Decided) {}
    /// Who decided.
    pub fn source(&self, _source: DecisionSource) {}
    /// The share of the quota that was used after the decision, from 0 to 1.
    pub fn used(&self, _used: u64, _quota: u64) {}
    /// A request waits this long in the queue.
    pub fn delayed(&self, _by: Duration) {}
    /// Every part of the key was absent.
    pub fn key_missing(&self) {}
}

/// The cells of one route.
#[derive(Clone, Debug)]
pub struct RouteEvents;
impl RouteEvents {
    /// A request ended: `sluice_requests_total` and `sluice_request_duration_seconds`.
    pub fn ended(&self, _method: &hyper::Method, _code: u16, _took: Duration) {}
}

/// The cells of one upstream.
#[derive(Clone, Debug)]
pub struct UpstreamEvents;
impl UpstreamEvents {
    /// A request goes to the upstream; the guard counts it out again.
    #[must_use]
    pub fn begin(&self) -> UpstreamGuard { UpstreamGuard }
    /// The head of an answer came after `took`; or none: `code` is then the answer that the gateway makes.
    pub fn answered(&self, _code: u16, _took: Duration) {}
}

/// Counts a request in flight to an upstream out when dropped.
#[derive(Debug)]
pub struct UpstreamGuard;

/// Shared text of a label.
pub type Label = Arc<str>;
