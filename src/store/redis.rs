//! One worker's Redis: requests wait in a bounded queue, a pump carries them to the server in batches, on a connection
//! that it rebuilds whenever it breaks.

mod batch;
mod connection;
mod dial;
mod fault;
mod needs;
mod pump;
mod queue;
pub mod script;
mod sentinel;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

use super::{Shared, StoreError};
use crate::limit::{Charge, Receipt, Ruling};
use crate::policy::RedisSpec;
use crate::telemetry::Events;
use connection::Connector;
use pump::Pump;
use queue::{Queue, Spent};

/// A worker's handle. When it is dropped, the pump ends.
#[derive(Debug)]
pub(super) struct Redis {
    queue: Arc<Queue>,
    /// How long a request waits.
    deadline: Duration,
}

impl Redis {
    /// Starts the pump on the runtime of the worker.
    pub(super) fn open(spec: &RedisSpec, shared: &Arc<Shared>, events: &Events) -> Self {
        let queue = Arc::new(Queue::new(events.clone()));
        let pump = Pump {
            connector: Connector::new(spec),
            queue: Arc::clone(&queue),
            shared: Arc::clone(shared),
            events: events.clone(),
            deadline: spec.deadline,
        };
        tokio::spawn(pump.run());
        Self {
            queue,
            deadline: spec.deadline,
        }
    }

    /// Asks, and waits for the answer until the deadline.
    pub(super) async fn admit(
        &self,
        shared: &Shared,
        charges: &[Charge],
    ) -> Result<Ruling, StoreError> {
        if shared.guard.is_open() {
            return Err(StoreError::NotAsked);
        }
        let answer = self.queue.ask(charges)?;
        match tokio::time::timeout(self.deadline, answer).await {
            Ok(Ok(answer)) => answer.map(Spent::keep),
            Ok(Err(_closed)) => Err(StoreError::Unreachable),
            Err(_elapsed) => Err(StoreError::Timeout),
        }
    }

    pub(super) fn give_back(&self, receipts: &[Receipt]) {
        for receipt in receipts {
            self.queue.give_back(receipt.clone());
        }
    }

    pub(super) fn spend(&self, charge: &Charge) {
        self.queue.spend(charge.clone());
    }

    pub(super) fn is_reachable(&self, shared: &Shared) -> bool {
        !shared.guard.is_open() && !self.queue.is_down()
    }

    /// Waits for the secret that the gateways share, while there is hope that it comes.
    pub(super) async fn settled(&self, shared: &Shared) {
        if self.is_reachable(shared) {
            // Without it, this process counts under a secret of its own until the store is there.
            let _late = tokio::time::timeout(self.deadline, shared.keys.settled()).await;
        }
    }

    pub(super) async fn flush(&self, within: Duration) {
        // What is not through by then is lost on the strict side.
        let _late = tokio::time::timeout(within, self.queue.idle()).await;
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.queue.close();
    }
}
