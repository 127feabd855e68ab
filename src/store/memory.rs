//! The state of the limits in this process: the same driver as the script in Redis, over a bounded, sharded map.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::Clock;
use crate::limit::{Charge, Decision, Key, Meter, Receipt, Ruling, State, driver};
use crate::telemetry::Events;
use crate::time::{Micros, Timestamp};

/// Maps that are locked apart from each other.
const SHARDS: usize = 256;

/// How long a key is kept after nothing of it counts any more.
const SLACK: Micros = Micros::SECOND;

/// How long a full shard is not searched again for keys to free.
const SWEEP_PAUSE: Micros = Micros::SECOND;

/// Set in the mark of a charge that the overflow counter bore; above every mark that a meter gives.
const OVERFLOWED: u64 = 1 << 63;

/// The state of every key, shared by all workers.
///
/// It holds at most `max_keys` keys. When it is full, new keys of a limit share one overflow counter, so that a flood of
/// keys can free no client's exhausted one; a key that gets a place of its own while the counter lives starts from a copy
/// of it, since it may have spent from there.
#[derive(Debug)]
pub struct Memory {
    shards: Box<[Mutex<Shard>]>,
    overflow: Mutex<HashMap<Key, Held>>,
    /// Keys in `overflow`, read without its lock.
    overflowing: AtomicUsize,
    /// Keys in `shards`, and places that are kept for keys being judged.
    held: AtomicUsize,
    max_keys: usize,
    /// Whether the last new key found no place: reported when it changes.
    full: AtomicBool,
    /// The shard that is swept next.
    cursor: AtomicUsize,
    hasher: RandomState,
    clock: Clock,
    events: Events,
}

#[derive(Debug, Default)]
struct Shard {
    keys: HashMap<Key, Held>,
    swept: Timestamp,
}

#[derive(Debug)]
struct Held {
    state: State,
    /// From here on nothing of it counts.
    until: Timestamp,
}

/// Where the state of a charge came from and goes back to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// A key that is held.
    Own,
    /// A new key, for which a place is kept.
    New,
    /// The counter that new keys share.
    Overflow,
}

