//! Costs that the answer says.

use super::*;
use crate::policy::{AnswerCost, CostPlace};

const TRAILER: HeaderName = HeaderName::from_static("x-cost");

fn answer(place: CostPlace, most: u32) -> CostRule {
    let most = Cost::new(most);
    CostRule::Answer(Arc::new(AnswerCost { most, place }))
}

/// One limit of 100 units a window, in the store and in this process.
fn house(store: StoreSpec, cost: CostRule) -> House {
    let mut dear = limit("dear", vec![amount(100)]);
    dear.cost = cost;
    House::new(policy(store, vec![dear]))
}

fn usage() -> CostPlace {
    CostPlace::Json(vec!["usage".to_owned(), "total_tokens".to_owned()])
}

fn fields(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let pairs = pairs.iter().map(|(name, value)| {
        let name = HeaderName::from_static(name);
        (name, hyper::header::HeaderValue::from_static(value))
    });
    pairs.collect()
}

/// What is left, by asking with a request that costs 10 and is given back.
async fn left(house: &House) -> u64 {
    let admission = house.admit().await.unwrap();
    let left = admission.shown[0].quota.remaining;
    admission.settle(Outcome::NotSent);
    left + 10
}

#[tokio::test]
async fn a_header_says_what_it_cost() {
    for (said, left_then) in [
        (&[("x-cost", "3")][..], 97),
        (&[("x-cost", "0")], 100),
        (&[("x-cost", "10")], 90),
        (&[("x-cost", "60")], 40),
        (&[], 90),
        (&[("x-cost", "many")], 90),
        (&[("x-cost", "3"), ("x-cost", "4")], 90),
    ] {
        let house = house(MEMORY, answer(CostPlace::Header(TRAILER), 10));
        let admission = house.admit().await.unwrap();
        assert_eq!(admission.shown[0].quota.remaining, 90, "reserved");
        let head: HeaderMap = said
            .iter()
            .map(|(name, value)| {
                let value = hyper::header::HeaderValue::from_static(value);
                (HeaderName::from_static(name), value)
            })
            .fold(HeaderMap::new(), |mut head, (name, value)| {
                head.append(name, value);
                head
            });
        assert!(admission.answered(StatusCode::OK, &head).is_none());
        assert_eq!(left(&house).await, left_then, "{said:?}");
    }
}

#[tokio::test]
async fn a_trailer_says_what_it_cost() {
    let house = house(MEMORY, answer(CostPlace::Trailer(TRAILER), 10));
    let admission = house.admit().await.unwrap();
    assert!(admission.wants_trailers());
    let head = fields(&[("x-cost", "1")]);
    let mut rest = admission.answered(StatusCode::OK, &head).unwrap();
    rest.data(b"whatever");
    assert_eq!(left(&house).await, 90, "the head is not asked");
    rest.trailers(&fields(&[("x-cost", "4")]));
    rest.complete();
    assert_eq!(left(&house).await, 96);
}

#[tokio::test]
async fn a_body_says_what_it_cost() {
    let plain = br#"{"usage":{"total_tokens":4}}"#;
    let event = b"data: {\"usage\":{\"total_tokens\":4}}\n\ndata: [DONE]\n\n";
    let events = ("content-type", "text/event-stream; charset=utf-8");
    for (head, body, left_then) in [
        (fields(&[]), &plain[..], 96),
        (fields(&[events]), event, 96),
        (fields(&[events]), plain, 90),
        (fields(&[("content-encoding", "identity")]), plain, 96),
        (fields(&[]), b"", 90),
    ] {
        let house = house(MEMORY, answer(usage(), 10));
        let admission = house.admit().await.unwrap();
        let mut rest = admission.answered(StatusCode::OK, &head).unwrap();
        body.iter().for_each(|byte| rest.data(&[*byte]));
        rest.complete();
        assert_eq!(left(&house).await, left_then, "{head:?}");
    }
    let house = house(MEMORY, answer(usage(), 10));
    let gzip = fields(&[("content-encoding", "gzip")]);
    let rest = house.admit().await.unwrap().answered(StatusCode::OK, &gzip);
    assert!(rest.is_none(), "it cannot be read");
    assert_eq!(left(&house).await, 90);
}

#[tokio::test]
async fn what_is_cut_off_is_no_cheaper() {
    let house = house(MEMORY, answer(usage(), 10));
    let begun = async |body: &[u8]| {
        let admission = house.admit().await.unwrap();
        let mut rest = admission
            .answered(StatusCode::OK, &HeaderMap::new())
            .unwrap();
        rest.data(body);
        rest
    };
    drop(begun(br#"{"usage":{"total_tokens":4}}"#).await);
    assert_eq!(left(&house).await, 90, "what was reserved stays");
    drop(begun(br#"{"usage":{"total_tokens":30}}"#).await);
    assert_eq!(left(&house).await, 60, "unless it is known to be more");
    house.admit().await.unwrap().settle(Outcome::Unknown);
    assert_eq!(left(&house).await, 50);
}

#[tokio::test]
async fn an_answer_that_does_not_count_costs_nothing() {
    let mut answers = Answers::default();
    answers.insert(200);
    let mut dear = limit("dear", vec![amount(100)]);
    dear.cost = answer(CostPlace::Header(TRAILER), 10);
    dear.count = Count::Answers(answers);
    let house = House::new(policy(MEMORY, vec![dear]));
    let head = fields(&[("x-cost", "30")]);
    for (status, left_then) in [(500, 100), (200, 70)] {
        let admission = house.admit().await.unwrap();
        let status = StatusCode::from_u16(status).unwrap();
        assert!(admission.answered(status, &head).is_none());
        assert_eq!(left(&house).await, left_then, "{status}");
    }
}

#[tokio::test]
async fn a_correction_reaches_redis_and_what_stands_in_for_it() {
    for (said, left_then) in [("3", 97), ("10", 90), ("60", 40)] {
        let mut server = Server::start(&[]).await;
        let store = redis(server.socket(), Duration::from_secs(5));
        let house = house(store, answer(CostPlace::Header(TRAILER), 10));
        let admission = house.admit().await.unwrap();
        let mut head = HeaderMap::new();
        head.insert(TRAILER, said.parse().unwrap());
        assert!(admission.answered(StatusCode::OK, &head).is_none());
        assert_eq!(left(&house).await, left_then, "in Redis: {said}");
        server.kill();
        assert_eq!(left(&house).await, left_then, "in this process: {said}");
    }
}

#[tokio::test]
async fn every_window_of_a_limit_is_corrected() {
    let mut dear = limit("dear", vec![amount(100), amount(50)]);
    dear.amounts[1].code = Arc::from("sw2h");
    dear.cost = answer(usage(), 10);
    let house = House::new(policy(MEMORY, vec![dear]));
    let admission = house.admit().await.unwrap();
    let mut rest = admission
        .answered(StatusCode::OK, &HeaderMap::new())
        .unwrap();
    rest.data(br#"{"usage":{"total_tokens":2}}"#);
    rest.complete();
    let admission = house.admit().await.unwrap();
    let left: Vec<u64> = admission
        .shown
        .iter()
        .map(|one| one.quota.remaining)
        .collect();
    assert_eq!(left, [88, 38]);
}
