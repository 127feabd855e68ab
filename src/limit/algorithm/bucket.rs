//! Bucket: token bucket, leaky bucket as meter, leaky bucket as queue. Its twin is `bucket.lua`.
//!
//! All three are one: what was spent is a debt that drains at a steady rate. It is held in units x ticks of a window, so
//! that draining `amount` a tick is exact whatever the window.

use std::num::NonZeroU32;

use smallvec::{SmallVec, smallvec};

use super::{Booked, InvalidMeter, Judge, Kind, Meter, SUM, State, bounds};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Micros, Timestamp};

/// Windows up to this are counted in microseconds, longer ones in milliseconds.
const FINE: u64 = 3_600_000_000;
/// The longest that a full bucket may take to drain, about 71 years: moments stay below 2^53.
const LONGEST_DRAIN: u64 = 1 << 51;

/// How a bucket is refilled (or drains, which is the same seen from the other side).
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Refill {
    /// Steadily.
    Continuous,
    /// The whole amount at the end of each window, counted from when a whole bucket was first drawn from.
    Interval,
}

/// What a bucket is made of.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct BucketSpec {
    /// Units that drain (or are refilled) in one window.
    pub amount: u64,
    /// The window.
    pub window: Micros,
    /// The most that passes at once: the size of the bucket.
    pub burst: u64,
    /// How many more may wait their turn; 0 rejects instead.
    pub queue: u64,
    /// How long each may wait at most.
    pub max_wait: Micros,
    /// How it is refilled.
    pub refill: Refill,
}

/// At most `burst + queue` at once, and over time no more than drains.
///
/// State: debt in units x ticks of a window (never zero), and the tick since which it drains.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Bucket {
    spec: BucketSpec,
    /// Microseconds in a tick.
    tick: u64,
    /// Ticks in a window: the debt of one unit.
    unit: u64,
    /// Ticks between two drains.
    step: u64,
    /// Debt that drains in a step.
    drain: u64,
    /// Debt up to which a charge passes at once.
    brim: u64,
    /// Debt up to which it may wait.
    capacity: u64,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 4,
    lua: include_str!("bucket.lua"),
    params: 6,
    fresh: || State::Numbers(SmallVec::new_const()),
};

/// Whole times that `b` goes into `a`. Divisors here are compiled amounts, which are never zero.
fn ratio(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(0)
}

impl Bucket {
    /// The bucket of `spec`. A window above one hour is rounded up to whole milliseconds.
    ///
    /// # Errors
    /// An amount, burst or window of 0, and whatever is too large to be counted exactly.
    pub fn new(spec: BucketSpec) -> Result<Self, InvalidMeter> {
        bounds::amount(spec.amount, SUM)?;
        bounds::window(spec.window, Micros::new(1))?;
        if spec.burst == 0 {
            return Err(InvalidMeter(
                "a burst of 0 would never let anything pass: it is at least 1".to_owned(),
            ));
        }
        let tick = if spec.window.get() <= FINE { 1 } else { 1_000 };
        let unit = spec.window.get().div_ceil(tick);
        let step = match spec.refill {
            Refill::Continuous => 1,
            Refill::Interval => unit,
        };
        let drain = product("an amount", spec.amount, step, SUM, spec)?;
        let brim = product("a burst", spec.burst, unit, SUM, spec)?;
        // More could not drain within the longest wait.
        let waiting = ratio(ratio(spec.max_wait.get(), tick), step).saturating_mul(drain);
        let capacity = if spec.queue.saturating_mul(unit) <= waiting {
            brim.saturating_add(product(
                "a queue",
                spec.queue,
                unit,
                SUM.saturating_sub(brim),
                spec,
            )?)
        } else {
            brim.saturating_add(waiting)
        };
        let bucket = Self {
            spec,
            tick,
            unit,
            step,
            drain,
            brim,
            capacity,
        };
        bucket.check_drain()?;
        Ok(bucket)
    }

    /// What it is made of, as it was given.
    #[must_use]
    pub fn spec(&self) -> BucketSpec {
        self.spec
    }

    /// That the full bucket drains in a time that can be counted.
    fn check_drain(&self) -> Result<(), InvalidMeter> {
        let step = self.step.saturating_mul(self.tick);
        let steps = self.capacity.div_ceil(self.drain);
        if self.capacity <= SUM && steps.saturating_mul(step) <= LONGEST_DRAIN {
            return Ok(());
        }
        let BucketSpec {
            amount,
            window,
            burst,
            queue,
            ..
        } = self.spec;
        let most = ratio(
            ratio(LONGEST_DRAIN, step)
                .saturating_mul(self.drain)
                .min(SUM),
            self.unit,
        );
        Err(InvalidMeter(format!(
            "burst and queue together ({}) are too large for {amount} per {}: they would take over 71 years to drain; \
             at most {most} fit",
            burst.saturating_add(queue),
            bounds::words(window),
        )))
    }

