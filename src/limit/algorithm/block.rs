//! A block: who was over a limit too often is let in no more for a while. Its twin is `block.lua`.

use std::num::NonZeroU32;

use smallvec::{SmallVec, smallvec};

use super::{Booked, InvalidMeter, Judge, Kind, Meter, SlidingWindow, State, bounds};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Micros, Timestamp};

/// Rejects for `length` once `strikes` are used up. It is a meter that is spent by what it punishes: rejections of its
/// limit, or answers ([`When`](crate::limit::When)). While it lasts nothing lengthens it, and nothing is given back.
///
/// State: the end of the block, 0 where there was none; then the state of the sliding window that counts strikes, which
/// begins anew with each block.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Block {
    length: Micros,
    strikes: SlidingWindow,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 5,
    lua: include_str!("block.lua"),
    params: 3,
    fresh: || State::Numbers(SmallVec::new_const()),
};

impl Block {
    /// A block of `length` once `strikes` are reached within `window`, which is counted as a [`SlidingWindow`] does.
    ///
    /// # Errors
    /// A length of 0 or above 35 years; what [`SlidingWindow::new`] refuses.
    pub fn new(length: Micros, strikes: u64, window: Micros) -> Result<Self, InvalidMeter> {
        bounds::window(length, Micros::new(1))?;
        let strikes = SlidingWindow::new(strikes, window)?;
        Ok(Self { length, strikes })
    }

    /// How long it lasts.
    #[must_use]
    pub fn length(&self) -> Micros {
        self.length
    }

    /// The same after another number of strikes, at least 1.
    #[must_use]
    pub fn after(self, strikes: u64) -> Self {
        let strikes = self.strikes.with_amount(strikes);
        Self { strikes, ..self }
    }
}

/// The end of the block, and the state that counts strikes.
fn split(state: &State) -> (Timestamp, State) {
    let (ends, strikes) = state.numbers().split_first().unwrap_or((&0, &[]));
    (
        Timestamp::from_micros(*ends),
        State::Numbers(strikes.into()),
    )
}

fn join(ends: Timestamp, strikes: &State) -> State {
    let mut numbers: SmallVec<[u64; 4]> = smallvec![ends.as_micros()];
    numbers.extend_from_slice(strikes.numbers());
    State::Numbers(numbers)
}

impl Judge for Block {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        if state.numbers().is_empty() {
            return false;
        }
        let (ends, mut strikes) = split(state);
        let latest = now.after(self.length);
        if !self.strikes.heal(&mut strikes, now) && ends <= latest {
            return false;
        }
        *state = join(ends.min(latest), &strikes);
        true
    }

    fn judge(&self, state: &State, now: Timestamp, cost: Cost) -> Verdict {
        let left = split(state).0.since(now);
        if cost.get() == 0 || left == Micros::ZERO {
            return Verdict::Allow;
        }
        Verdict::Reject(Retry::After(left))
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, id: ChargeId) -> u64 {
        if cost.get() > 0 {
            let (ends, mut strikes) = split(state);
            self.strikes.spend(&mut strikes, now, cost, id);
            let blocked = ends > now;
            let reached = self.strikes.quota(&strikes, now).remaining == 0;
            *state = if reached && !blocked {
                State::Numbers(smallvec![now.after(self.length).as_micros()])
            } else {
                join(ends, &strikes)
            };
        }
        now.as_micros()
    }

    fn give_back(&self, _: &mut State, _: Timestamp, _: Booked, _back: Cost) {}

    fn quota(&self, state: &State, now: Timestamp) -> Quota {
        let (ends, strikes) = split(state);
        let left = ends.since(now);
        let quota = self.strikes.quota(&strikes, now);
        Quota {
            remaining: if left == Micros::ZERO {
                quota.remaining
            } else {
                0
            },
            reset_after: quota.reset_after.max(left),
        }
    }

    fn params(&self) -> SmallVec<[u64; 6]> {
        let mut params = smallvec![self.length.get()];
        params.extend(self.strikes.params());
        params
    }

    fn amount(&self) -> u64 {
        self.strikes.amount()
    }

    fn window(&self) -> Micros {
        self.strikes.window()
    }

    /// Every gateway blocks as it would alone.
    fn divided(&self, _by: NonZeroU32) -> Meter {
        Meter::Block(*self)
    }
}

#[cfg(test)]
mod tests;
