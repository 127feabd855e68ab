//! Sliding window: so much in any window, counted in ten sub-windows. Its twin is `sliding_window.lua`.

use std::num::NonZeroU32;

use smallvec::{SmallVec, smallvec};

use super::{Booked, InvalidMeter, Judge, Kind, Meter, SUM, State, bounds};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Micros, Timestamp};

/// Into how many sub-windows a window is cut.
const CUTS: u64 = 10;

/// At most `amount` in any window. A sub-window counts until it has wholly left, so a client may be asked to wait up to
/// a tenth of the window longer than a log would.
///
/// State: index of the newest sub-window that was charged, then the counts of it and of those before it, newest first;
/// the first and the last are never zero. Sub-window j holds from j x length until before (j + 1) x length since the
/// epoch.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SlidingWindow {
    amount: u64,
    /// Length of a sub-window in microseconds: whole milliseconds.
    length: u64,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 3,
    lua: include_str!("sliding_window.lua"),
    params: 2,
    fresh: || State::Numbers(SmallVec::new_const()),
};

/// A state as it looks at one instant.
struct View<'s> {
    /// The sub-window that counts as now.
    current: u64,
    /// How many sub-windows ago the newest count was.
    shift: u64,
    /// The counts that still count, newest first.
    counts: &'s [u64],
}

impl SlidingWindow {
    /// `amount` units a window. The window is rounded up, so that a tenth of it is whole milliseconds.
    ///
    /// # Errors
    /// An amount of 0 or above 2^52; a window below 10 ms or above 35 years.
    pub fn new(amount: u64, window: Micros) -> Result<Self, InvalidMeter> {
        bounds::amount(amount, SUM)?;
        bounds::window(window, Micros::new(10_000))?;
        let length = window.get().div_ceil(10_000).saturating_mul(1_000);
        Ok(Self { amount, length })
    }

    /// The same with another amount, at least 1 and at most 2^52.
    pub(super) fn with_amount(self, amount: u64) -> Self {
        let amount = amount.clamp(1, SUM);
        Self { amount, ..self }
    }

    /// Index of the sub-window that holds `now`.
    fn index(&self, now: Timestamp) -> u64 {
        now.as_micros().checked_div(self.length).unwrap_or(0)
    }

    /// From `now` to the start of sub-window `index`.
    fn until(&self, index: u64, now: Timestamp) -> Micros {
        Timestamp::from_micros(index.saturating_mul(self.length)).since(now)
    }

    fn view<'s>(&self, state: &'s State, now: Timestamp) -> View<'s> {
        let index = self.index(now);
        let Some((&newest, counts)) = state.numbers().split_first() else {
            return View {
                current: index,
                shift: 0,
                counts: &[],
            };
        };
        let current = index.max(newest);
        let shift = current.saturating_sub(newest);
        let live = usize::try_from(CUTS.saturating_add(1).saturating_sub(shift)).unwrap_or(0);
        View {
            current,
            shift,
            counts: counts.get(..live).unwrap_or(counts),
        }
    }
}

/// Sum of `counts`.
fn total(counts: &[u64]) -> u64 {
    counts
        .iter()
        .fold(0, |sum, &count| sum.saturating_add(count))
}

