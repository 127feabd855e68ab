//! One method for each event: the log line and the metric together. `Send + Sync`, cheap to clone, one for each worker.

pub use super::decided::{Decided, DecisionSource};

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use super::Registry;
use super::cells::Changed;
use super::groups::{LimitCells, ListenerCells, RouteCells, UpstreamCells, WorkerCells};
use super::metrics::unix_seconds;
use super::series::Held;

/// The events of one worker (or of the admin runtime).
#[derive(Clone, Debug)]
pub struct Events {
    worker: Arc<Worker>,
    cells: Held<WorkerCells>,
}

/// The worker's number, which goes back to the registry when its last [`Events`] is gone.
#[derive(Debug)]
struct Worker {
    number: usize,
    registry: Registry,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.registry.workers().give_back(self.number);
    }
}

impl Events {
    /// The events of one more worker, counted in `registry`.
    #[must_use]
    pub fn new(registry: &Registry) -> Self {
        let number = registry.workers().take();
        let cells = registry.groups().workers.hold("", number);
        Self {
            worker: Arc::new(Worker {
                number,
                registry: registry.clone(),
            }),
            cells,
        }
    }

    fn registry(&self) -> &Registry {
        &self.worker.registry
    }

    #[cfg(test)]
    pub(super) fn number(&self) -> usize {
        self.worker.number
    }

    /// The cells of a limit, resolved once for each snapshot. Its series show from now on, at 0.
    #[must_use]
    pub fn limit(&self, name: &str) -> LimitEvents {
        LimitEvents(
            self.registry()
                .groups()
                .limits
                .hold(name, self.worker.number),
        )
    }

    /// The cells of a route (`none` where nothing matched), resolved once for each snapshot.
    #[must_use]
    pub fn route(&self, name: &str) -> RouteEvents {
        RouteEvents(
            self.registry()
                .groups()
                .routes
                .hold(name, self.worker.number),
        )
    }

    /// The cells of an upstream, resolved once for each snapshot.
    #[must_use]
    pub fn upstream(&self, name: &str) -> UpstreamEvents {
        UpstreamEvents(
            self.registry()
                .groups()
                .upstreams
                .hold(name, self.worker.number),
        )
    }

    /// A call to the store came back (or failed) after `took`, carrying `batch` requests.
    pub fn store_call(&self, took: Duration, batch: usize) {
        self.cells.store_duration.observe_span(took);
        self.cells
            .store_batch
            .observe(u64::try_from(batch).unwrap_or(u64::MAX));
    }

    /// A call to the store failed, or something about the store is not as it should be; `kind` is one of a closed set (`timeout`, `unreachable`, `noscript`, `loading`, ...), `detail` is for the log and carries no credential.
    pub fn store_error(&self, kind: &'static str, detail: &dyn Display) {
        let process = &self.registry().groups().process;
        if let Some(errors) = process.store_errors.add(kind) {
            tracing::warn!(kind, errors, %detail, "trouble with the store");
        }
    }

    /// Whether the store answers: moves `sluice_store_up`, logs changes only.
    pub fn store_up(&self, up: bool) {
        if self.registry().groups().process.store_up.set(u64::from(up)) == Changed::Yes {
            if up {
                tracing::info!("the store answers again");
            } else {
                tracing::warn!("the store is away");
            }
        }
    }

    /// Whether the breaker is open: moves `sluice_store_breaker_open`, logs changes only.
    pub fn store_breaker(&self, open: bool) {
        if self
            .registry()
            .groups()
            .process
            .store_breaker
            .set(u64::from(open))
            == Changed::Yes
        {
            if open {
                tracing::warn!(
                    "the store failed too often: its breaker opens, and it is asked only now and then"
                );
            } else {
                tracing::info!("the store's breaker closes: every request asks it again");
            }
        }
    }

    /// Whether decisions are being made without the store: `sluice_store_fallback`.
    pub fn store_fallback(&self, active: bool) {
        if self
            .registry()
            .groups()
            .process
            .store_fallback
            .set(u64::from(active))
            == Changed::Yes
        {
            if active {
                tracing::warn!("limits are decided without the store, each as its if_down says");
            } else {
                tracing::info!("limits are decided by the store again");
            }
        }
    }

