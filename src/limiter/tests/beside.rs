//! Blocks and candidates, on a clock that the test moves.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::limit::algorithm::{Block, SlidingLog};
use crate::policy::{AnswerCost, Begins, CostPlace, Then};

const SECOND: u64 = 1_000_000;

struct Time(Arc<AtomicU64>);

impl Time {
    fn house(limits: Vec<Limit>) -> (Self, House) {
        let time = Arc::new(AtomicU64::new(1_796_069_731 * SECOND));
        let house = House::at(Clock::Manual(Arc::clone(&time)), policy(MEMORY, limits));
        (Self(time), house)
    }

    fn pass(&self, micros: u64) {
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

/// At most `count` a second, exactly.
fn log(count: u64) -> Amount {
    let meter = Meter::SlidingLog(SlidingLog::new(count, Micros::SECOND).unwrap());
    Amount {
        meter,
        code: Arc::from("sl1s"),
        ..amount(count)
    }
}

fn blocking(count: u64, seconds: u64, strikes: u64, begins: Begins) -> Limit {
    let (length, within) = (Micros::new(seconds * SECOND), Micros::new(600 * SECOND));
    Limit {
        then: Some(Then {
            block: Block::new(length, strikes, within).unwrap(),
            begins,
            words: Arc::from("a while"),
        }),
        ..limit("blocking", vec![log(count)])
    }
}

async fn wait(house: &House) -> Option<u64> {
    match house.admit().await {
        Ok(_admission) => None,
        Err(Refusal::Limited {
            retry: Retry::After(wait),
            ..
        }) => Some(wait.get()),
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_block_ends_on_time_however_often_is_asked() {
    let (time, house) = Time::house(vec![blocking(1, 60, 1, Begins::Rejections)]);
    assert_eq!(wait(&house).await, None);
    assert_eq!(wait(&house).await, Some(60 * SECOND));
    for second in 1..60 {
        time.pass(SECOND);
        assert_eq!(wait(&house).await, Some((60 - second) * SECOND));
    }
    time.pass(SECOND - 1);
    assert_eq!(wait(&house).await, Some(1));
    time.pass(1);
    assert_eq!(wait(&house).await, None);
}

#[tokio::test]
async fn strikes_and_blocks_are_called_by_their_names() {
    let (time, house) = Time::house(vec![blocking(1, 60, 2, Begins::Rejections)]);
    house.admit().await.unwrap().settle(Outcome::Unknown);
    let mut fared = Vec::new();
    for _ in 0..3 {
        let Err(Refusal::Limited { shown, met, .. }) = house.admit().await else {
            panic!("it passed")
        };
        fared.push((met[0].1, shown[0].cause));
    }
    let (amount, block) = (Cause::Amount, Cause::Block);
    assert_eq!(
        fared,
        [
            (Decided::Rejected, amount),
            (Decided::Rejected, block),
            (Decided::Blocked, block)
        ]
    );
    time.pass(2 * SECOND);
    let Err(Refusal::Limited { shown, .. }) = house.admit().await else {
        panic!("it passed")
    };
    assert_eq!(shown[0].quota.remaining, 0, "whatever the amount has left");
}

#[tokio::test]
async fn a_block_in_shadow_only_counts() {
    let shadow = Limit {
        mode: LimitMode::Shadow,
        ..blocking(1, 60, 1, Begins::Rejections)
    };
    let (time, house) = Time::house(vec![shadow]);
    for (pass, decided) in [
        (0, Decided::Allowed),
        (0, Decided::ShadowRejected),
        (59 * SECOND, Decided::ShadowRejected),
        (SECOND, Decided::Allowed),
    ] {
        time.pass(pass);
        assert_eq!(met(&house.admit().await.unwrap()), [decided]);
    }
}

#[tokio::test]
async fn a_candidate_lives_in_the_world_where_it_had_replaced_its_limit() {
    let trying = Limit {
        candidate: Some(Amount {
            code: Arc::from("candidate-sl1s"),
            ..log(3)
        }),
        ..blocking(1, 60, 1, Begins::Rejections)
    };
    let (time, house) = Time::house(vec![trying]);
    let over = async || {
        let met = match house.admit().await {
            Ok(admission) => admission.met,
            Err(Refusal::Limited { met, .. }) => met,
            Err(other) => panic!("{other:?}"),
        };
        met.iter()
            .any(|(_, decided)| *decided == Decided::CandidateRejected)
    };
    // The limit rejects from the second on, and blocks; its candidate from the fourth on.
    for expected in [false, false, false, true, true] {
        assert_eq!(over().await, expected);
    }
    time.pass(SECOND);
    assert!(!over().await, "its own counter, not the block");
}

#[tokio::test]
async fn what_stays_charged_begins_the_block_and_what_is_under_way_does_not() {
    let mut answers = Answers::default();
    answers.insert(401);
    let failed = Limit {
        count: Count::Answers(answers),
        ..blocking(3, 60, 1, Begins::Answers)
    };
    let (time, house) = Time::house(vec![failed]);
    let answered = |admission: Admission, status| {
        let rest = admission.answered(StatusCode::from_u16(status).unwrap(), &HeaderMap::new());
        assert!(rest.is_none());
    };
    let under_way = [house.admit().await.unwrap(), house.admit().await.unwrap()];
    answered(house.admit().await.unwrap(), 401);
    assert_eq!(
        wait(&house).await,
        Some(SECOND),
        "over the amount, not blocked"
    );
    for admission in under_way {
        answered(admission, 200);
    }
    time.pass(SECOND);
    // The failure has left the log by now, but not the ten sub-windows that the block counts by.
    answered(house.admit().await.unwrap(), 401);
    assert_eq!(wait(&house).await, None, "and that one hangs up");
    assert_eq!(wait(&house).await, Some(60 * SECOND));
    time.pass(60 * SECOND);
    assert_eq!(wait(&house).await, None);
}

#[tokio::test]
async fn a_cost_from_the_answer_counts_as_what_it_was() {
    let name = HeaderName::from_static("x-cost");
    for (costs, blocked) in [(["2", "4", "3"], false), (["2", "5", "3"], true)] {
        let dear = Limit {
            cost: CostRule::Answer(Arc::new(AnswerCost {
                most: Cost::new(1),
                place: CostPlace::Header(name.clone()),
            })),
            ..blocking(10, 60, 1, Begins::Answers)
        };
        let (time, house) = Time::house(vec![dear]);
        for cost in costs {
            let mut head = HeaderMap::new();
            head.insert(name.clone(), cost.parse().unwrap());
            let admission = house.admit().await.unwrap();
            assert!(admission.answered(StatusCode::OK, &head).is_none());
        }
        // The amount is whole again: what rejects is the block.
        time.pass(2 * SECOND);
        assert_eq!(wait(&house).await.is_some(), blocked, "{costs:?}");
    }
}
