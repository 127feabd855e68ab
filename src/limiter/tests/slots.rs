//! What is under way at once, on a clock that the test sets.

use std::sync::atomic::AtomicU64;

use tokio::time::Instant;

use super::*;
use crate::limit::algorithm::{Concurrency, HEARTBEAT, LEASE};

const EPOCH: u64 = 1_796_069_731_123_456;

fn at_once(slots: u64) -> Amount {
    Amount {
        meter: Meter::Concurrency(Concurrency::new(slots, LEASE).unwrap()),
        code: Arc::from("cc"),
        window: None,
        ..amount(slots)
    }
}

/// A house whose memory store has the clock of the test.
fn house(limits: Vec<Limit>) -> (House, Arc<AtomicU64>) {
    let clock = Arc::new(AtomicU64::new(EPOCH));
    let policy = policy(MEMORY, limits);
    let events = Events::new(&Registry::new());
    let manual = Clock::Manual(Arc::clone(&clock));
    let shared = Shared::new(&policy.store, None, manual, &events).unwrap();
    let cells = policy
        .limits
        .iter()
        .map(|limit| events.limit(&limit.name))
        .collect();
    let limiter = Limiter::new(Store::open(&policy.store, &shared, &events)).unwrap();
    let house = House {
        limiter,
        policy,
        cells,
    };
    (house, clock)
}

fn ok() -> (StatusCode, HeaderMap) {
    (StatusCode::OK, HeaderMap::new())
}

fn answered(admission: Admission) -> Option<Box<Unsettled>> {
    let (status, head) = ok();
    admission.answered(status, &head)
}

async fn is_full(house: &House) -> bool {
    matches!(
        house.admit().await,
        Err(Refusal::Limited {
            retry: Retry::Unknown,
            ..
        })
    )
}

#[tokio::test]
async fn a_slot_is_held_until_the_answer_has_ended() {
    let (house, _) = house(vec![limit("now", vec![at_once(1)])]);
    let admission = house.admit().await.unwrap();
    assert_eq!(admission.shown[0].quota.remaining, 0);
    assert!(is_full(&house).await);
    let unsettled = answered(admission).expect("the end is waited for");
    assert!(is_full(&house).await, "the head is not the end");
    unsettled.complete();
    let second = answered(house.admit().await.unwrap());
    assert!(is_full(&house).await);
    drop(second);
    assert!(!is_full(&house).await, "a client that leaves ends it too");
}

#[tokio::test]
async fn every_end_frees_the_slot_and_spends_nothing_else() {
    let limits = vec![
        limit("now", vec![at_once(1)]),
        limit("rate", vec![amount(100)]),
    ];
    let (house, _) = house(limits);
    let ends: [fn(Admission); 4] = [
        drop,
        |admission| admission.settle(Outcome::Unknown),
        |admission| admission.settle(Outcome::NotSent),
        |admission| drop(answered(admission)),
    ];
    for end in ends {
        end(house.admit().await.unwrap());
    }
    let last = house.admit().await.unwrap();
    let left: Vec<u64> = last.shown.iter().map(|one| one.quota.remaining).collect();
    assert_eq!(left, [0, 96], "only what was not sent came back");
}

#[tokio::test]
async fn a_refused_request_holds_nothing() {
    let limits = vec![
        limit("now", vec![at_once(5)]),
        limit("rate", vec![amount(1)]),
    ];
    let (house, _) = house(limits);
    drop(house.admit().await.unwrap());
    for _ in 0..10 {
        let Err(Refusal::Limited { shown, .. }) = house.admit().await else {
            panic!("it passed")
        };
        assert_eq!(shown[0].quota.remaining, 5);
    }
}

#[tokio::test]
async fn a_heartbeat_keeps_what_is_under_way_and_nothing_else() {
    let (house, clock) = house(vec![limit("now", vec![at_once(2)])]);
    let long = answered(house.admit().await.unwrap());
    drop(house.admit().await.unwrap());
    let began = Instant::now();
    for beat in 1..=20 {
        clock.fetch_add(HEARTBEAT.get(), Ordering::Relaxed);
        let now = began + Duration::from(HEARTBEAT) * beat + Duration::from_millis(1);
        house.limiter.leases.renew(now);
    }
    let second = house.admit().await.unwrap();
    assert!(is_full(&house).await, "the long one is still counted");
    drop(long);
    assert_eq!(house.admit().await.unwrap().shown[0].quota.remaining, 0);
    drop(second);
}