    /// How many gateways share the store, which changed.
    pub fn instances(&self, instances: u32) {
        tracing::info!(instances, "so many gateways share the store");
    }

    /// A settlement was dropped because the queue was full.
    pub fn settlement_dropped(&self) {
        self.cells.settlements_dropped.add(1);
        if let Some(dropped) = self.registry().groups().process.settlement_lines.note() {
            tracing::warn!(
                dropped,
                "charges that should have been given back stayed: the queue to the store is full"
            );
        }
    }

    /// How many keys the memory store holds, and how many it may.
    pub fn keys(&self, now: usize, max: usize) {
        let process = &self.registry().groups().process;
        process.keys.set(u64::try_from(now).unwrap_or(u64::MAX));
        process.keys_max.set(u64::try_from(max).unwrap_or(u64::MAX));
    }

    /// A client connected to `listener` (its address as configured); the guard counts it out again.
    #[must_use]
    pub fn connection(&self, listener: &str) -> ConnectionGuard {
        let cells = self
            .registry()
            .groups()
            .listeners
            .hold(listener, self.worker.number);
        cells.total.add(1);
        cells.open.up();
        ConnectionGuard(cells)
    }

    /// A connection was refused or closed before it made a request.
    pub fn connection_refused(&self, reason: &'static str) {
        self.registry().groups().process.refused.add(reason);
    }

    /// A reload ended: `ok`, `invalid` or `restart_required`.
    pub fn reloaded(&self, result: &'static str) {
        let process = &self.registry().groups().process;
        process.reloads.add(result);
        if result == "ok" {
            process.last_success.set(unix_seconds());
            tracing::info!("the configuration was reloaded");
        } else {
            tracing::warn!(
                result,
                "the configuration was not reloaded: the one before it stays in force"
            );
        }
    }
}

/// Counts a connection out when dropped.
#[derive(Debug)]
pub struct ConnectionGuard(Held<ListenerCells>);

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.0.open.down();
    }
}

/// The cells of one limit.
#[derive(Clone, Debug)]
pub struct LimitEvents(Held<LimitCells>);

impl LimitEvents {
    /// One request met the limit.
    pub fn decided(&self, decided: Decided) {
        self.0.decided(decided);
    }

    /// Who decided.
    pub fn source(&self, source: DecisionSource) {
        self.0.source(source);
    }

    /// The share of the quota that was used after the decision, from 0 to 1.
    pub fn used(&self, used: u64, quota: u64) {
        let thousandths = u128::from(used)
            .saturating_mul(1_000)
            .checked_div(u128::from(quota));
        self.0
            .used
            .observe(thousandths.map_or(1_000, |share| u64::try_from(share).unwrap_or(u64::MAX)));
    }

    /// A request waits this long in the queue.
    pub fn delayed(&self, by: Duration) {
        self.0.delay.observe_span(by);
    }

    /// Every part of the key was absent.
    pub fn key_missing(&self) {
        self.0.key_missing.add(1);
    }
}

/// The cells of one route.
#[derive(Clone, Debug)]
pub struct RouteEvents(Held<RouteCells>);

impl RouteEvents {
    /// A request ended: `sluice_requests_total` and `sluice_request_duration_seconds`.
    pub fn ended(&self, method: &hyper::Method, code: u16, took: Duration) {
        self.0.answered(method, code);
        self.0.duration.observe_span(took);
    }
}

/// The cells of one upstream.
#[derive(Clone, Debug)]
pub struct UpstreamEvents(Held<UpstreamCells>);

impl UpstreamEvents {
    /// A request goes to the upstream; the guard counts it out again.
    #[must_use]
    pub fn begin(&self) -> UpstreamGuard {
        self.0.in_flight.up();
        UpstreamGuard(self.0.clone())
    }

    /// The head of an answer came after `took`; or none: `code` is then the answer that the gateway makes.
    pub fn answered(&self, code: u16, took: Duration) {
        self.0.codes.add(code);
        self.0.duration.observe_span(took);
    }
}

/// Counts a request in flight to an upstream out when dropped.
#[derive(Debug)]
pub struct UpstreamGuard(Held<UpstreamCells>);

impl Drop for UpstreamGuard {
    fn drop(&mut self) {
        self.0.in_flight.down();
    }
}

/// Shared text of a label.
pub type Label = Arc<str>;
