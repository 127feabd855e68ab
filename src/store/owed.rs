//! What this process granted while the store was away, and tells it when it is back.
//!
//! It is counted apart from what stands in for the store, each key under the store's own amount and only from when the
//! store went away: what of it still counts when it is back is what the store does not know.

use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::SmallVec;

use super::Memory;
use crate::limit::{Charge, Cost, Key, Receipt, Ruling};

/// Whether anything is owed; what, is in the memory, under keys of its own.
#[derive(Debug, Default)]
pub(super) struct Owed {
    /// From here on nothing of it counts, in microseconds on the memory's clock.
    until: AtomicU64,
}

impl Owed {
    /// Books what was granted in the store's place, as the store would have been asked.
    pub(super) fn grant(&self, memory: &Memory, granted: &[Charge]) -> SmallVec<[Receipt; 4]> {
        let charges: SmallVec<[Charge; 4]> = granted
            .iter()
            .map(|charge| Charge {
                key: key(&charge.key),
                ..charge.clone()
            })
            .collect();
        let booked = self.book(memory, &charges);
        booked.receipts(&charges).collect()
    }

    /// Books charges of keys that are its own.
    pub(super) fn book(&self, memory: &Memory, charges: &[Charge]) -> Ruling {
        let booked = memory.spend(charges);
        for decision in &booked.decisions {
            let until = booked.at.after(decision.quota.reset_after);
            self.until.fetch_max(until.as_micros(), Ordering::Relaxed);
        }
        booked
    }

    /// Whether anything may still count.
    pub(super) fn is_any(&self, memory: &Memory) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until > 0 && memory.now().as_micros() < until
    }

    /// Takes what the key of `charge` was granted and what still counts: from now on it is owed no more.
    pub(super) fn take(&self, memory: &Memory, charge: &Charge) -> Option<Cost> {
        let (state, now) = memory.take(&key(&charge.key))?;
        let meter = charge.meter.judge();
        let fresh = (charge.meter.kind().fresh)();
        let left = |state| meter.quota(state, now).remaining;
        let used = left(&fresh).saturating_sub(left(&state));
        let cost = Cost::new(u32::try_from(used).unwrap_or(u32::MAX));
        (used > 0).then_some(cost)
    }
}

/// Where it is counted what a key was granted. No key of the store begins so: prefixes are followed by `:1:{`.
fn key(of: &Key) -> Key {
    Key::new(format!("owed {}", of.as_str()))
}
