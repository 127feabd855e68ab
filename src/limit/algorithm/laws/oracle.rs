//! Recounts from the list of what was admitted, in the slowest and plainest way, on a clock that never steps back.

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::super::{Meter, Refill};
use super::boundary;

/// When what was admitted, in order of time.
type Admitted = [(u64, u64)];

/// What a key has used, and what it may use at most, in one measure.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    used: u128,
    most: u128,
    /// What one unit is in that measure.
    unit: u128,
}

pub(super) fn room(meter: Meter, admitted: &Admitted, now: u64) -> Room {
    let (amount, window) = (u128::from(meter.amount()), meter.window().get());
    let since = |from: u64| {
        admitted
            .iter()
            .filter(|(at, _)| *at >= from)
            .map(|(_, cost)| u128::from(*cost))
            .sum()
    };
    let whole = |used| Room {
        used,
        most: amount,
        unit: 1,
    };
    match meter {
        Meter::FixedWindow(_) => {
            let mut start = None;
            for &(at, _) in admitted {
                if start.is_none_or(|start| at >= start + window) {
                    start = Some(at);
                }
            }
            let used = start.filter(|start| now < start + window).map_or(0, since);
            whole(used)
        }
        Meter::CalendarWindow(_) => whole(since(begun(now, window))),
        Meter::SlidingLog(_) | Meter::Concurrency(_) => whole(since(now - window + 1)),
        Meter::SlidingWindow(_) => {
            let length = window / 10;
            whole(since((now / length - 10) * length))
        }
        Meter::Bucket(bucket) => {
            let spec = bucket.spec();
            let tick = if spec.window.get() <= 3_600_000_000 {
                1
            } else {
                1_000
            };
            let unit = u128::from(window / tick);
            let waits = match spec.refill {
                Refill::Continuous => u128::from(spec.max_wait.get() / tick) * amount,
                Refill::Interval => u128::from(spec.max_wait.get() / window) * amount * unit,
            };
            let most = u128::from(spec.burst) * unit + (u128::from(spec.queue) * unit).min(waits);
            let used = match spec.refill {
                Refill::Continuous => drained_steadily(admitted, now, tick, unit, amount),
                Refill::Interval => drained_in_steps(admitted, now, tick, unit, amount),
            };
            Room { used, most, unit }
        }
        Meter::Block(_) => unreachable!("blocks are recounted in driver/worlds.rs"),
    }
}

/// When the window of a calendar began that `now` is in.
fn begun(now: u64, window: u64) -> u64 {
    let mut number = (now / window).saturating_sub(2);
    while boundary(number + 1, window) <= now {
        number += 1;
    }
    boundary(number, window)
}

/// The debt is the most that any stretch up to now has left: what was admitted in it, less what drains in its time.
fn drained_steadily(admitted: &Admitted, now: u64, tick: u64, unit: u128, amount: u128) -> u128 {
    let mut most = 0;
    for (first, &(start, _)) in admitted.iter().enumerate() {
        let spent: u128 = admitted[first..]
            .iter()
            .map(|(_, cost)| u128::from(*cost) * unit)
            .sum();
        let drained = u128::from(now / tick - start / tick) * amount;
        most = most.max(spent.saturating_sub(drained));
    }
    most
}

/// Tick by window: at the end of each window since a whole bucket was first drawn from, the amount drains.
fn drained_in_steps(admitted: &Admitted, now: u64, tick: u64, unit: u128, amount: u128) -> u128 {
    let mut debt: u128 = 0;
    let mut next: u128 = 0;
    let mut pass = |until: u128, debt: &mut u128| {
        while *debt > 0 && next <= until {
            *debt = debt.saturating_sub(amount * unit);
            next += unit;
        }
        if *debt == 0 {
            next = until + unit;
        }
    };
    for &(at, cost) in admitted {
        pass(u128::from(at / tick), &mut debt);
        debt += u128::from(cost) * unit;
    }
    pass(u128::from(now / tick), &mut debt);
    debt
}

pub(super) fn fits(room: Room, cost: u32) -> bool {
    room.used + u128::from(cost) * room.unit <= room.most
}

pub(super) fn remaining(room: Room) -> u64 {
    u64::try_from(room.most.saturating_sub(room.used) / room.unit).unwrap()
}

/// That no interval admitted more than the algorithm's bound allows.
pub(super) fn within_bound(meter: Meter, admitted: &Admitted) -> Result<(), TestCaseError> {
    let (amount, window) = (meter.amount(), meter.window().get());
    for (first, &(start, _)) in admitted.iter().enumerate() {
        let mut sum = 0;
        for &(at, cost) in &admitted[first..] {
            sum += cost;
            let span = at - start;
            let bound = match meter {
                Meter::FixedWindow(_) => amount * (span / window + 2),
                Meter::CalendarWindow(_) => amount * (span / (window * 7 / 8).max(1) + 2),
                Meter::SlidingLog(_) | Meter::SlidingWindow(_) | Meter::Concurrency(_) => {
                    amount * (span / window + 1)
                }
                Meter::Bucket(bucket) => {
                    let spec = bucket.spec();
                    let tick = if spec.window.get() <= 3_600_000_000 {
                        1
                    } else {
                        1_000
                    };
                    let more = match spec.refill {
                        Refill::Continuous => {
                            u128::from(amount) * u128::from(span + tick) / u128::from(window)
                        }
                        Refill::Interval => u128::from(amount) * u128::from(span / window + 1),
                    };
                    spec.burst + spec.queue + u64::try_from(more).unwrap()
                }
                Meter::Block(_) => unreachable!("blocks are recounted in driver/worlds.rs"),
            };
            prop_assert!(sum <= bound, "{sum} in {span} us, above {bound}");
        }
    }
    Ok(())
}
