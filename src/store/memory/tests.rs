use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::limit::algorithm::{Bucket, BucketSpec, FixedWindow, Refill, SlidingLog, SlidingWindow};
use crate::limit::{ChargeId, Cost, Stake, When};
use crate::telemetry::Registry;

const START: u64 = 1_800_000_000_000_000;
const MINUTE: u64 = 60_000_000;

fn memory(max_keys: usize) -> (Memory, Arc<AtomicU64>) {
    let time = Arc::new(AtomicU64::new(START));
    let events = Events::new(&Registry::new());
    (
        Memory::new(max_keys, Clock::Manual(Arc::clone(&time)), events),
        time,
    )
}

fn window(amount: u64) -> Meter {
    Meter::SlidingWindow(SlidingWindow::new(amount, Micros::new(MINUTE)).unwrap())
}

fn charge(who: &str, limit: &str, meter: Meter) -> Charge {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Charge {
        key: Key::new(format!("sluice:1:{{{who}}}:{limit}:sw60s:")),
        meter,
        cost: Cost::ONE,
        id: ChargeId::new(NEXT.fetch_add(1, Ordering::Relaxed)),
        stake: Stake::Binding,
        limit: 0,
        spent: When::Admitted,
    }
}

fn admitted(memory: &Memory, charges: &[Charge]) -> bool {
    memory.admit(charges).retry().is_none()
}

#[test]
fn all_or_nothing_over_shards() {
    let (memory, _) = memory(100);
    let both = || {
        [
            charge("a", "wide", window(10)),
            charge("b", "narrow", window(1)),
        ]
    };
    assert!(admitted(&memory, &both()));
    let ruling = memory.admit(&both());
    assert!(ruling.retry().is_some());
    assert_eq!(
        ruling.decisions[0].quota.remaining, 9,
        "a refusal spends nothing anywhere"
    );
    assert_eq!(ruling.decisions[0].mark, None);
}

