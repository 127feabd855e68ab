//! Answers that are known beforehand, from both twins.

use sluice::limit::algorithm::{
    Bucket, BucketSpec, CalendarWindow, FixedWindow, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{Charge, ChargeId, Cost, Key, Meter, Retry, Stake, Verdict, When, driver};
use sluice::store::redis::script::Call;
use sluice::time::{Micros, Timestamp};

use crate::server::Server;

const START: u64 = 1_796_069_731_000_000;

/// At so many microseconds from the start, a cost under a meter is answered so, and so much is left.
type Vector = (i64, u32, Meter, Verdict, u64);

const SPEC: BucketSpec = BucketSpec {
    amount: 10,
    window: Micros::SECOND,
    burst: 5,
    queue: 0,
    max_wait: Micros::ZERO,
    refill: Refill::Continuous,
};

fn bucket(spec: BucketSpec) -> Meter {
    Meter::Bucket(Bucket::new(spec).unwrap())
}

const PASS: Verdict = Verdict::Allow;
const NEVER: Verdict = Verdict::Reject(Retry::Never);

fn after(micros: u64) -> Verdict {
    Verdict::Reject(Retry::After(Micros::new(micros)))
}

fn delay(micros: u64) -> Verdict {
    Verdict::Delay {
        by: Micros::new(micros),
    }
}

fn token_bucket() -> Vec<Vector> {
    let meter = bucket(SPEC);
    vec![
        (0, 1, meter, PASS, 4),
        (0, 1, meter, PASS, 3),
        (0, 1, meter, PASS, 2),
        (0, 1, meter, PASS, 1),
        (0, 1, meter, PASS, 0),
        (0, 1, meter, after(100_000), 0),
        (99_999, 1, meter, after(1), 0),
        (100_000, 1, meter, PASS, 0),
        (250_000, 3, meter, after(150_000), 1),
        (400_000, 0, meter, PASS, 3),
        (400_000, 3, meter, PASS, 0),
        (400_000, 6, meter, NEVER, 0),
        (400_000, 0, meter, PASS, 0),
        (900_000, 6, meter, NEVER, 5),
    ]
}

fn burst_cut_from_100_to_5() -> Vec<Vector> {
    let (wide, cut) = (bucket(BucketSpec { burst: 100, ..SPEC }), bucket(SPEC));
    vec![
        (0, 100, wide, PASS, 0),
        (0, 1, cut, after(100_000), 0),
        (99_999, 1, cut, after(1), 0),
        (100_000, 1, cut, PASS, 0),
        (600_000, 5, cut, PASS, 0),
    ]
}

fn queue() -> Vec<Vector> {
    let meter = bucket(BucketSpec {
        burst: 1,
        queue: 2,
        max_wait: Micros::SECOND,
        ..SPEC
    });
    vec![
        (0, 1, meter, PASS, 2),
        (0, 1, meter, delay(100_000), 1),
        (30_000, 1, meter, delay(170_000), 0),
        (30_000, 1, meter, after(70_000), 0),
        (100_000, 1, meter, delay(200_000), 0),
        (100_000, 4, meter, NEVER, 0),
        (500_000, 1, meter, PASS, 2),
    ]
}

fn interval() -> Vec<Vector> {
    let meter = bucket(BucketSpec {
        amount: 3,
        burst: 5,
        refill: Refill::Interval,
        ..SPEC
    });
    vec![
        (0, 4, meter, PASS, 1),
        (999_999, 2, meter, after(1), 1),
        (1_000_000, 2, meter, PASS, 2),
        (1_500_000, 5, meter, after(500_000), 2),
        (2_000_000, 5, meter, PASS, 0),
        (2_000_000, 4, meter, after(2_000_000), 0),
    ]
}

/// 10 ms ticks would lose a part of each: above one hour a tick is a millisecond, and none is lost.
fn bucket_over_an_hour() -> Vec<Vector> {
    let day = bucket(BucketSpec {
        amount: 86_400,
        window: Micros::new(86_400_000_000),
        burst: 2,
        ..SPEC
    });
    vec![
        (300, 2, day, PASS, 0),
        (300, 1, day, after(999_700), 0),
        (999_999, 1, day, after(1), 0),
        (1_000_000, 1, day, PASS, 0),
        (1_000_700, 1, day, after(999_300), 0),
    ]
}

fn fixed_window() -> Vec<Vector> {
    let meter = |amount| Meter::FixedWindow(FixedWindow::new(amount, Micros::SECOND).unwrap());
    vec![
        (10, 2, meter(3), PASS, 1),
        (900_000, 1, meter(3), PASS, 0),
        (900_000, 1, meter(3), after(100_010), 0),
        (900_000, 4, meter(3), NEVER, 0),
        (900_000, 1, meter(5), PASS, 1),
        (900_000, 1, meter(2), after(100_010), 0),
        (1_000_009, 3, meter(3), after(1), 0),
        (1_000_010, 3, meter(3), PASS, 0),
        (2_000_009, 1, meter(3), after(1), 0),
    ]
}

fn sliding_log() -> Vec<Vector> {
    let meter = |amount| Meter::SlidingLog(SlidingLog::new(amount, Micros::SECOND).unwrap());
    vec![
        (0, 2, meter(3), PASS, 1),
        (0, 1, meter(3), PASS, 0),
        (500_000, 1, meter(3), after(500_000), 0),
        (999_999, 3, meter(3), after(1), 0),
        (999_999, 1, meter(4), PASS, 0),
        (1_000_000, 2, meter(3), PASS, 0),
        (1_000_000, 3, meter(3), after(1_000_000), 0),
        (1_000_000, 1, meter(3), after(999_999), 0),
        (1_999_999, 1, meter(3), PASS, 0),
    ]
}

fn sliding_window() -> Vec<Vector> {
    let meter = |amount| Meter::SlidingWindow(SlidingWindow::new(amount, Micros::SECOND).unwrap());
    vec![
        (50_000, 2, meter(3), PASS, 1),
        (250_000, 1, meter(3), PASS, 0),
        (260_000, 1, meter(3), after(840_000), 0),
        (260_000, 3, meter(3), after(1_040_000), 0),
        (1_099_999, 1, meter(3), after(1), 0),
        (1_100_000, 2, meter(3), PASS, 0),
        (1_299_999, 1, meter(3), after(1), 0),
        (1_300_000, 1, meter(3), PASS, 0),
    ]
}

/// Windows of 1 s, 0.9 s and 1.1 s, of which the middle one begins at the start.
fn calendar(amount: u64) -> Meter {
    let meter = CalendarWindow::new(amount, Micros::SECOND).unwrap();
    let boundaries = [-1_000_000, 0, 900_000, 2_000_000]
        .map(|at| Timestamp::from_micros(START.checked_add_signed(at).unwrap()));
    Meter::CalendarWindow(meter.around(boundaries))
}

fn calendar_window() -> Vec<Vector> {
    vec![
        (-1, 3, calendar(3), PASS, 0),
        (-1, 1, calendar(3), after(1), 0),
        (0, 2, calendar(3), PASS, 1),
        (400_000, 1, calendar(3), PASS, 0),
        (400_000, 1, calendar(3), after(500_000), 0),
        (400_000, 4, calendar(3), NEVER, 0),
        (400_000, 2, calendar(5), PASS, 0),
        (899_999, 1, calendar(3), after(1), 0),
        (900_000, 3, calendar(3), PASS, 0),
        (900_000, 1, calendar(3), after(1_100_000), 0),
    ]
}

/// Beyond the windows that were sent the count goes on, and who knows the window finds it.
fn calendar_with_wrong_clocks() -> Vec<Vector> {
    let later = |amount| {
        let first = START + 2_000_000;
        let at = [0, 1_000_000, 2_000_000, 3_000_000];
        let boundaries = at.map(|at| Timestamp::from_micros(first + at));
        calendar(amount).around(boundaries)
    };
    vec![
        (1_000_000, 2, calendar(3), PASS, 1),
        // It would be the next window, were the second the usual length of all.
        (2_500_000, 1, calendar(3), PASS, 2),
        (3_500_000, 1, calendar(3), PASS, 1),
        (3_500_000, 1, later(3), PASS, 0),
        (3_500_000, 1, later(3), after(500_000), 0),
        (3_500_000, 1, calendar(3), after(500_000), 0),
        (4_000_000, 1, later(3), PASS, 2),
        // Before the first: everything that is there counts.
        (1_500_000, 2, later(3), PASS, 0),
        (1_500_000, 1, later(3), after(500_000), 0),
    ]
}

/// A moment one window ahead counts as now and stays; one step further ahead it is pulled back to now.
fn clock_steps_back() -> Vec<Vec<Vector>> {
    let fixed = Meter::FixedWindow(FixedWindow::new(3, Micros::SECOND).unwrap());
    let log = Meter::SlidingLog(SlidingLog::new(3, Micros::SECOND).unwrap());
    let sliding = Meter::SlidingWindow(SlidingWindow::new(3, Micros::SECOND).unwrap());
    let bucket = bucket(BucketSpec {
        amount: 3,
        burst: 3,
        ..SPEC
    });
    let third = 333_334;
    vec![
        vec![
            (0, 3, fixed, PASS, 0),
            (-1_000_000, 1, fixed, after(2_000_000), 0),
            (-1_000_001, 1, fixed, after(1_000_000), 0),
            (-1, 3, fixed, PASS, 0),
        ],
        vec![
            (0, 3, log, PASS, 0),
            (-1_000_000, 1, log, after(2_000_000), 0),
            (-1_000_001, 1, log, after(1_000_000), 0),
            (-1, 3, log, PASS, 0),
        ],
        vec![
            (0, 3, sliding, PASS, 0),
            (-1_000_000, 1, sliding, after(2_100_000), 0),
            (-1_000_001, 1, sliding, after(1_000_001), 0),
            (0, 3, sliding, PASS, 0),
        ],
        vec![
            (900_000, 3, calendar(3), PASS, 0),
            (800_000, 1, calendar(3), after(1_200_000), 0),
            (-1, 1, calendar(3), after(1), 0),
            (0, 3, calendar(3), PASS, 0),
        ],
        vec![
            (0, 3, bucket, PASS, 0),
            (-1_000_000, 1, bucket, after(1_000_000 + third), 0),
            (-1_000_001, 1, bucket, after(third), 0),
            (-1, 3, bucket, PASS, 0),
        ],
    ]
}

#[test]
fn golden_vectors_hold_in_both_twins() {
    let mut tables = vec![
        ("token bucket", token_bucket()),
        ("burst cut", burst_cut_from_100_to_5()),
        ("queue", queue()),
        ("interval", interval()),
        ("over an hour", bucket_over_an_hour()),
        ("fixed window", fixed_window()),
        ("sliding log", sliding_log()),
        ("sliding window", sliding_window()),
        ("calendar window", calendar_window()),
        ("calendar, wrong clocks", calendar_with_wrong_clocks()),
    ];
    tables.extend(
        clock_steps_back()
            .into_iter()
            .map(|vectors| ("clock steps back", vectors)),
    );
    let mut server = Server::start();
    for (name, vectors) in tables {
        let key = Key::new(format!("golden:{name}:{}", vectors[0].2.kind().code));
        let mut state = (vectors[0].2.kind().fresh)();
        for (row, (at, cost, meter, verdict, remaining)) in vectors.into_iter().enumerate() {
            let now = Timestamp::from_micros(START.checked_add_signed(at).unwrap());
            let id = ChargeId::new(u64::try_from(row).unwrap() + 1);
            let charge = Charge {
                key: key.clone(),
                meter,
                cost: Cost::new(cost),
                id,
                stake: Stake::Binding,
                limit: 0,
                spent: When::Admitted,
            };
            let charges = [charge];
            let rust = driver::decide(&mut [&mut state], &charges, now);
            assert_eq!(rust.decisions[0].verdict, verdict, "{name} row {row}");
            assert_eq!(
                rust.decisions[0].quota.remaining, remaining,
                "{name} row {row}"
            );
            let mut call = Call::new();
            call.judge(&charges);
            assert_eq!(
                server.call(&call, Some(now)).1,
                [Ok(rust)],
                "{name} row {row}"
            );
        }
    }
}
