//! One worker's Redis: requests wait in a bounded queue, a pump carries them to the server in batches, on a connection
//! that it rebuilds whenever it breaks. A cluster has a queue and a pump for each of its nodes.

mod batch;
mod cluster;
mod connection;
mod dial;
mod fault;
mod needs;
mod pump;
mod queue;
pub mod script;
mod sentinel;
mod settlement;
#[cfg(test)]
pub(crate) mod tests;
mod way;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::guard::{Guard, Health};
use super::{Shared, StoreError};
use crate::limit::{Charge, Key, Receipt, Ruling};
use crate::policy::{RedisAddress, RedisSpec};
use crate::telemetry::Events;
pub(super) use cluster::Cluster;
use cluster::{Member, Topology};
use connection::Connector;
use pump::Pump;
use queue::{Queue, Spent};
use settlement::Settlement;
use way::{NoRuling, Way};

/// What all workers know of the servers.
#[derive(Debug)]
pub(super) enum Servers {
    /// One.
    One(Arc<Guard>),
    /// A cluster of them.
    Cluster(Arc<Topology>),
}

/// A worker's handle.
#[derive(Debug)]
pub(super) enum Redis {
    /// One server.
    One(Lane),
    /// A cluster.
    Cluster(Cluster),
}

/// A worker's way to one server. When it is dropped, the pump ends.
#[derive(Debug)]
pub(super) struct Lane {
    queue: Arc<Queue>,
    guard: Arc<Guard>,
    /// How long a request waits.
    deadline: Duration,
}

impl Servers {
    /// Of a store that nothing has been heard of yet.
    pub(super) fn new(spec: &RedisSpec, health: &Arc<Health>) -> Self {
        match &spec.address {
            RedisAddress::Tcp { .. } | RedisAddress::Unix(_) | RedisAddress::Sentinel(_) => {
                Self::One(Guard::new(health))
            }
            RedisAddress::Cluster(seeds) => Self::Cluster(Topology::new(seeds, health)),
        }
    }
}

impl Redis {
    /// Starts what carries, on the runtime of the worker.
    pub(super) fn open(
        spec: &RedisSpec,
        servers: &Servers,
        shared: &Arc<Shared>,
        events: &Events,
    ) -> Self {
        match servers {
            Servers::One(guard) => Self::One(Lane::open(
                Connector::new(spec),
                guard,
                None,
                spec.deadline,
                shared,
                events,
            )),
            Servers::Cluster(topology) => {
                Self::Cluster(Cluster::open(topology, spec, shared, events))
            }
        }
    }

    /// Asks, and waits for the answer until the deadline.
    pub(super) async fn admit(&self, charges: &[Charge]) -> Result<Ruling, StoreError> {
        match self {
            Self::One(lane) => {
                let until = Instant::now() + lane.deadline;
                let spent = lane.ask(charges, Way::default(), until).await?;
                Ok(spent.keep())
            }
            Self::Cluster(cluster) => cluster.admit(charges).await,
        }
    }

    pub(super) fn give_back(&self, receipts: &[Receipt]) {
        for receipt in receipts {
            self.settle(Settlement::GiveBack(receipt.clone()));
        }
    }

    pub(super) fn spend(&self, charge: &Charge) {
        self.settle(Settlement::Spend(charge.clone()));
    }

    fn settle(&self, settlement: Settlement) {
        match self {
            Self::One(lane) => lane.queue.settle(settlement.by(Way::default())),
            Self::Cluster(cluster) => cluster.settle(settlement),
        }
    }

    /// Whether what it is told now of `key` would reach it.
    pub(super) fn reaches(&self, key: &Key) -> bool {
        match self {
            Self::One(lane) => lane.is_hopeful(),
            Self::Cluster(cluster) => cluster.is_hopeful(key.as_str()),
        }
    }

    /// Waits for the secret that the gateways share, while there is hope that it comes.
    pub(super) async fn settled(&self, shared: &Shared) {
        let (hopeful, deadline) = match self {
            Self::One(lane) => (lane.is_hopeful(), lane.deadline),
            Self::Cluster(cluster) => (cluster.is_hopeful(cluster.secret()), cluster.deadline()),
        };
        if hopeful {
            // Without it, this process counts under a secret of its own until the store is there.
            let _late = tokio::time::timeout(deadline, shared.keys.settled()).await;
        }
    }

    pub(super) async fn flush(&self, within: Duration) {
        // What is not through by then is lost on the strict side.
        let _late = match self {
            Self::One(lane) => tokio::time::timeout(within, lane.queue.idle()).await,
            Self::Cluster(cluster) => tokio::time::timeout(within, cluster.idle()).await,
        };
    }
}

impl Lane {
    /// Starts the pump on the runtime of the worker. On a cluster the server is `member`.
    fn open(
        connector: Connector,
        guard: &Arc<Guard>,
        member: Option<Member>,
        deadline: Duration,
        shared: &Arc<Shared>,
        events: &Events,
    ) -> Self {
        let queue = Arc::new(Queue::new(events.clone(), member.clone()));
        let pump = Pump {
            connector,
            queue: Arc::clone(&queue),
            guard: Arc::clone(guard),
            member,
            shared: Arc::clone(shared),
            events: events.clone(),
            deadline,
        };
        tokio::spawn(pump.run());
        Self {
            queue,
            guard: Arc::clone(guard),
            deadline,
        }
    }

    /// Asks, and waits for the answer.
    async fn ask(&self, charges: &[Charge], way: Way, until: Instant) -> Result<Spent, NoRuling> {
        if self.guard.is_open() {
            return Err(StoreError::NotAsked.into());
        }
        let answer = self.queue.ask(charges, way)?;
        match tokio::time::timeout_at(until, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_closed)) => Err(StoreError::Unreachable.into()),
            Err(_elapsed) => Err(StoreError::Timeout.into()),
        }
    }

    /// Whether the server answers, or is about to.
    fn is_hopeful(&self) -> bool {
        !self.guard.is_open() && !self.queue.is_down()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.queue.close();
    }
}
