//! Faults that users met elsewhere and that depend on time, on a clock that the test sets, in both twins.

use sluice::limit::algorithm::{
    Bucket, BucketSpec, CalendarWindow, FixedWindow, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{
    Charge, ChargeId, Cost, Key, Meter, Quota, Retry, Stake, State, Verdict, When, driver,
};
use sluice::store::redis::script::Call;
use sluice::time::{Boundaries, Micros, Timestamp};

use crate::server::Server;

/// The start of a window of ten seconds, aligned with the clock.
const START: u64 = 1_796_069_730_000_000;
const SECOND: u64 = 1_000_000;

/// One key under one meter, asked in Rust and in Redis at once.
struct Twins {
    server: Server,
    meter: Meter,
    state: State,
    asked: u64,
}

impl Twins {
    fn new(meter: Meter) -> Self {
        Self {
            server: Server::start(),
            meter,
            state: (meter.kind().fresh)(),
            asked: 0,
        }
    }

    /// What both say to one unit, so many microseconds from the start.
    fn ask(&mut self, at: u64) -> (Verdict, Quota) {
        self.asked += 1;
        let now = Timestamp::from_micros(START + at);
        let charges = [Charge {
            key: Key::new("reports"),
            meter: self.meter.around(aligned(self.meter.window(), now)),
            cost: Cost::ONE,
            id: ChargeId::new(self.asked),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }];
        let rust = driver::decide(&mut [&mut self.state], &charges, now);
        let decision = rust.decisions[0];
        let mut call = Call::new();
        call.judge(&charges);
        assert_eq!(self.server.call(&call, Some(now)).1, [Ok(rust)]);
        (decision.verdict, decision.quota)
    }

    fn passed(&mut self, times: impl IntoIterator<Item = u64>) -> usize {
        let passes = |at| usize::from(self.ask(at).0.passes());
        times.into_iter().map(passes).sum()
    }
}

/// What a calendar says at `now` whose windows begin at whole multiples of their length.
fn aligned(window: Micros, now: Timestamp) -> Boundaries {
    let window = window.get();
    let start = now.as_micros() / window * window;
    [0, 1, 2, 3].map(|more| Timestamp::from_micros(start - window + more * window))
}

/// Every way of limiting, that lets `amount` pass at once; a queue delays two more.
struct Ways {
    fixed_window: Meter,
    calendar: Meter,
    sliding_log: Meter,
    sliding_window: Meter,
    bucket: Meter,
    interval: Meter,
    queue: Meter,
}

fn ways(amount: u64, window: Micros) -> Ways {
    let bucket = |queue, refill| {
        Meter::Bucket(
            Bucket::new(BucketSpec {
                amount,
                window,
                burst: amount,
                queue,
                max_wait: Micros::new(2 * window.get()),
                refill,
            })
            .unwrap(),
        )
    };
    Ways {
        fixed_window: Meter::FixedWindow(FixedWindow::new(amount, window).unwrap()),
        calendar: Meter::CalendarWindow(CalendarWindow::new(amount, window).unwrap()),
        sliding_log: Meter::SlidingLog(SlidingLog::new(amount, window).unwrap()),
        sliding_window: Meter::SlidingWindow(SlidingWindow::new(amount, window).unwrap()),
        bucket: bucket(0, Refill::Continuous),
        interval: bucket(0, Refill::Interval),
        queue: bucket(2, Refill::Continuous),
    }
}

// R05 (a): one request every 100 ms for 10 s against 3 per second: the burst and the rate, not twice the rate.
#[test]
fn steady_overload_gets_the_rate() {
    let ways = ways(3, Micros::SECOND);
    for (meter, least, most) in [
        (ways.fixed_window, 30, 33),
        (ways.calendar, 30, 33),
        (ways.sliding_log, 30, 33),
        // It may ask to wait up to a tenth longer.
        (ways.sliding_window, 27, 30),
        (ways.bucket, 31, 33),
        (ways.interval, 30, 33),
        (ways.queue, 33, 35),
    ] {
        let passed = Twins::new(meter).passed((0..100).map(|i| i * 100_000));
        assert!((least..=most).contains(&passed), "{passed} under {meter:?}");
    }
}

// R05 (b): what was spent late in one window still counts early in the next, as far as the algorithm promises.
#[test]
fn the_edge_of_a_window_is_a_fresh_start_only_where_that_is_promised() {
    let ways = ways(10, Micros::new(10 * SECOND));
    for (meter, expected) in [
        (ways.sliding_log, 2),
        (ways.sliding_window, 1),
        // One comes back each second.
        (ways.bucket, 3),
        (ways.queue, 5),
        // N in a window, so up to 2N around its end.
        (ways.fixed_window, 10),
        (ways.calendar, 10),
        (ways.interval, 10),
    ] {
        let mut twins = Twins::new(meter);
        assert_eq!(twins.passed([0]), 1);
        assert_eq!(twins.passed([9_500_000; 8]), 8);
        assert_eq!(twins.passed([10_500_000; 14]), expected, "{meter:?}");
        assert_eq!(twins.passed([10_500_001; 3]), 0, "{meter:?}");
    }
}

// R07 and R11: the wait falls as time goes by, and asking while rejected does not push it up.
#[test]
fn the_wait_falls_and_asking_does_not_raise_it() {
    let ways = ways(1, Micros::new(10 * SECOND));
    // With what is added to the wait, and to the time until nothing counts.
    for (meter, wait, reset) in [
        (ways.fixed_window, 0, 0),
        (ways.calendar, 0, 0),
        (ways.sliding_log, 0, 0),
        (ways.sliding_window, 1, 1),
        (ways.bucket, 0, 0),
        (ways.interval, 0, 0),
        // Two are waiting.
        (ways.queue, 0, 20),
    ] {
        let mut twins = Twins::new(meter);
        let first = if reset == 20 { 3 } else { 1 };
        assert_eq!(twins.passed([0; 3]), first, "{meter:?}");
        for (at, left) in [(2, 8), (5, 5), (5, 5), (9, 1)] {
            let (verdict, quota) = twins.ask(at * SECOND);
            let after = Retry::After(Micros::new((left + wait) * SECOND));
            assert_eq!(verdict, Verdict::Reject(after), "{meter:?} at {at}");
            let until = Micros::new((left + reset) * SECOND);
            assert_eq!(
                (quota.remaining, quota.reset_after),
                (0, until),
                "{meter:?} at {at}"
            );
        }
        assert!(twins.ask((10 + wait) * SECOND).0.passes(), "{meter:?}");
    }
}
