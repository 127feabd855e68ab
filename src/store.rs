//! Where the state of the limits lives: this process's memory, or Redis behind a guard.
//!
//! A store is an applier: at one instant of its clock it judges every charge of a request, and spends all of them or none.
//! [`Shared`] is what the process has once, a [`Store`] what each worker has of it.

mod clock;
pub mod guard;
mod instances;
pub mod memory;
mod owed;
pub mod redis;
mod secret;

use std::io;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use smallvec::SmallVec;

use crate::limit::key::KeyHasher;
use crate::limit::{Charge, Cost, Key, Receipt, Ruling};
use crate::policy::{Secret, StoreSpec};
use crate::telemetry::Events;
use crate::time::{Micros, Timestamp};

use self::redis::{Redis, Servers};
pub use clock::Clock;
pub use guard::{Fallback, Guard, Health};
use instances::Instances;
pub use memory::Memory;
use owed::Owed;
use secret::Keys;
pub(crate) use secret::random_number;

/// How often a worker frees expired keys, and in how many shards each time: all of them at least every 4 s.
const SWEEP: (Duration, usize) = (Duration::from_millis(250), 16);

/// Why a store gave no ruling.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer within the deadline.
    Timeout,
    /// No connection.
    Unreachable,
    /// Reachable but unwilling: loading, read-only, out of memory, not permitted, a foreign value at the key, ...
    Refused,
    /// The breaker is open, or too many charges wait: not asked.
    NotAsked,
}

/// What the process has once, whatever the number of its workers.
#[derive(Debug)]
pub struct Shared {
    /// The store itself, or what stands in for Redis while it is away.
    memory: Memory,
    owed: Owed,
    health: Arc<Health>,
    /// None where the store is this process's memory.
    servers: Option<Servers>,
    instances: Instances,
    keys: Keys,
    prefix: Arc<str>,
    /// By how many microseconds the store's clock was ahead of this process's when it last ruled.
    ahead: AtomicI64,
}

/// Which store judged a charge, and takes it back.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Origin {
    /// The store of the configuration.
    Store,
    /// This process, in place of Redis.
    Local,
    /// This process's account of what Redis is to be told when it is back.
    Owed,
}

/// One worker's way to the store. Cheap to clone; when the last clone is dropped, its connection closes.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Memory,
    Redis(Arc<Redis>),
}

