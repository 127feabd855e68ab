//! A client that sleeps exactly `Retry-After` and comes back alone is admitted: 1000 times of 1000, under every algorithm,
//! in both stores, on a clock that the test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sluice::limit::algorithm::{
    Bucket, BucketSpec, CalendarWindow, FixedWindow, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{Charge, ChargeId, Cost, Key, Meter, Retry, Ruling, Stake, When};
use sluice::store::redis::script::Call;
use sluice::store::{Clock, Memory};
use sluice::telemetry::{Events, Registry};
use sluice::time::{Calendar, Micros, Timestamp, Unit};

use crate::server::Server;
use crate::walk::Dice;

const EPOCH: u64 = 1_796_069_731_123_456;
const SECOND: u64 = 1_000_000;
const TIMES: usize = 1000;

/// How a limit counts.
#[derive(Clone, Copy, Debug)]
enum Way {
    FixedWindow,
    SlidingLog,
    SlidingWindow,
    Calendar,
    TokenBucket,
    TokenBucketByInterval,
    LeakyBucket,
    Queue,
}

const WAYS: [Way; 8] = [
    Way::FixedWindow,
    Way::SlidingLog,
    Way::SlidingWindow,
    Way::Calendar,
    Way::TokenBucket,
    Way::TokenBucketByInterval,
    Way::LeakyBucket,
    Way::Queue,
];

/// One limit on one key.
struct Held {
    key: Key,
    meter: Meter,
    calendar: Option<Calendar>,
}

impl Held {
    fn new(way: Way, key: String, dice: &mut Dice) -> Self {
        let amount = 1 + dice.below(12);
        let windows = [1, 2, 7, 60, 300, 3600, 5000, 86_400];
        let window = windows[usize::try_from(dice.below(8)).unwrap()] * SECOND;
        // Not only whole seconds.
        let window = Micros::new(window + dice.below(2) * 1000 * dice.below(900));
        let bucket = |burst, queue, refill| {
            Meter::Bucket(
                Bucket::new(BucketSpec {
                    amount,
                    window,
                    burst,
                    queue,
                    max_wait: Micros::new(2 * window.get()),
                    refill,
                })
                .unwrap(),
            )
        };
        let burst = 1 + dice.below(15);
        let meter = match way {
            Way::FixedWindow => Meter::FixedWindow(FixedWindow::new(amount, window).unwrap()),
            Way::SlidingLog => Meter::SlidingLog(SlidingLog::new(amount, window).unwrap()),
            Way::SlidingWindow => Meter::SlidingWindow(SlidingWindow::new(amount, window).unwrap()),
            Way::Calendar => Meter::CalendarWindow(CalendarWindow::new(amount, window).unwrap()),
            Way::TokenBucket | Way::LeakyBucket => bucket(burst, 0, Refill::Continuous),
            Way::TokenBucketByInterval => bucket(burst, 0, Refill::Interval),
            Way::Queue => bucket(burst, 1 + dice.below(4), Refill::Continuous),
        };
        let calendar = matches!(way, Way::Calendar).then(|| {
            let zones = [
                "UTC",
                "Europe/Paris",
                "Australia/Lord_Howe",
                "America/Sao_Paulo",
                "Africa/Cairo",
            ];
            let zone = zones[usize::try_from(dice.below(5)).unwrap()];
            let (_, unit) = Unit::WORDS[usize::try_from(dice.below(5)).unwrap()];
            Calendar::new(unit, zone).unwrap()
        });
        Self {
            key: Key::new(key),
            meter,
            calendar,
        }
    }

    /// The most that one request may cost.
    fn most(&self) -> u64 {
        match self.meter {
            Meter::Bucket(bucket) => bucket.spec().burst,
            _ => self.meter.amount(),
        }
    }

