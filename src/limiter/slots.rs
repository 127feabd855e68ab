//! What is under way: the leases that the requests of a worker hold, and the heartbeat that renews them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::{Instant, sleep};

use super::settle::Spent;
use crate::limit::algorithm::HEARTBEAT;
use crate::limit::{Charge, ChargeId, Meter, Receipt, Stake, When};
use crate::store::{Origin, Store};

/// How often a worker looks for leases to renew.
const TICK: Duration = Duration::from_secs(1);

/// So many are renewed in one look at most; the others come next. It leaves room for what else is settled.
const RENEWALS: usize = 1024;

/// The leases of one worker. A request that ends within the heartbeat costs no renewal.
#[derive(Debug)]
pub(super) struct Leases {
    held: Mutex<HashMap<Holder, Lease>>,
    store: Store,
}

/// Which charge holds a lease, and in which store.
type Holder = (ChargeId, Origin);

#[derive(Debug)]
struct Lease {
    receipt: Receipt,
    /// When the store was last told of it; none: it was away when the request was admitted, and is told when it is back.
    entered: Option<Instant>,
}

/// What one request holds: given back when it is dropped, whatever became of the request.
#[derive(Debug)]
pub(super) struct Slots {
    holders: SmallVec<[Holder; 2]>,
    leases: Arc<Leases>,
}

impl Leases {
    /// None held yet; the heartbeat beats until the last user is gone. Must be called on the worker's runtime.
    pub(super) fn new(store: &Store) -> Arc<Self> {
        let leases = Arc::new(Self {
            held: Mutex::default(),
            store: store.clone(),
        });
        tokio::spawn(heartbeat(Arc::downgrade(&leases)));
        leases
    }

    /// Takes the leases out of what a request has spent. `asked` is what it asked of the store: a lease that only this
    /// process granted is entered there as soon as the store is back.
    pub(super) fn hold(
        self: &Arc<Self>,
        spent: &mut SmallVec<[Spent; 4]>,
        asked: &[Charge],
    ) -> Option<Slots> {
        if !asked.iter().any(|charge| is_lease(&charge.meter)) {
            return None;
        }
        let now = Instant::now();
        let mut taken: SmallVec<[Spent; 4]> = SmallVec::new();
        spent.retain(|one| {
            let leased = is_lease(&one.1.meter);
            if leased {
                taken.push(one.clone());
            }
            !leased
        });
        let mut slots = Slots {
            holders: SmallVec::new(),
            leases: Arc::clone(self),
        };
        let mut held = self.lock();
        for charge in asked.iter().filter(|charge| is_lease(&charge.meter)) {
            let of_charge = || taken.iter().filter(|(_, receipt)| receipt.id == charge.id);
            if of_charge().next().is_none() {
                continue;
            }
            if of_charge().all(|(origin, _)| *origin == Origin::Local) {
                let lease = Lease {
                    receipt: charge.receipt(0),
                    entered: None,
                };
                slots.take(&mut held, Origin::Store, lease);
            }
            for (origin, receipt) in of_charge() {
                let lease = Lease {
                    receipt: receipt.clone(),
                    entered: Some(now),
                };
                slots.take(&mut held, *origin, lease);
            }
        }
        drop(held);
        Some(slots)
    }

    /// Renews what was not for the time of a heartbeat. What a store that is away is to be told waits until it is back.
    pub(super) fn renew(&self, now: Instant) {
        let mut due: Vec<(Origin, Charge)> = Vec::new();
        for ((_, origin), lease) in &mut *self.lock() {
            let told = || *origin == Origin::Local || self.store.reaches(&lease.receipt.key);
            if due.len() < RENEWALS && lease.is_due(now) && told() {
                lease.entered = Some(now);
                due.push((*origin, lease.renewal()));
            }
        }
        for (origin, charge) in due {
            self.store.spend(origin, &charge);
        }
    }

    fn release(&self, holders: &[Holder]) {
        for holder in holders {
            let Some(lease) = self.lock().remove(holder) else {
                continue;
            };
            if lease.entered.is_some() {
                self.store.give_back(holder.1, &[lease.receipt]);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Holder, Lease>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    fn is_due(&self, now: Instant) -> bool {
        self.entered
            .is_none_or(|entered| now.duration_since(entered) >= HEARTBEAT.into())
    }

    /// What renews it: the same charge once more.
    fn renewal(&self) -> Charge {
        let Receipt {
            key,
            meter,
            cost,
            id,
            ..
        } = self.receipt.clone();
        Charge {
            key,
            meter,
            cost,
            id,
            stake: Stake::Binding,
            limit: 0,
            spent: When::Settled,
        }
    }
}

impl Slots {
    fn take(&mut self, held: &mut HashMap<Holder, Lease>, origin: Origin, lease: Lease) {
        let holder = (lease.receipt.id, origin);
        held.insert(holder, lease);
        self.holders.push(holder);
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        self.leases.release(&self.holders);
    }
}

pub(super) fn is_lease(meter: &Meter) -> bool {
    matches!(meter, Meter::Concurrency(_))
}

async fn heartbeat(leases: Weak<Leases>) {
    loop {
        sleep(TICK).await;
        let Some(leases) = leases.upgrade() else {
            return;
        };
        leases.renew(Instant::now());
    }
}