    /// Debt at `now` and the tick since which it drains.
    fn view(&self, state: &State, now: Timestamp) -> (u64, u64) {
        let ticks = ratio(now.as_micros(), self.tick);
        let &[debt, since] = state.numbers() else {
            return (0, ticks);
        };
        // Cut first and drained then, so that under a lowered burst the wait that was told is the wait that is.
        let steps = ratio(ticks.saturating_sub(since), self.step);
        let debt = debt
            .min(self.capacity)
            .saturating_sub(steps.saturating_mul(self.drain));
        if debt == 0 {
            return (0, ticks);
        }
        (debt, since.saturating_add(steps.saturating_mul(self.step)))
    }

    /// From `now` until `debt`, draining since tick `since`, has drained.
    fn until_drained(&self, debt: u64, since: u64, now: Timestamp) -> Micros {
        let ticks = since.saturating_add(debt.div_ceil(self.drain).saturating_mul(self.step));
        Timestamp::from_micros(ticks.saturating_mul(self.tick)).since(now)
    }
}

impl Judge for Bucket {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        let ticks = ratio(now.as_micros(), self.tick);
        let &[debt, since] = state.numbers() else {
            return false;
        };
        if since <= ticks.saturating_add(self.unit) {
            return false;
        }
        *state = State::Numbers(smallvec![debt, ticks]);
        true
    }

    fn judge(&self, state: &State, now: Timestamp, cost: Cost) -> Verdict {
        let cost = cost.get().saturating_mul(self.unit);
        if cost == 0 {
            return Verdict::Allow;
        }
        if cost > self.capacity {
            return Verdict::Reject(Retry::Never);
        }
        let (debt, since) = self.view(state, now);
        let debt = debt.saturating_add(cost);
        if debt <= self.brim {
            return Verdict::Allow;
        }
        if debt <= self.capacity {
            // A moment ahead counts as now, so that a clock which stepped back makes nobody wait above `max_wait`.
            let since = since.min(ratio(now.as_micros(), self.tick));
            return Verdict::Delay {
                by: self.until_drained(debt.saturating_sub(self.brim), since, now),
            };
        }
        let over = debt.saturating_sub(self.capacity);
        Verdict::Reject(Retry::After(self.until_drained(over, since, now)))
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, _id: ChargeId) -> u64 {
        let (debt, since) = self.view(state, now);
        let cost = cost.get().saturating_mul(self.unit);
        if cost == 0 {
            return since;
        }
        let debt = debt.saturating_add(cost);
        *state = State::Numbers(smallvec![debt.min(self.capacity), since]);
        // What was cut at the brim cannot be told apart later: nothing of that charge is given back.
        if debt <= self.capacity { since } else { 0 }
    }

    fn give_back(&self, state: &mut State, now: Timestamp, booked: Booked, back: Cost) {
        let (debt, since) = self.view(state, now);
        let Booked { mark, cost, .. } = booked;
        if debt == 0 || mark == 0 || since < mark {
            return;
        }
        let drained = ratio(since.saturating_sub(mark), self.step).saturating_mul(self.drain);
        let left = cost.get().saturating_mul(self.unit).saturating_sub(drained);
        // What stays drains first.
        let debt = debt.saturating_sub(left.min(back.get().saturating_mul(self.unit)));
        *state = if debt == 0 {
            (KIND.fresh)()
        } else {
            State::Numbers(smallvec![debt, since])
        };
    }

    fn quota(&self, state: &State, now: Timestamp) -> Quota {
        let (debt, since) = self.view(state, now);
        let remaining = ratio(self.capacity.saturating_sub(debt), self.unit);
        let reset_after = if debt == 0 {
            Micros::ZERO
        } else {
            self.until_drained(debt, since, now)
        };
        Quota {
            remaining,
            reset_after,
        }
    }

    fn params(&self) -> SmallVec<[u64; 6]> {
        smallvec![
            self.tick,
            self.unit,
            self.step,
            self.drain,
            self.brim,
            self.capacity
        ]
    }

    fn amount(&self) -> u64 {
        self.spec.amount
    }

    fn window(&self) -> Micros {
        Micros::new(self.unit.saturating_mul(self.tick))
    }

    fn divided(&self, by: NonZeroU32) -> Meter {
        let by = u64::from(by.get());
        let spec = BucketSpec {
            amount: self.spec.amount.div_ceil(by),
            burst: self.spec.burst.div_ceil(by),
            ..self.spec
        };
        // A share drains more slowly; a queue that would then last too long is left out.
        let share = Self::new(spec).or_else(|_| Self::new(BucketSpec { queue: 0, ..spec }));
        Meter::Bucket(share.unwrap_or(*self))
    }
}