#[test]
fn two_hundred_in_parallel_on_fifty() {
    let meters = [
        window(50),
        Meter::FixedWindow(FixedWindow::new(50, Micros::new(MINUTE)).unwrap()),
        Meter::SlidingLog(SlidingLog::new(50, Micros::new(MINUTE)).unwrap()),
    ];
    for meter in meters {
        let (memory, _) = memory(100);
        let passed = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let (memory, passed) = (&memory, &passed);
                scope.spawn(move || {
                    for _ in 0..25 {
                        // The order of the charges differs, the order of the locks does not.
                        let mut charges =
                            vec![charge("a", "one", meter), charge("b", "two", meter)];
                        if thread % 2 == 0 {
                            charges.reverse();
                        }
                        if admitted(memory, &charges) {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 50, "{meter:?}");
    }
}

#[test]
fn full_store_shares_one_counter_a_limit() {
    let (memory, _) = memory(3);
    for who in ["a", "b", "c"] {
        assert!(admitted(&memory, &[charge(who, "per-ip", window(2))]));
    }
    assert!(admitted(&memory, &[charge("d", "per-ip", window(2))]));
    assert!(admitted(&memory, &[charge("e", "per-ip", window(2))]));
    assert!(
        !admitted(&memory, &[charge("f", "per-ip", window(2))]),
        "new keys share what one has"
    );
    assert!(
        admitted(&memory, &[charge("f", "other", window(2))]),
        "each limit has its own"
    );
    assert!(
        admitted(&memory, &[charge("a", "per-ip", window(2))]),
        "a held key keeps its counter"
    );
    assert!(!admitted(&memory, &[charge("a", "per-ip", window(2))]));
    assert_eq!(memory.len(), 3);
}

#[test]
fn a_flood_frees_no_exhausted_key() {
    let (memory, time) = memory(10);
    assert!(admitted(&memory, &[charge("victim", "per-ip", window(1))]));
    for n in 0..1000 {
        let _ruling = memory.admit(&[charge(&format!("flood-{n}"), "per-ip", window(1))]);
        time.fetch_add(1_000, Ordering::Relaxed);
        memory.sweep(SHARDS);
    }
    assert!(!admitted(&memory, &[charge("victim", "per-ip", window(1))]));
}

#[test]
fn expired_keys_make_room() {
    let (memory, time) = memory(2);
    assert!(admitted(&memory, &[charge("a", "per-ip", window(1))]));
    assert!(admitted(&memory, &[charge("b", "per-ip", window(1))]));
    time.fetch_add(2 * MINUTE, Ordering::Relaxed);
    memory.sweep(SHARDS);
    assert!(memory.is_empty());
    assert!(admitted(&memory, &[charge("c", "per-ip", window(1))]));
    assert_eq!(memory.len(), 1);
}

#[test]
fn a_key_that_leaves_the_overflow_takes_its_count_along() {
    let (memory, time) = memory(1);
    assert!(admitted(
        &memory,
        &[charge(
            "a",
            "short",
            Meter::FixedWindow(FixedWindow::new(1, Micros::SECOND).unwrap())
        )]
    ));
    for _ in 0..3 {
        assert!(admitted(&memory, &[charge("late", "per-ip", window(3))]));
    }
    time.fetch_add(3_000_000, Ordering::Relaxed);
    memory.sweep(SHARDS);
    assert!(memory.is_empty(), "the short key is gone");
    assert!(
        !admitted(&memory, &[charge("late", "per-ip", window(3))]),
        "it spent three from the overflow"
    );
}

#[test]
fn a_refused_new_key_takes_no_place() {
    let (memory, _) = memory(10);
    let mut dear = charge("a", "per-ip", window(1));
    dear.cost = Cost::new(2);
    assert!(!admitted(&memory, &[dear]));
    assert_eq!(memory.len(), 0);
}

#[test]
fn gives_back_to_where_it_was_spent() {
    let (memory, _) = memory(1);
    let receipt = |charge: Charge| {
        let ruling = memory.admit(std::slice::from_ref(&charge));
        ruling.receipts(std::slice::from_ref(&charge)).next()
    };
    let own = receipt(charge("a", "per-ip", window(1))).unwrap();
    let shared = receipt(charge("b", "per-ip", window(1))).unwrap();
    assert!(receipt(charge("a", "per-ip", window(1))).is_none());
    assert!(receipt(charge("b", "per-ip", window(1))).is_none());
    memory.give_back(&[shared]);
    assert!(
        receipt(charge("a", "per-ip", window(1))).is_none(),
        "the overflow's does not go to a key"
    );
    assert!(receipt(charge("c", "per-ip", window(1))).is_some());
    memory.give_back(&[own]);
    assert!(receipt(charge("a", "per-ip", window(1))).is_some());
}

#[test]
fn spends_without_asking() {
    let (memory, _) = memory(10);
    for _ in 0..3 {
        let booked = memory.spend(&[charge("a", "per-ip", window(2))]);
        assert!(booked.decisions[0].mark.is_some());
    }
    assert!(!admitted(&memory, &[charge("a", "per-ip", window(2))]));
}

#[test]
fn a_queue_delays() {
    let (memory, _) = memory(10);
    let spec = BucketSpec {
        amount: 10,
        window: Micros::SECOND,
        burst: 1,
        queue: 2,
        max_wait: Micros::new(10_000_000),
        refill: Refill::Continuous,
    };
    let meter = Meter::Bucket(Bucket::new(spec).unwrap());
    let delays: Vec<_> = (0..4)
        .map(|_| memory.admit(&[charge("a", "queue", meter)]))
        .map(|ruling| (ruling.delay().get(), ruling.retry().is_none()))
        .collect();
    assert_eq!(
        delays,
        [(0, true), (100_000, true), (200_000, true), (0, false)]
    );
}

#[test]
fn overflow_keys_keep_prefix_limit_and_code() {
    let key = Key::new("acme:1:{ip=203.0.113.9}:per-ip:sw60s:path=/a:b");
    assert_eq!(overflow_key(&key).as_str(), "acme:1:{}:per-ip:sw60s:");
}
