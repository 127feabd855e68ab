//! What is granted while the store is away counts there when it is back.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::limit::algorithm::{Block, FixedWindow, SlidingLog};
use crate::policy::{AnswerCost, Begins, CostPlace, Secret, Then};

const HOUR: Micros = Micros::new(3_600_000_000);
const COST: HeaderName = HeaderName::from_static("x-cost");

/// Ten an hour, by every algorithm whose charges are kept.
fn ways() -> Vec<Amount> {
    let calendar = Arc::new(Calendar::new(Unit::Month, "UTC").unwrap());
    let bucket = BucketSpec {
        amount: 10,
        window: HOUR,
        burst: 10,
        queue: 0,
        max_wait: Micros::ZERO,
        refill: Refill::Continuous,
    };
    let meters = [
        Meter::FixedWindow(FixedWindow::new(10, HOUR).unwrap()),
        Meter::SlidingLog(SlidingLog::new(10, HOUR).unwrap()),
        window(10),
        Meter::Bucket(Bucket::new(bucket).unwrap()),
        Meter::CalendarWindow(CalendarWindow::new(10, HOUR).unwrap()),
    ];
    let within = |meter: &Meter| matches!(meter, Meter::CalendarWindow(_));
    meters
        .into_iter()
        .map(|meter| Amount {
            meter,
            calendar: within(&meter).then(|| Arc::clone(&calendar)),
            ..amount(10)
        })
        .collect()
}

async fn left(house: &House) -> u64 {
    house.admit().await.unwrap().shown[0].quota.remaining
}

/// Starts the store, and waits until requests reach it again.
async fn back(server: &mut Server, houses: &[&House]) {
    server.up().await;
    for house in houses {
        while !house.limiter.store.reaches(&Key::new("any")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// A house that waits long for its store, one of `instances`, but not for a secret to share.
fn house(server: &Server, instances: u32, limits: Vec<Limit>) -> House {
    at(Clock::system(), server, instances, limits)
}

fn at(clock: Clock, server: &Server, instances: u32, limits: Vec<Limit>) -> House {
    let store = redis(server.socket(), Duration::from_secs(5));
    let policy = policy(among(instances, store), limits);
    let secret = Some(Secret::new("one of the tests"));
    House::at(clock, Policy { secret, ..policy })
}

#[tokio::test]
async fn the_first_question_carries_what_was_granted_meanwhile() {
    for way in ways() {
        let mut server = Server::absent(&[]);
        let house = house(&server, 1, vec![limit("hourly", vec![way.clone()])]);
        for remaining in [9, 8, 7] {
            assert_eq!(left(&house).await, remaining, "{way:?}");
        }
        back(&mut server, &[&house]).await;
        for remaining in [6, 5] {
            assert_eq!(left(&house).await, remaining, "once: {way:?}");
        }
    }
}

#[tokio::test]
async fn each_gateway_carries_its_own() {
    let mut server = Server::absent(&[]);
    let house = || house(&server, 2, vec![limit("hourly", vec![amount(10)])]);
    let (one, other) = (house(), house());
    assert_eq!(left(&one).await, 4, "half of ten");
    assert_eq!((left(&other).await, left(&other).await), (4, 3));
    back(&mut server, &[&one, &other]).await;
    assert_eq!(left(&one).await, 8);
    assert_eq!(left(&other).await, 5);
}

#[tokio::test]
async fn what_was_admitted_before_is_not_told_again() {
    let mut server = Server::start(&[]).await;
    let house = house(&server, 1, vec![limit("hourly", vec![amount(10)])]);
    assert_eq!(left(&house).await, 9, "by the store");
    server.kill();
    assert_eq!(left(&house).await, 8, "the mirror knows of the first");
    back(&mut server, &[&house]).await;
    assert_eq!(left(&house).await, 8, "the store came back empty");
}

#[tokio::test]
async fn what_was_given_back_or_corrected_is_owed_as_such() {
    let mut server = Server::absent(&[]);
    let mut dear = limit("dear", vec![amount(100)]);
    dear.cost = CostRule::Answer(Arc::new(AnswerCost {
        most: Cost::new(10),
        place: CostPlace::Header(COST),
    }));
    let house = house(&server, 1, vec![dear]);
    house.admit().await.unwrap().settle(Outcome::NotSent);
    for cost in ["3", "60"] {
        let mut head = HeaderMap::new();
        head.insert(COST, cost.parse().unwrap());
        let rest = house.admit().await.unwrap().answered(StatusCode::OK, &head);
        assert!(rest.is_none());
    }
    back(&mut server, &[&house]).await;
    assert_eq!(left(&house).await, 100 - 3 - 60 - 10);
}

#[tokio::test]
async fn what_no_longer_counts_is_not_owed() {
    let mut server = Server::absent(&[]);
    let clock = Arc::new(AtomicU64::new(1_796_069_731_123_456));
    let limits = vec![limit("hourly", vec![amount(10)])];
    let manual = Clock::Manual(Arc::clone(&clock));
    let house = at(manual, &server, 1, limits);
    assert_eq!((left(&house).await, left(&house).await), (9, 8));
    clock.fetch_add(2 * HOUR.get(), Ordering::Relaxed);
    assert_eq!(left(&house).await, 9);
    back(&mut server, &[&house]).await;
    assert_eq!(left(&house).await, 8, "the last one counts still");
}

#[tokio::test]
async fn a_key_is_told_of_when_it_is_asked_for() {
    let mut server = Server::absent(&[]);
    let house = house(&server, 1, vec![limit("hourly", vec![amount(10)])]);
    let of = async |client| {
        let admission = house.request(&[], client).await.unwrap();
        admission.shown[0].quota.remaining
    };
    assert_eq!((of(1).await, of(1).await, of(2).await), (9, 8, 9));
    back(&mut server, &[&house]).await;
    assert_eq!((of(3).await, of(2).await, of(1).await), (9, 8, 7));
}

#[tokio::test]
async fn what_is_owed_is_no_second_strike() {
    let server = Server::absent(&[]);
    let mut answers = Answers::default();
    answers.insert(401);
    let failed = Limit {
        count: Count::Answers(answers),
        then: Some(Then {
            block: Block::new(HOUR, 1, HOUR).unwrap(),
            begins: Begins::Answers,
            words: Arc::from("an hour"),
        }),
        ..limit("failed", vec![amount(3)])
    };
    let house = house(&server, 1, vec![failed]);
    for _ in 0..3 {
        let admission = house.admit().await.unwrap();
        let rest = admission.answered(StatusCode::UNAUTHORIZED, &HeaderMap::new());
        assert!(rest.is_none());
    }
    let Err(Refusal::Limited { met, .. }) = house.admit().await else {
        panic!("the third begins the block")
    };
    assert_eq!(met[0].1, Decided::Blocked);
}
