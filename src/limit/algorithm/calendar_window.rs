//! Calendar window: so much from one boundary of a calendar to the next. Its twin is `calendar_window.lua`.

use std::num::NonZeroU32;

use smallvec::{SmallVec, smallvec};

use super::{Booked, InvalidMeter, Judge, Kind, Meter, SUM, State, bounds};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Boundaries, Micros, Timestamp};

/// At most `amount` from one boundary of a calendar to the next.
///
/// Who asks sends the boundaries around what it takes for the store's time; the store's clock picks the window. They are
/// all true, so a count begins anew at a boundary and nowhere else. Where the clock lies outside of them, what was spent
/// since the nearest one before goes on counting: that admits too little, never too much.
///
/// State: start of the window (its boundary, or a moment of it that was charged outside of the known windows), units used
/// in it (never zero).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct CalendarWindow {
    amount: u64,
    length: Micros,
    boundaries: Boundaries,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 7,
    lua: include_str!("calendar_window.lua"),
    params: 6,
    fresh: || State::Numbers(SmallVec::new_const()),
};

impl CalendarWindow {
    /// `amount` units in each window, which usually has this `length`. It knows no window yet ([`Self::around`]).
    ///
    /// # Errors
    /// An amount of 0 or above 2^52; a length of 0 or above 35 years.
    pub fn new(amount: u64, length: Micros) -> Result<Self, InvalidMeter> {
        bounds::amount(amount, SUM)?;
        bounds::window(length, Micros::new(1))?;
        Ok(Self {
            amount,
            length,
            boundaries: Boundaries::default(),
        })
    }

    /// The same, knowing the windows between these boundaries, which ascend.
    #[must_use]
    pub fn around(self, boundaries: Boundaries) -> Self {
        Self { boundaries, ..self }
    }

    /// Whether `now` lies within the windows that it knows.
    fn knows(&self, now: Timestamp) -> bool {
        let [first, .., last] = self.boundaries;
        first <= now && now < last
    }

    /// The last boundary that is not later than `now`; where none is known, the first moment.
    fn beginning(&self, now: Timestamp) -> Timestamp {
        let mut latest = self.boundaries.iter().rev();
        let found = latest.find(|boundary| **boundary <= now);
        found.copied().unwrap_or_default()
    }

    /// The first boundary after `at`; where none is known, when the next is likely.
    fn ending(&self, at: Timestamp) -> Timestamp {
        let mut earliest = self.boundaries.iter();
        if let Some(end) = earliest.find(|boundary| at < **boundary) {
            return *end;
        }
        let [.., last] = self.boundaries;
        let gone = at.since(last).get().checked_rem(self.length.get());
        let left = self.length.get().saturating_sub(gone.unwrap_or(0));
        at.after(Micros::new(left))
    }

    /// Start and use of the window that holds `now`; a new one where none does.
    fn open(&self, state: &State, now: Timestamp) -> (Timestamp, u64) {
        if let &[start, used] = state.numbers() {
            let start = Timestamp::from_micros(start);
            if used > 0 && start >= self.beginning(now) {
                return (start, used);
            }
        }
        let start = if self.knows(now) {
            self.beginning(now)
        } else {
            now
        };
        (start, 0)
    }

    /// How long the window that began at `start` holds, from `now` on. One that began later, before the clock stepped
    /// back, holds to its own end.
    fn left(&self, start: Timestamp, now: Timestamp) -> Micros {
        self.ending(start.max(now)).since(now)
    }
}

impl Judge for CalendarWindow {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        let &[start, used] = state.numbers() else {
            return false;
        };
        // What was spent in the next window is left there.
        if start <= now.as_micros() || start < self.ending(self.ending(now)).as_micros() {
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
        Verdict::Reject(Retry::After(self.left(start, now)))
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, _id: ChargeId) -> u64 {
        let (mut start, used) = self.open(state, now);
        if !self.knows(now) {
            // Whoever knows the window must find what was spent in it.
            start = start.max(now);
        }
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
            self.left(start, now)
        };
        Quota {
            remaining: self.amount.saturating_sub(used),
            reset_after,
        }
    }

    fn params(&self) -> SmallVec<[u64; 6]> {
        let boundaries = self.boundaries.iter().map(|at| at.as_micros());
        [self.amount, self.length.get()]
            .into_iter()
            .chain(boundaries)
            .collect()
    }

    fn amount(&self) -> u64 {
        self.amount
    }

    fn window(&self) -> Micros {
        self.length
    }

    fn divided(&self, by: NonZeroU32) -> Meter {
        Meter::CalendarWindow(Self {
            amount: self.amount.div_ceil(u64::from(by.get())),
            ..*self
        })
    }
}