/// The shards of one request, locked in the order of their numbers, and the overflow after them.
struct Locked<'m> {
    shards: SmallVec<[(usize, MutexGuard<'m, Shard>); 4]>,
    overflow: Option<MutexGuard<'m, HashMap<Key, Held>>>,
}

impl Memory {
    /// An empty store for `max_keys` keys.
    #[must_use]
    pub fn new(max_keys: usize, clock: Clock, events: Events) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            overflow: Mutex::default(),
            overflowing: AtomicUsize::new(0),
            held: AtomicUsize::new(0),
            max_keys,
            full: AtomicBool::new(false),
            cursor: AtomicUsize::new(0),
            hasher: RandomState::new(),
            clock,
            events,
        }
    }

    /// Judges every charge at one instant, and spends all or none.
    #[must_use]
    pub fn admit(&self, charges: &[Charge]) -> Ruling {
        self.apply(charges, |states, now| {
            let mut states: SmallVec<[&mut State; 4]> = states.iter_mut().collect();
            driver::decide(&mut states, charges, now)
        })
    }

    /// Books charges that another store has admitted, whatever they meet here.
    #[must_use]
    pub fn spend(&self, charges: &[Charge]) -> Ruling {
        self.apply(charges, |states, now| Ruling {
            at: now,
            decisions: charges
                .iter()
                .zip(states)
                .map(|(charge, state)| driver::spend(state, charge, now))
                .collect(),
        })
    }

    /// Takes back what the receipts say. Each comes from this store, and at most once.
    pub fn give_back(&self, receipts: &[Receipt]) {
        for receipt in receipts {
            let now = self.clock.now();
            if receipt.mark & OVERFLOWED != 0 {
                let receipt = Receipt {
                    mark: receipt.mark & !OVERFLOWED,
                    ..receipt.clone()
                };
                if let Some(held) = lock(&self.overflow).get_mut(&overflow_key(&receipt.key)) {
                    driver::give_back(&mut held.state, &receipt, now);
                }
            } else if let Some(shard) = self.shards.get(self.shard_of(&receipt.key))
                && let Some(held) = lock(shard).keys.get_mut(&receipt.key)
            {
                driver::give_back(&mut held.state, receipt, now);
            }
        }
    }

    /// Forgets a key that it holds by itself, and tells how it stood and when.
    pub(super) fn take(&self, key: &Key) -> Option<(State, Timestamp)> {
        let held = lock(self.shards.get(self.shard_of(key))?)
            .keys
            .remove(key)?;
        self.held.fetch_sub(1, Ordering::Relaxed);
        Some((held.state, self.clock.now()))
    }

    /// What its clock shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frees the expired keys of the next `shards` shards, and of the overflow; called now and then by every worker.
    pub fn sweep(&self, shards: usize) {
        for _ in 0..shards {
            let next = self.cursor.fetch_add(1, Ordering::Relaxed) % SHARDS;
            if let Some(shard) = self.shards.get(next) {
                self.sweep_shard(&mut lock(shard), self.clock.now());
            }
        }
        if self.overflowing.load(Ordering::Relaxed) > 0 {
            let now = self.clock.now();
            let mut overflow = lock(&self.overflow);
            overflow.retain(|_, held| held.until > now);
            self.overflowing.store(overflow.len(), Ordering::Relaxed);
        }
        self.events.keys(self.len(), self.max_keys);
    }

    fn sweep_shard(&self, shard: &mut Shard, now: Timestamp) {
        let before = shard.keys.len();
        shard.keys.retain(|_, held| held.until > now);
        shard.swept = now;
        self.held
            .fetch_sub(before - shard.keys.len(), Ordering::Relaxed);
        if shard.keys.capacity() / 4 > shard.keys.len() {
            shard.keys.shrink_to(shard.keys.len() * 2);
        }
    }

    /// Loads the states of the charges, lets `judge` answer, and writes back what it spent.
    fn apply(
        &self,
        charges: &[Charge],
        judge: impl FnOnce(&mut [State], Timestamp) -> Ruling,
    ) -> Ruling {
        let mut locked = self.lock(charges);
        let now = self.clock.now();
        let mut places = SmallVec::<[Place; 4]>::new();
        let mut states = SmallVec::<[State; 4]>::new();
        for charge in charges {
            let (place, state) = self.load(&mut locked, charge, now);
            places.push(place);
            states.push(state);
        }
        let mut ruling = judge(&mut states, now);
        let loaded = places.into_iter().zip(states);
        for ((charge, (place, state)), decision) in
            charges.iter().zip(loaded).zip(&mut ruling.decisions)
        {
            self.write(&mut locked, charge, place, state, decision, now);
        }
        ruling
    }

    fn load<'m>(
        &'m self,
        locked: &mut Locked<'m>,
        charge: &Charge,
        now: Timestamp,
    ) -> (Place, State) {
        let number = self.shard_of(&charge.key);
        let Some(shard) = locked.shard(number) else {
            return (Place::Overflow, fresh(&charge.meter));
        };
        if let Some(held) = shard.keys.get_mut(&charge.key) {
            return (
                Place::Own,
                std::mem::replace(&mut held.state, State::Numbers(SmallVec::new())),
            );
        }
        let kept = self.keep_place() || {
            if now.since(shard.swept) >= SWEEP_PAUSE {
                self.sweep_shard(shard, now);
            }
            self.keep_place()
        };
        self.report_full(!kept);
        if kept && self.overflowing.load(Ordering::Relaxed) == 0 {
            return (Place::New, fresh(&charge.meter));
        }
        let overflow = locked.overflow.get_or_insert_with(|| lock(&self.overflow));
        let state = overflow
            .get(&overflow_key(&charge.key))
            .filter(|held| held.until > now)
            .map_or_else(|| fresh(&charge.meter), |held| held.state.clone());
        (if kept { Place::New } else { Place::Overflow }, state)
    }

    fn write<'m>(
        &'m self,
        locked: &mut Locked<'m>,
        charge: &Charge,
        place: Place,
        state: State,
        decision: &mut Decision,
        now: Timestamp,
    ) {
        let until = now.after(decision.quota.reset_after).after(SLACK);
        let shard = locked.shard(self.shard_of(&charge.key));
        match (place, &mut decision.mark) {
            (Place::Own, mark) => {
                let Some(shard) = shard else { return };
                if let Some(held) = shard.keys.get_mut(&charge.key) {
                    held.state = state;
                    if mark.is_some() {
                        held.until = held.until.max(until);
                    }
                } else if mark.is_some() {
                    // It had expired, and making room for another key of the request swept it away.
                    self.held.fetch_add(1, Ordering::Relaxed);
                    shard.keys.insert(charge.key.clone(), Held { state, until });
                }
            }
            (Place::New, Some(_)) => {
                if let Some(shard) = shard {
                    shard.keys.insert(charge.key.clone(), Held { state, until });
                }
            }
            (Place::New, None) => {
                self.held.fetch_sub(1, Ordering::Relaxed);
            }
            (Place::Overflow, Some(mark)) => {
                *mark |= OVERFLOWED;
                let overflow = locked.overflow.get_or_insert_with(|| lock(&self.overflow));
                overflow.insert(overflow_key(&charge.key), Held { state, until });
                self.overflowing.store(overflow.len(), Ordering::Relaxed);
            }
            (Place::Overflow, None) => {}
        }
    }

    /// Keeps a place for one more key, if there is one.
    fn keep_place(&self) -> bool {
        self.held
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
                (held < self.max_keys).then_some(held + 1)
            })
            .is_ok()
    }

    fn report_full(&self, full: bool) {
        if self.full.load(Ordering::Relaxed) != full
            && self.full.swap(full, Ordering::Relaxed) != full
        {
            self.events.keys(self.len(), self.max_keys);
            if full {
                let detail = "the memory store is full: new keys of a limit share one counter";
                self.events.store_error("memory_full", &detail);
            }
        }
    }

    fn shard_of(&self, key: &Key) -> usize {
        usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0)
    }

    fn lock(&self, charges: &[Charge]) -> Locked<'_> {
        let mut numbers: SmallVec<[usize; 8]> =
            charges.iter().map(|c| self.shard_of(&c.key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Locked {
            shards: numbers
                .into_iter()
                .filter_map(|number| Some((number, lock(self.shards.get(number)?))))
                .collect(),
            overflow: None,
        }
    }
}

impl Locked<'_> {
    fn shard(&mut self, number: usize) -> Option<&mut Shard> {
        self.shards
            .iter_mut()
            .find(|(held, _)| *held == number)
            .map(|(_, shard)| &mut **shard)
    }
}

/// Nothing that runs under these locks can leave a map half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fresh(meter: &Meter) -> State {
    (meter.kind().fresh)()
}

/// The counter that new keys of the same limit and code share: the key without what tells clients apart.
fn overflow_key(key: &Key) -> Key {
    let text = key.as_str();
    let (prefix, rest) = text.split_once('{').unwrap_or(("", text));
    let counter = rest.split_once("}:").map_or(rest, |(_, counter)| counter);
    let end = counter
        .match_indices(':')
        .nth(1)
        .map_or(counter.len(), |(end, _)| end);
    let (counter, _) = counter.split_at(end);
    Key::new(format!("{prefix}{{}}:{counter}:"))
}