#[tokio::test]
async fn without_a_heartbeat_a_lease_ends() {
    let (house, clock) = house(vec![limit("now", vec![at_once(1)])]);
    let _held = house.admit().await.unwrap();
    clock.fetch_add(LEASE.get() - 1, Ordering::Relaxed);
    assert!(is_full(&house).await);
    clock.fetch_add(1, Ordering::Relaxed);
    assert!(!is_full(&house).await);
}

#[tokio::test]
async fn a_request_that_ends_in_time_costs_no_renewal() {
    let (house, clock) = house(vec![limit("now", vec![at_once(1)])]);
    let _held = house.admit().await.unwrap();
    house.limiter.leases.renew(Instant::now());
    clock.fetch_add(LEASE.get(), Ordering::Relaxed);
    assert!(!is_full(&house).await, "it was not renewed so early");
}

#[tokio::test]
async fn a_limit_in_shadow_holds_what_it_would_have_held() {
    let mut shadow = limit("now", vec![at_once(1)]);
    shadow.mode = LimitMode::Shadow;
    let (house, _) = house(vec![shadow]);
    let first = house.admit().await.unwrap();
    let second = house.admit().await.unwrap();
    assert_eq!(met(&first), [Decided::Allowed]);
    assert_eq!(met(&second), [Decided::ShadowRejected]);
    drop(first);
    drop(second);
    assert_eq!(met(&house.admit().await.unwrap()), [Decided::Allowed]);
}

#[tokio::test]
async fn while_the_store_is_away_slots_are_counted_here() {
    let limits = vec![limit("now", vec![at_once(9)])];
    let house = House::new(policy(among(5, away()), limits));
    let first = answered(house.admit().await.unwrap());
    let second = house.admit().await.unwrap();
    assert!(is_full(&house).await);
    drop(first);
    assert!(!is_full(&house).await);
    drop(second);
}

#[tokio::test]
async fn what_redis_granted_is_held_in_both_and_freed_in_both() {
    let server = Server::start(&[]).await;
    let store = redis(server.socket(), Duration::from_secs(5));
    let house = House::new(policy(store, vec![limit("now", vec![at_once(2)])]));
    let first = answered(house.admit().await.unwrap());
    let second = house.admit().await.unwrap();
    assert!(is_full(&house).await);
    drop(first);
    drop(second);
    // What is given back in one batch is there before the next request is judged.
    for _ in 0..5 {
        let held = house.admit().await.unwrap();
        assert_eq!(held.shown[0].quota.remaining, 1);
    }
}

/// What the store has left for one more, asked until it answers itself.
async fn left_in_redis(house: &House, expected: u64) {
    for _ in 0..500 {
        let admission = house.admit().await.unwrap();
        if admission.shown[0].quota.remaining == expected {
            return;
        }
        drop(admission);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never {expected} left");
}

#[tokio::test]
async fn what_was_granted_while_the_store_was_away_is_entered_there_when_it_is_back() {
    let mut server = Server::absent(&[]);
    let store = redis(server.socket(), Duration::from_secs(5));
    let house = House::new(policy(store, vec![limit("now", vec![at_once(3)])]));
    let held = answered(house.admit().await.unwrap());
    let short = house.admit().await.unwrap();
    assert_eq!(short.shown[0].quota.remaining, 1, "granted here");
    drop(short);
    server.up().await;
    while !house.limiter.store.reaches(&Key::new("any")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    house.limiter.leases.renew(Instant::now());
    left_in_redis(&house, 1).await;
    drop(held);
    left_in_redis(&house, 2).await;
}

#[tokio::test]
async fn what_redis_has_lost_is_entered_again() {
    let server = Server::start(&[]).await;
    let store = redis(server.socket(), Duration::from_secs(5));
    let house = House::new(policy(store, vec![limit("now", vec![at_once(3)])]));
    let held = answered(house.admit().await.unwrap());
    server.command(None, &["FLUSHALL"]).await;
    left_in_redis(&house, 2).await;
    house
        .limiter
        .leases
        .renew(Instant::now() + Duration::from(HEARTBEAT));
    left_in_redis(&house, 1).await;
    drop(held);
    left_in_redis(&house, 2).await;
}