impl Judge for SlidingWindow {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        let index = self.index(now);
        let State::Numbers(numbers) = state else {
            return false;
        };
        match numbers.first_mut() {
            Some(newest) if *newest > index.saturating_add(CUTS) => {
                *newest = index;
                true
            }
            _ => false,
        }
    }

    fn judge(&self, state: &State, now: Timestamp, cost: Cost) -> Verdict {
        let cost = cost.get();
        if cost == 0 {
            return Verdict::Allow;
        }
        if cost > self.amount {
            return Verdict::Reject(Retry::Never);
        }
        let view = self.view(state, now);
        let mut left = total(view.counts);
        if left.saturating_add(cost) <= self.amount {
            return Verdict::Allow;
        }
        // Let the oldest leave one by one, until the cost fits: a count leaves when the sub-window CUTS + 1 after its own
        // begins.
        let newest = view.current.saturating_sub(view.shift);
        let length = u64::try_from(view.counts.len()).unwrap_or(0);
        let mut leaves = newest
            .saturating_add(CUTS)
            .saturating_add(1)
            .saturating_sub(length);
        for &count in view.counts.iter().rev() {
            leaves = leaves.saturating_add(1);
            left = left.saturating_sub(count);
            if left.saturating_add(cost) <= self.amount {
                break;
            }
        }
        Verdict::Reject(Retry::After(self.until(leaves, now)))
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, _id: ChargeId) -> u64 {
        let view = self.view(state, now);
        let current = view.current;
        if cost.get() == 0 {
            return current;
        }
        let mut numbers: SmallVec<[u64; 4]> = smallvec![current];
        if view.shift > 0 && !view.counts.is_empty() {
            numbers.extend((0..view.shift).map(|_| 0));
        }
        numbers.extend_from_slice(view.counts);
        match numbers.get_mut(1) {
            Some(count) => *count = count.saturating_add(cost.get()).min(SUM),
            None => numbers.push(cost.get()),
        }
        *state = State::Numbers(trim(numbers));
        current
    }

    fn give_back(&self, state: &mut State, now: Timestamp, booked: Booked, back: Cost) {
        let view = self.view(state, now);
        let newest = view.current.saturating_sub(view.shift);
        let place = newest
            .checked_sub(booked.mark)
            .and_then(|age| usize::try_from(age).ok());
        let Some(place) = place.filter(|&place| place < view.counts.len()) else {
            return;
        };
        let mut numbers: SmallVec<[u64; 4]> = smallvec![newest];
        numbers.extend_from_slice(view.counts);
        if let Some(count) = numbers.get_mut(place.saturating_add(1)) {
            *count = count.saturating_sub(back.get());
        }
        *state = State::Numbers(trim(numbers));
    }

    fn quota(&self, state: &State, now: Timestamp) -> Quota {
        let view = self.view(state, now);
        let used = total(view.counts);
        let reset_after = if used == 0 {
            Micros::ZERO
        } else {
            let newest = view.current.saturating_sub(view.shift);
            self.until(newest.saturating_add(CUTS).saturating_add(1), now)
        };
        Quota {
            remaining: self.amount.saturating_sub(used),
            reset_after,
        }
    }

    fn params(&self) -> SmallVec<[u64; 6]> {
        smallvec![self.amount, self.length]
    }

    fn amount(&self) -> u64 {
        self.amount
    }

    fn window(&self) -> Micros {
        Micros::new(self.length.saturating_mul(CUTS))
    }

    fn divided(&self, by: NonZeroU32) -> Meter {
        Meter::SlidingWindow(Self {
            amount: self.amount.div_ceil(u64::from(by.get())),
            ..*self
        })
    }
}

/// Index and counts without zeros at either end; nothing where nothing is counted.
fn trim(mut numbers: SmallVec<[u64; 4]>) -> SmallVec<[u64; 4]> {
    while numbers.len() > 1 && numbers.last() == Some(&0) {
        numbers.pop();
    }
    while numbers.len() > 1 && numbers.get(1) == Some(&0) {
        numbers.remove(1);
        if let Some(newest) = numbers.first_mut() {
            *newest = newest.saturating_sub(1);
        }
    }
    if numbers.len() == 1 {
        numbers.clear();
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_round_up_to_whole_milliseconds_a_tenth() {
        let window =
            |micros| SlidingWindow::new(1, Micros::new(micros)).map(|meter| meter.window().get());
        assert_eq!(window(10_000), Ok(10_000));
        assert_eq!(window(10_001), Ok(20_000));
        assert_eq!(window(60_000_000), Ok(60_000_000));
        assert!(window(9_999).is_err());
    }

    #[test]
    fn a_sub_window_counts_until_it_has_wholly_left() {
        let meter = SlidingWindow::new(2, Micros::SECOND).unwrap();
        let mut state = (KIND.fresh)();
        let at = Timestamp::from_micros(1_099_999);
        assert_eq!(
            meter.spend(&mut state, at, Cost::new(2), ChargeId::new(1)),
            10
        );
        let verdict = meter.judge(&state, at, Cost::ONE);
        assert_eq!(
            verdict,
            Verdict::Reject(Retry::After(Micros::new(2_100_000 - 1_099_999)))
        );
        assert_eq!(
            meter.judge(&state, Timestamp::from_micros(2_100_000), Cost::new(2)),
            Verdict::Allow
        );
    }
}
