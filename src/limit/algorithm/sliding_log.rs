//! Sliding log: so much in any window, exactly, remembering every charge. Its twin is `sliding_log.lua`.

use std::num::NonZeroU32;

use smallvec::{SmallVec, smallvec};

use super::{Booked, Entry, InvalidMeter, Judge, Kind, Meter, State, bounds};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Micros, Timestamp};

/// The most that a log holds: its memory and the work of one call grow with it.
const LONGEST_LOG: u64 = 10_000;

/// At most `amount` in any window, exactly.
///
/// State: the charges, ordered by time. An entry counts from its time until before its time + window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SlidingLog {
    amount: u64,
    window: Micros,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 2,
    lua: include_str!("sliding_log.lua"),
    params: 2,
    fresh: || State::Log(Vec::new()),
};

impl SlidingLog {
    /// `amount` units a window.
    ///
    /// # Errors
    /// An amount of 0 or above 10 000; a window of 0 or above 35 years.
    pub fn new(amount: u64, window: Micros) -> Result<Self, InvalidMeter> {
        bounds::amount(amount, LONGEST_LOG)?;
        bounds::window(window, Micros::new(1))?;
        Ok(Self { amount, window })
    }

    /// One share of it among `by`, rounded up.
    pub(super) fn share(self, by: NonZeroU32) -> Self {
        Self {
            amount: self.amount.div_ceil(u64::from(by.get())),
            ..self
        }
    }

    /// The entries that count at `now`, oldest first.
    fn live<'s>(&self, state: &'s State, now: Timestamp) -> &'s [Entry] {
        let entries = state.entries();
        let left = entries.partition_point(|entry| entry.at.after(self.window) <= now);
        entries.get(left..).unwrap_or(&[])
    }
}

/// Sum of what `entries` cost.
fn total(entries: &[Entry]) -> u64 {
    entries
        .iter()
        .fold(0, |sum, entry| sum.saturating_add(entry.cost))
}

impl Judge for SlidingLog {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        let left = state
            .entries()
            .len()
            .saturating_sub(self.live(state, now).len());
        let State::Log(entries) = state else {
            return false;
        };
        entries.drain(..left);
        let limit = now.after(self.window);
        let near = entries.partition_point(|entry| entry.at <= limit);
        let mut ahead = entries.split_off(near);
        if ahead.is_empty() {
            return left > 0;
        }
        for entry in &mut ahead {
            entry.at = now;
        }
        let place = entries.partition_point(|entry| entry.at <= now);
        entries.splice(place..place, ahead);
        true
    }

    fn judge(&self, state: &State, now: Timestamp, cost: Cost) -> Verdict {
        let cost = cost.get();
        if cost == 0 {
            return Verdict::Allow;
        }
        if cost > self.amount {
            return Verdict::Reject(Retry::Never);
        }
        let live = self.live(state, now);
        let mut left = total(live);
        if left.saturating_add(cost) <= self.amount {
            return Verdict::Allow;
        }
        // Let the oldest leave one by one, until the cost fits.
        let mut leaves = now;
        for entry in live {
            left = left.saturating_sub(entry.cost);
            leaves = entry.at.after(self.window);
            if left.saturating_add(cost) <= self.amount {
                break;
            }
        }
        Verdict::Reject(Retry::After(leaves.since(now)))
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, id: ChargeId) -> u64 {
        if let State::Log(entries) = state
            && cost.get() > 0
        {
            let place = entries.partition_point(|entry| entry.at <= now);
            entries.insert(
                place,
                Entry {
                    at: now,
                    id,
                    cost: cost.get(),
                },
            );
        }
        now.as_micros()
    }

    fn give_back(&self, state: &mut State, now: Timestamp, booked: Booked, back: Cost) {
        let same = |entry: &Entry| {
            entry.id == booked.id
                && entry.cost == booked.cost.get()
                && entry.at.after(self.window) > now
        };
        if let State::Log(entries) = state
            && let Some(place) = entries.iter().position(same)
        {
            match entries.get_mut(place) {
                Some(entry) if back < booked.cost => {
                    entry.cost = entry.cost.saturating_sub(back.get());
                }
                _ => {
                    entries.remove(place);
                }
            }
        }
    }

    fn quota(&self, state: &State, now: Timestamp) -> Quota {
        let live = self.live(state, now);
        Quota {
            remaining: self.amount.saturating_sub(total(live)),
            reset_after: live.last().map_or(Micros::ZERO, |newest| {
                newest.at.after(self.window).since(now)
            }),
        }
    }

    fn params(&self) -> SmallVec<[u64; 6]> {
        smallvec![self.amount, self.window.get()]
    }

    fn amount(&self) -> u64 {
        self.amount
    }

    fn window(&self) -> Micros {
        self.window
    }

    fn divided(&self, by: NonZeroU32) -> Meter {
        Meter::SlidingLog(self.share(by))
    }
}
