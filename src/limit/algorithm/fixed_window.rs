//! Fixed window: so much from a key's first request to the end of its window. Its twin is `fixed_window.lua`.

use std::num::NonZeroU32;

use smallvec::{SmallVec, smallvec};

use super::{Booked, InvalidMeter, Judge, Kind, Meter, SUM, State, bounds};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Micros, Timestamp};

/// At most `amount` from a key's first request to the end of its window, so at most twice that in one window's length.
///
/// State: start of the window, units used in it (never zero). A window holds from its start until before start + window.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct FixedWindow {
    amount: u64,
    window: Micros,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 1,
    lua: include_str!("fixed_window.lua"),
    params: 2,
    fresh: || State::Numbers(SmallVec::new_const()),
};

impl FixedWindow {
    /// `amount` units a window.
    ///
    /// # Errors
    /// An amount of 0 or above 2^52; a window of 0 or above 35 years.
    pub fn new(amount: u64, window: Micros) -> Result<Self, InvalidMeter> {
        bounds::amount(amount, SUM)?;
        bounds::window(window, Micros::new(1))?;
        Ok(Self { amount, window })
    }

    /// Start and use of the window that holds `now`; a new one where none does.
    fn open(&self, state: &State, now: Timestamp) -> (Timestamp, u64) {
        if let &[start, used] = state.numbers() {
            let start = Timestamp::from_micros(start);
            if used > 0 && now < start.after(self.window) {
                return (start, used);
            }
        }
        (now, 0)
    }
}

impl Judge for FixedWindow {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        let &[start, used] = state.numbers() else {
            return false;
        };
        if start <= now.after(self.window).as_micros() {
            return false;
        }
        *state = State::Numbers(smallvec![now.as_micros(), used]);
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
        let (start, used) = self.open(state, now);
        if used.saturating_add(cost) <= self.amount {
            return Verdict::Allow;
        }
        Verdict::Reject(Retry::After(start.after(self.window).since(now)))
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, _id: ChargeId) -> u64 {
        let (start, used) = self.open(state, now);
        if cost.get() > 0 {
            let used = used.saturating_add(cost.get()).min(SUM);
            *state = State::Numbers(smallvec![start.as_micros(), used]);
        }
        start.as_micros()
    }

    fn give_back(&self, state: &mut State, now: Timestamp, booked: Booked, back: Cost) {
        let (start, used) = self.open(state, now);
        if used == 0 || start.as_micros() != booked.mark {
            return;
        }
        let used = used.saturating_sub(back.get());
        // An emptied window is no window: the next charge opens its own.
        *state = if used == 0 {
            (KIND.fresh)()
        } else {
            State::Numbers(smallvec![booked.mark, used])
        };
    }

    fn quota(&self, state: &State, now: Timestamp) -> Quota {
        let (start, used) = self.open(state, now);
        let reset_after = if used == 0 {
            Micros::ZERO
        } else {
            start.after(self.window).since(now)
        };
        Quota {
            remaining: self.amount.saturating_sub(used),
            reset_after,
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
        Meter::FixedWindow(Self {
            amount: self.amount.div_ceil(u64::from(by.get())),
            ..*self
        })
    }
}
