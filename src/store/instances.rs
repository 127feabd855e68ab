//! How many gateways share a store: given, or counted by the leases that they hold there.

#[cfg(test)]
mod tests;

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::redis::Redis;
use super::{Shared, random_number};
use crate::limit::algorithm::{Concurrency, HEARTBEAT, LEASE};
use crate::limit::{Charge, ChargeId, Cost, Key, Meter, Ruling, Stake, When};
use crate::policy::RedisSpec;
use crate::telemetry::Events;

/// So many are counted at most.
const MOST: u64 = 10_000;
/// How often a worker looks whether the next count is due.
const TICK: Duration = Duration::from_secs(1);
/// The last counts, of which the greatest holds: a store that comes back empty knows of nobody until each has been heard
/// of, and counting too few would let each admit too much.
const COUNTS: usize = 4;

/// How many gateways there are, as far as this one knows.
#[derive(Debug)]
pub(super) struct Instances {
    /// At least 1.
    count: AtomicU32,
    /// What counts them; none where they are given, or the store is shared with nobody.
    roll: Option<Roll>,
}

/// The leases of the gateways, each held under a number of its own.
#[derive(Debug)]
struct Roll {
    /// What holds and renews the lease of this one.
    charge: Charge,
    counts: Mutex<[u32; COUNTS]>,
    since: Instant,
    /// When the lease is to be renewed, in milliseconds since `since`.
    due: AtomicU64,
    left: AtomicBool,
    events: Events,
}

impl Instances {
    /// This one alone.
    pub(super) fn one() -> Self {
        Self {
            count: AtomicU32::new(1),
            roll: None,
        }
    }

    /// Those that share the store of `spec`.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub(super) fn of(spec: &RedisSpec, events: &Events) -> std::io::Result<Self> {
        let roll = match spec.instances {
            Some(_) => None,
            None => Roll::of(&spec.prefix, random_number()?, events),
        };
        Ok(Self {
            count: AtomicU32::new(spec.instances.map_or(1, NonZeroU32::get)),
            roll,
        })
    }

    /// How many there are.
    pub(super) fn count(&self) -> NonZeroU32 {
        NonZeroU32::new(self.count.load(Ordering::Relaxed)).unwrap_or(NonZeroU32::MIN)
    }

    /// Counts for as long as `redis` is used, if they are to be counted. Every worker does; only one of them at a time.
    pub(super) fn watch(shared: &Arc<Shared>, redis: &Arc<Redis>) {
        if shared.instances.roll.is_some() {
            tokio::spawn(watch(Arc::downgrade(shared), Arc::downgrade(redis)));
        }
    }

    /// Leaves the roll, so that the others need not wait until the lease ends.
    pub(super) fn leave(&self, redis: &Redis) {
        if let Some(roll) = &self.roll
            && !roll.left.swap(true, Ordering::Relaxed)
        {
            redis.give_back(&[roll.charge.receipt(0)]);
        }
    }

    /// Renews the lease of this one, and counts all.
    async fn call(&self, roll: &Roll, redis: &Redis) {
        match redis.admit(std::slice::from_ref(&roll.charge)).await {
            Ok(ruling) => self.saw(roll, &ruling),
            Err(_away) => roll.missed(),
        }
    }

    fn saw(&self, roll: &Roll, ruling: &Ruling) {
        let Some(decision) = ruling.decisions.first() else {
            return;
        };
        let live = MOST.saturating_sub(decision.quota.remaining);
        let mut counts = roll.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.rotate_right(1);
        if let Some(last) = counts.first_mut() {
            *last = u32::try_from(live).unwrap_or(u32::MAX);
        }
        let most = counts.iter().copied().max().unwrap_or(1).max(1);
        if self.count.swap(most, Ordering::Relaxed) != most {
            roll.events.instances(most);
        }
    }
}

impl Roll {
    /// None: no meter counts so many, which does not happen.
    fn of(prefix: &str, number: u64, events: &Events) -> Option<Self> {
        let meter = Meter::Concurrency(Concurrency::new(MOST, LEASE).ok()?);
        Some(Self {
            charge: Charge {
                // No limit is without a name, so this is the key of none.
                key: Key::new(format!("{prefix}:1:{{instances}}::cc:")),
                meter,
                cost: Cost::ONE,
                id: ChargeId::new(number),
                stake: Stake::Binding,
                limit: 0,
                spent: When::Admitted,
            },
            counts: Mutex::default(),
            since: Instant::now(),
            due: AtomicU64::new(0),
            left: AtomicBool::new(false),
            events: events.clone(),
        })
    }

    /// Whether this worker is the one to renew the lease now.
    fn claim(&self) -> bool {
        let now = self.now();
        let due = self.due.load(Ordering::Relaxed);
        let next = now.saturating_add(HEARTBEAT.get() / 1000);
        let mine = || {
            self.due
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        };
        due <= now && !self.left.load(Ordering::Relaxed) && mine()
    }

    /// The store did not answer: the next tick tries again.
    fn missed(&self) {
        self.due.store(self.now(), Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

async fn watch(shared: Weak<Shared>, redis: Weak<Redis>) {
    loop {
        let (Some(shared), Some(redis)) = (shared.upgrade(), redis.upgrade()) else {
            return;
        };
        if let Some(roll) = &shared.instances.roll
            && roll.claim()
        {
            shared.instances.call(roll, &redis).await;
        }
        drop((shared, redis));
        tokio::time::sleep(TICK).await;
    }
}