impl Shared {
    /// What all workers share of the store `spec`. Connects to nothing.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn new(
        spec: &StoreSpec,
        secret: Option<&Secret>,
        clock: Clock,
        events: &Events,
    ) -> io::Result<Arc<Self>> {
        let (max_keys, prefix) = match spec {
            StoreSpec::Memory { max_keys } => (*max_keys, Arc::from("sluice")),
            StoreSpec::Redis(redis) => (redis.local_max_keys, Arc::clone(&redis.prefix)),
        };
        let keys = match (secret, spec) {
            (Some(secret), _) => Keys::fixed(secret.expose().as_bytes()),
            (None, StoreSpec::Memory { .. }) => Keys::random()?,
            (None, StoreSpec::Redis(_)) => Keys::shared()?,
        };
        let health = Health::new(events.clone());
        let (servers, instances) = match spec {
            StoreSpec::Memory { .. } => (None, Instances::one()),
            StoreSpec::Redis(redis) => (
                Some(Servers::new(redis, &health)),
                Instances::of(redis, events)?,
            ),
        };
        Ok(Arc::new(Self {
            memory: Memory::new(max_keys, clock, events.clone()),
            owed: Owed::default(),
            health,
            servers,
            instances,
            keys,
            prefix,
            ahead: AtomicI64::new(0),
        }))
    }

    /// What turns credentials into the parts of a key.
    #[must_use]
    pub fn keys(&self) -> arc_swap::Guard<Arc<KeyHasher>> {
        self.keys.hasher()
    }

    /// What the store's clock shows, as far as this process knows: its own clock until the store has ruled, and then
    /// within about a second of the store's.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let ahead = self.ahead.load(Ordering::Relaxed);
        let now = self.memory.now().as_micros().saturating_add_signed(ahead);
        Timestamp::from_micros(now)
    }

    /// Learns what the store's clock showed a moment ago.
    fn showed(&self, at: Timestamp) {
        let micros = |moment: Timestamp| i64::try_from(moment.as_micros()).unwrap_or(i64::MAX);
        let ahead = micros(at) - micros(self.memory.now());
        // Written only when it matters: every worker reads it.
        if ahead.abs_diff(self.ahead.load(Ordering::Relaxed)) > Micros::SECOND.get() {
            self.ahead.store(ahead, Ordering::Relaxed);
        }
    }

    /// Among how many gateways the amounts are divided while the store is away.
    #[must_use]
    pub fn instances(&self) -> NonZeroU32 {
        self.instances.count()
    }

    /// The first part of every key.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl Store {
    /// Opens one worker's way to the store: within its runtime, where its connection then lives. Never waits, and a store
    /// that cannot be reached is tried until it can.
    #[must_use]
    pub fn open(spec: &StoreSpec, shared: &Arc<Shared>, events: &Events) -> Self {
        tokio::spawn(sweep(Arc::downgrade(shared)));
        let backend = match (spec, &shared.servers) {
            (StoreSpec::Redis(spec), Some(servers)) => {
                let redis = Arc::new(Redis::open(spec, servers, shared, events));
                Instances::watch(shared, &redis);
                Backend::Redis(redis)
            }
            (StoreSpec::Memory { .. } | StoreSpec::Redis(_), _) => Backend::Memory,
        };
        Self {
            shared: Arc::clone(shared),
            backend,
        }
    }

    /// What the process shares.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Waits until keys can be derived as every gateway of the store derives them, but no longer than the deadline.
    pub async fn ready(&self) {
        if let Backend::Redis(redis) = &self.backend
            && !self.shared.keys.is_settled()
        {
            redis.settled(&self.shared).await;
        }
    }

    /// Judges the charges of one request at one instant, and spends all or none. Dropped while it waits, it spends
    /// nothing: what the store spent is given back.
    ///
    /// # Errors
    /// The store gave no ruling; what it may spend late is given back.
    pub async fn admit(&self, charges: &[Charge]) -> Result<Ruling, StoreError> {
        match &self.backend {
            Backend::Memory => Ok(self.shared.memory.admit(charges)),
            Backend::Redis(redis) => {
                let ruling = redis.admit(charges).await;
                self.shared.health.fell_back(match ruling {
                    Ok(_) => Fallback::Inactive,
                    Err(_) => Fallback::Active,
                });
                if let Ok(ruling) = &ruling {
                    self.shared.showed(ruling.at);
                }
                ruling
            }
        }
    }

    /// Whether what it is told now of `key` would reach it.
    #[must_use]
    pub fn reaches(&self, key: &Key) -> bool {
        match &self.backend {
            Backend::Memory => true,
            Backend::Redis(redis) => redis.reaches(key),
        }
    }

    /// What stands in for the store while it is away; none where the store is this process's memory.
    #[must_use]
    pub fn local(&self) -> Option<&Memory> {
        match self.backend {
            Backend::Memory => None,
            Backend::Redis(_) => Some(&self.shared.memory),
        }
    }

    /// Notes charges that this process granted while the store was away, with the meters of the store.
    #[must_use]
    pub fn owe(&self, granted: &[Charge]) -> SmallVec<[Receipt; 4]> {
        self.shared.owed.grant(&self.shared.memory, granted)
    }

    /// Whether there may be such charges.
    #[must_use]
    pub fn owes_any(&self) -> bool {
        self.shared.owed.is_any(&self.shared.memory)
    }

    /// Takes what is owed of the key of `charge`, if the store can be told; none: nothing that counts.
    #[must_use]
    pub fn take_owed(&self, charge: &Charge) -> Option<Cost> {
        if !self.reaches(&charge.key) {
            return None;
        }
        self.shared.owed.take(&self.shared.memory, charge)
    }

    /// Gives charges back to the store that judged them. Never waits; where too many wait already, they are dropped and
    /// counted, which errs on the strict side.
    pub fn give_back(&self, origin: Origin, receipts: &[Receipt]) {
        match (&self.backend, origin) {
            (Backend::Memory, _) | (_, Origin::Local | Origin::Owed) => {
                self.shared.memory.give_back(receipts);
            }
            (Backend::Redis(redis), Origin::Store) => redis.give_back(receipts),
        }
    }

    /// Books a charge without asking, in the store that judged the one it adds to. Never waits; where too much waits
    /// already, it is dropped and counted.
    pub fn spend(&self, origin: Origin, charge: &Charge) {
        match (&self.backend, origin) {
            (Backend::Memory, _) | (_, Origin::Local) => {
                // A correction is never given back: its receipt is of no use.
                let _booked = self.shared.memory.spend(std::slice::from_ref(charge));
            }
            (Backend::Redis(_), Origin::Owed) => {
                let charge = std::slice::from_ref(charge);
                let _booked = self.shared.owed.book(&self.shared.memory, charge);
            }
            (Backend::Redis(redis), Origin::Store) => redis.spend(charge),
        }
    }

    /// Says that this gateway ends, and waits until everything that was asked, spent and given back has reached the
    /// store, but no longer than `within`.
    pub async fn flush(&self, within: Duration) {
        if let Backend::Redis(redis) = &self.backend {
            self.shared.instances.leave(redis);
            redis.flush(within).await;
        }
    }
}

/// Frees expired keys for as long as anyone uses the store.
async fn sweep(shared: Weak<Shared>) {
    let (every, shards) = SWEEP;
    loop {
        tokio::time::sleep(every).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.memory.sweep(shards);
    }
}