/// `count` times `each`, where that is at most `most`; `what` names the number for the person who wrote it.
fn product(
    what: &str,
    count: u64,
    each: u64,
    most: u64,
    spec: BucketSpec,
) -> Result<u64, InvalidMeter> {
    count.checked_mul(each).filter(|&product| product <= most).ok_or_else(|| {
        InvalidMeter(format!(
            "{what} of {count} is too large to be counted exactly in a window of {}: at most {} fits",
            bounds::words(spec.window),
            ratio(most, each),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPEC: BucketSpec = BucketSpec {
        amount: 100,
        window: Micros::new(60_000_000),
        burst: 20,
        queue: 0,
        max_wait: Micros::new(10_000_000),
        refill: Refill::Continuous,
    };

    #[test]
    fn says_which_number_is_too_large_and_what_fits() {
        let hour = Micros::new(FINE);
        let text = |spec| Bucket::new(spec).unwrap_err().to_string();
        let most = SUM / FINE;
        let burst = BucketSpec {
            window: hour,
            burst: most + 1,
            amount: most,
            ..SPEC
        };
        assert_eq!(
            text(burst),
            format!(
                "a burst of {} is too large to be counted exactly in a window of 1h: at most {most} fits",
                most + 1
            )
        );
        assert!(
            Bucket::new(BucketSpec {
                burst: most,
                ..burst
            })
            .is_ok()
        );
        let slow = BucketSpec {
            amount: 1,
            window: Micros::new(31_536_000_000_000),
            burst: 1000,
            ..SPEC
        };
        assert!(text(slow).contains("at most 71 fit"), "{}", text(slow));
        assert!(Bucket::new(BucketSpec { burst: 71, ..slow }).is_ok());
        assert!(text(BucketSpec { burst: 0, ..SPEC }).contains("at least 1"));
        assert!(text(BucketSpec { amount: 0, ..SPEC }).contains("at least 1"));
    }

    #[test]
    fn nobody_waits_longer_than_max_wait() {
        let meter = Bucket::new(BucketSpec {
            queue: 1000,
            burst: 1,
            ..SPEC
        })
        .unwrap();
        let mut state = (KIND.fresh)();
        let now = Timestamp::from_micros(1_000_000_000);
        meter.spend(&mut state, now, Cost::ONE, ChargeId::new(1));
        let mut waits = Vec::new();
        while let Verdict::Delay { by } = meter.judge(&state, now, Cost::ONE) {
            waits.push(by.get());
            meter.spend(&mut state, now, Cost::ONE, ChargeId::new(1));
        }
        assert_eq!(waits.len(), 16, "10 s hold 16 turns of 600 ms");
        assert_eq!(waits.last(), Some(&9_600_000));
    }

    #[test]
    fn a_receipt_from_before_the_clock_was_healed_gives_nothing_back() {
        let meter = Bucket::new(SPEC).unwrap();
        let mut state = (KIND.fresh)();
        let (then, now) = (
            Timestamp::from_micros(1_000_000_000),
            Timestamp::from_micros(900_000_000),
        );
        let mark = meter.spend(&mut state, then, Cost::new(5), ChargeId::new(1));
        assert!(meter.heal(&mut state, now));
        let (id, cost) = (ChargeId::new(1), Cost::new(5));
        meter.give_back(&mut state, now, Booked { mark, id, cost }, cost);
        assert_eq!(meter.quota(&state, now).remaining, 15);
    }

    #[test]
    fn a_share_is_rounded_up_and_keeps_its_queue() {
        let meter = Meter::Bucket(Bucket::new(BucketSpec { queue: 7, ..SPEC }).unwrap());
        let Meter::Bucket(share) = meter.divided(NonZeroU32::new(3).unwrap()) else {
            unreachable!()
        };
        assert_eq!(
            (share.spec.amount, share.spec.burst, share.spec.queue),
            (34, 7, 7)
        );
        let Meter::Bucket(share) = meter.divided(NonZeroU32::MAX) else {
            unreachable!()
        };
        assert_eq!((share.spec.amount, share.spec.burst), (1, 1));
    }
}