    fn charge(&self, now: u64, cost: u32, id: u64) -> Charge {
        let meter = match &self.calendar {
            Some(calendar) => self
                .meter
                .around(calendar.around(Timestamp::from_micros(now))),
            None => self.meter,
        };
        Charge {
            key: self.key.clone(),
            meter,
            cost: Cost::new(cost),
            id: ChargeId::new(id),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }
    }
}

/// Both stores, on one clock.
struct Stores {
    clock: Arc<AtomicU64>,
    memory: Memory,
    server: Server,
    asked: u64,
}

impl Stores {
    fn new() -> Self {
        let clock = Arc::new(AtomicU64::new(EPOCH));
        let events = Events::new(&Registry::new());
        Self {
            memory: Memory::new(1_000_000, Clock::Manual(Arc::clone(&clock)), events),
            clock,
            server: Server::start(),
            asked: 0,
        }
    }

    /// What both say to a request that costs `cost` under each of its limits.
    fn ask(&mut self, limits: &[Held], now: u64, cost: u32) -> Ruling {
        let charges: Vec<Charge> = limits
            .iter()
            .map(|held| {
                self.asked += 1;
                held.charge(now, cost, self.asked)
            })
            .collect();
        self.clock.store(now, Ordering::Relaxed);
        let ruling = self.memory.admit(&charges);
        let mut call = Call::new();
        call.judge(&charges);
        let (_, rulings) = self.server.call(&call, Some(Timestamp::from_micros(now)));
        assert_eq!(rulings, [Ok(ruling.clone())]);
        ruling
    }

    /// A client that uses its limits up, waits as long as it is told to, and comes back. False when none of its requests
    /// was told to wait.
    fn returns(&mut self, limits: &[Held], dice: &mut Dice) -> bool {
        let most = limits.iter().map(Held::most).min().unwrap();
        let longest = limits
            .iter()
            .map(|held| held.meter.window().get())
            .max()
            .unwrap();
        // Over four years, so that clocks change in some of them.
        let mut now = EPOCH + dice.below(4 * 365 * 86_400) * SECOND + dice.below(SECOND);
        for _ in 0..200 {
            let cost = 1 + u32::try_from(dice.below(most)).unwrap();
            if let Some(Retry::After(wait)) = self.ask(limits, now, cost).retry() {
                if dice.one_in(3) {
                    // Told, and asking again meanwhile: that may not make it longer.
                    now += dice.below(wait.get());
                    continue;
                }
                let seconds = wait.ceil_seconds().max(1);
                let back = self.ask(limits, now + seconds * SECOND, cost);
                assert_eq!(back.retry(), None, "after {seconds} s of {wait:?}");
                return true;
            }
            now += match dice.below(3) {
                0 => 0,
                1 => dice.below(longest / 20 + 2),
                _ => dice.below(longest / 200 + 2),
            };
        }
        false
    }
}

fn thousand(name: &str, mut limits: impl FnMut(&str, &mut Dice) -> Vec<Held>) {
    let mut stores = Stores::new();
    let mut dice = Dice(u64::from(name.as_bytes()[0]) * 77 + 1);
    let mut told = 0;
    for client in 0..2 * TIMES {
        let limits = limits(&format!("{name}:{client}"), &mut dice);
        told += usize::from(stores.returns(&limits, &mut dice));
        if told == TIMES {
            return;
        }
    }
    panic!("{name}: only {told} were told to wait");
}

#[test]
fn whoever_waits_as_told_is_admitted_under_every_algorithm() {
    for way in WAYS {
        thousand(&format!("{way:?}"), |key, dice| {
            vec![Held::new(way, key.to_owned(), dice)]
        });
    }
}

#[test]
fn whoever_waits_as_told_is_admitted_under_several_limits_at_once() {
    thousand("several", |key, dice| {
        let count = 2 + dice.below(3);
        let held = |number| {
            let way = WAYS[usize::try_from(dice.below(8)).unwrap()];
            Held::new(way, format!("{key}:{number}"), dice)
        };
        (0..count).map(held).collect()
    });
}
