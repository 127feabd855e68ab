//! A cluster: each key lives on the node of its slot, and a call carries the keys of one slot.
//!
//! Routing is our own: a call says where it went wrong, so that it is asked again only where that is safe, a node that is
//! away costs only its own slots, and every wait ends with the deadline of its request.

mod groups;
mod node;
pub(super) mod reply;
mod route;
mod slots;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::connection::secret_key;
use super::settlement::Settlement;
use crate::limit::{Charge, Ruling};
use crate::policy::RedisSpec;
use crate::store::{Shared, StoreError};
use crate::telemetry::Events;
pub(super) use node::{Member, Sent};
use route::Router;
pub(super) use slots::Slot;
pub(super) use topology::Topology;

/// One worker's cluster. When it is dropped, all that it started ends.
#[derive(Debug)]
pub(in crate::store) struct Cluster {
    router: Arc<Router>,
    deadline: Duration,
    /// The key of the secret that the gateways share.
    secret: String,
}

impl Cluster {
    /// Starts looking for the nodes, on the runtime of the worker.
    pub(super) fn open(
        topology: &Arc<Topology>,
        spec: &RedisSpec,
        shared: &Arc<Shared>,
        events: &Events,
    ) -> Self {
        let router = Router::new(topology, spec, shared, events);
        tokio::spawn(Router::keep(Arc::downgrade(&router)));
        Self {
            router,
            deadline: spec.deadline,
            secret: secret_key(&spec.prefix),
        }
    }

    /// Asks the node of each group of charges in turn, no longer than the deadline in all.
    pub(super) async fn admit(&self, charges: &[Charge]) -> Result<Ruling, StoreError> {
        groups::admit(&self.router, charges, Instant::now() + self.deadline).await
    }

    pub(super) fn settle(&self, settlement: Settlement) {
        self.router.settle(settlement);
    }

    pub(super) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether the node that has `key` answers, or is about to.
    pub(super) fn is_hopeful(&self, key: &str) -> bool {
        self.router.is_hopeful(key)
    }

    /// The key of the secret that the gateways share.
    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    pub(super) async fn idle(&self) {
        self.router.idle().await;
    }
}
