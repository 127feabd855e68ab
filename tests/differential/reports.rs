//! Faults that users met elsewhere and that depend on time, on a clock that the test sets, in both twins.

use sluice::limit::algorithm::{
    Bucket, BucketSpec, FixedWindow, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{
    Charge, ChargeId, Cost, Key, Meter, Quota, Retry, Stake, State, Verdict, When, driver,
};
use sluice::store::redis::script::Call;
use sluice::time::{Micros, Timestamp};

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
        let charges = [Charge {
            key: Key::new("reports"),
            meter: self.meter,
            cost: Cost::ONE,
            id: ChargeId::new(self.asked),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }];
        let now = Timestamp::from_micros(START + at);
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

fn bucket(amount: u64, window: Micros, burst: u64) -> Meter {
    Meter::Bucket(
        Bucket::new(BucketSpec {
            amount,
            window,
            burst,
            queue: 0,
            max_wait: Micros::ZERO,
            refill: Refill::Continuous,
        })
        .unwrap(),
    )
}

// R05 (a): one request every 100 ms for 10 s against 3 per second: the burst and the rate, not twice the rate.
#[test]
fn steady_overload_gets_the_rate() {
    let passed = Twins::new(bucket(3, Micros::SECOND, 3)).passed((0..100).map(|i| i * 100_000));
    assert!((31..=33).contains(&passed), "{passed}");
}

// R05 (b): what was spent late in one window still counts early in the next.
#[test]
fn the_edge_of_a_window_is_no_fresh_start() {
    let (ten, window) = (10, Micros::new(10 * SECOND));
    for meter in [
        Meter::SlidingWindow(SlidingWindow::new(ten, window).unwrap()),
        Meter::SlidingLog(SlidingLog::new(ten, window).unwrap()),
    ] {
        let mut twins = Twins::new(meter);
        assert_eq!(twins.passed([0]), 1);
        assert_eq!(twins.passed([9_500_000; 8]), 8);
        let passed = twins.passed([10_500_000; 10]);
        assert!((1..=2).contains(&passed), "{passed} under {meter:?}");
    }
}

// R07 and R11: the wait falls as time goes by, and asking while rejected does not push it up.
#[test]
fn the_wait_falls_and_asking_does_not_raise_it() {
    let window = Micros::new(10 * SECOND);
    for meter in [
        bucket(1, window, 1),
        Meter::FixedWindow(FixedWindow::new(1, window).unwrap()),
        Meter::SlidingLog(SlidingLog::new(1, window).unwrap()),
    ] {
        let mut twins = Twins::new(meter);
        assert_eq!(twins.ask(0).0, Verdict::Allow);
        for (at, left) in [(2, 8), (5, 5), (5, 5), (9, 1)] {
            let left = Micros::new(left * SECOND);
            let (verdict, quota) = twins.ask(at * SECOND);
            assert_eq!(
                verdict,
                Verdict::Reject(Retry::After(left)),
                "{meter:?} at {at}"
            );
            assert_eq!(
                (quota.remaining, quota.reset_after),
                (0, left),
                "{meter:?} at {at}"
            );
        }
        assert_eq!(twins.ask(10 * SECOND).0, Verdict::Allow, "{meter:?}");
    }
}
