use std::time::Duration;

use hyper::HeaderMap;
use sfv::{FieldType as _, List, Parser};

use super::*;
use crate::limit::Quota;
use crate::limit::algorithm::{
    Bucket, BucketSpec, CalendarWindow, Concurrency, FixedWindow, LEASE, Refill,
};
use crate::limiter::Cause;

fn amount(name: &str, meter: Meter, quota: u64, window: u64, burst: Option<u64>) -> Item {
    Item::compile(&Amount {
        meter,
        calendar: None,
        code: "x".into(),
        shown_as: name.into(),
        quota,
        window: Some(Duration::from_secs(window)),
        burst,
        words: "".into(),
    })
}

fn fixed(name: &str, quota: u64, window: u64) -> Item {
    let meter = FixedWindow::new(quota, Micros::new(window * 1_000_000)).unwrap();
    amount(name, Meter::FixedWindow(meter), quota, window, None)
}

fn bucket(name: &str, quota: u64, window: u64, burst: u64) -> Item {
    let window_micros = Micros::new(window * 1_000_000);
    let spec = BucketSpec {
        amount: quota,
        window: window_micros,
        burst,
        queue: 0,
        max_wait: Micros::ZERO,
        refill: Refill::Continuous,
    };
    amount(
        name,
        Meter::Bucket(Bucket::new(spec).unwrap()),
        quota,
        window,
        (burst != quota).then_some(burst),
    )
}

fn shown(limit: usize, remaining: u64, reset_micros: u64, rejected: Option<Retry>) -> Shown {
    Shown {
        limit,
        amount: 0,
        quota: Quota {
            remaining,
            reset_after: Micros::new(reset_micros),
        },
        rejected,
        cause: Cause::Amount,
    }
}

fn add(
    items: Vec<Item>,
    shown: &[Shown],
    theirs: &[(&'static str, &'static str)],
) -> (String, String, HeaderMap) {
    let fields = RateFields {
        items: items.into_iter().map(|item| vec![item]).collect(),
        fields: HeaderFields::default(),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in theirs {
        headers.append(*name, HeaderValue::from_static(value));
    }
    fields.add(&mut headers, shown);
    let text = |name: &str| {
        let lines: Vec<_> = headers
            .get_all(name)
            .iter()
            .map(|value| value.to_str().unwrap())
            .collect();
        assert!(lines.len() <= 1, "{lines:?}");
        for line in &lines {
            assert_eq!(
                Parser::new(*line)
                    .parse::<List>()
                    .unwrap()
                    .serialize()
                    .as_deref(),
                Some(*line)
            );
        }
        lines.concat()
    };
    let (policy, state) = (text("ratelimit-policy"), text("ratelimit"));
    (policy, state, headers)
}

#[test]
fn one_amount() {
    let (policy, state, _) = add(
        vec![fixed("per-key", 100, 60)],
        &[shown(0, 99, 59_000_001, None)],
        &[],
    );
    assert_eq!(policy, r#""per-key";q=100;w=60"#);
    assert_eq!(state, r#""per-key";r=99;t=60"#);
}

#[test]
fn windows_that_differ_in_length_have_no_w() {
    let meter = CalendarWindow::new(100, Micros::SECOND).unwrap();
    let month = Item::compile(&Amount {
        meter: Meter::CalendarWindow(meter),
        calendar: None,
        code: "x".into(),
        shown_as: "monthly".into(),
        quota: 100,
        window: None,
        burst: None,
        words: "".into(),
    });
    let (policy, state, _) = add(vec![month], &[shown(0, 99, 2_500_000_000_000, None)], &[]);
    assert_eq!(policy, r#""monthly";q=100"#);
    assert_eq!(state, r#""monthly";r=99;t=2500000"#);
}

#[test]
fn several_amounts_and_a_burst() {
    let items = vec![bucket("burst", 10, 1, 20), fixed("hour", 1000, 3600)];
    let (policy, state, _) = add(
        items,
        &[
            shown(0, 19, 100_000, None),
            shown(1, 412, 1_484_000_000, None),
        ],
        &[],
    );
    assert_eq!(
        policy,
        r#""burst";q=10;w=1;sluice-burst=20, "hour";q=1000;w=3600"#
    );
    assert_eq!(state, r#""burst";r=19;t=2, "hour";r=412;t=1484"#);
}

#[test]
fn a_full_bucket_promises_no_more_than_its_rate() {
    let (_, state, _) = add(
        vec![bucket("b", 100, 60, 100)],
        &[shown(0, 100, 0, None)],
        &[],
    );
    assert_eq!(state, r#""b";r=100;t=60"#);
}

#[test]
fn who_rejects_says_when() {
    let items = || {
        vec![
            bucket("b", 10, 1, 10),
            fixed("hour", 1000, 3600),
            fixed("slots", 5, 1),
        ]
    };
    let after = Retry::After(Micros::new(36_000_001));
    let all = [
        shown(0, 10, 0, None),
        shown(1, 0, 99_000_000, Some(after)),
        shown(2, 0, 0, Some(Retry::Unknown)),
    ];
    let (_, state, _) = add(items(), &all, &[]);
    assert_eq!(state, r#""b";r=10;t=1, "hour";r=0;t=37, "slots";r=0"#);
    let (_, state, _) = add(items(), &[shown(1, 3, 7_000_000, Some(Retry::Never))], &[]);
    assert_eq!(state, r#""hour";r=3;t=7"#);
}

#[test]
fn one_list_with_what_the_upstream_says() {
    let theirs = [
        ("ratelimit-policy", r#""API";q=5;w=1, "per-IP";q=1;w=1"#),
        ("ratelimit-policy", "tok;q=7"),
        (
            "ratelimit",
            r#""API";r=4;t=1;pk=:AAA=:, "bad";t=1, ("x");r=1, "worse";r=-1"#,
        ),
        ("ratelimit", "limit=100, remaining=50"),
        ("ratelimit", "((("),
        ("x-ratelimit-limit", "100"),
        ("ratelimit-limit", "100"),
    ];
    let (policy, state, headers) = add(
        vec![fixed("per-ip", 100, 60)],
        &[shown(0, 9, 1, None)],
        &theirs,
    );
    assert_eq!(policy, r#""per-ip";q=100;w=60, "API";q=5;w=1, tok;q=7"#);
    assert_eq!(state, r#""per-ip";r=9;t=1, "API";r=4;t=1;pk=:AAA=:"#);
    assert_eq!(headers.get_all("x-ratelimit-limit").iter().count(), 1);
    assert_eq!(headers["ratelimit-limit"], "100");
}

#[test]
fn nothing_shown_leaves_the_upstreams_word_alone() {
    let (_, state, _) = add(
        vec![fixed("per-ip", 100, 60)],
        &[],
        &[("ratelimit", r#""API";r=4"#)],
    );
    assert_eq!(state, r#""API";r=4"#);
}

#[test]
fn huge_numbers_stay_integers_of_a_structured_field() {
    let small = BucketSpec {
        amount: 1,
        window: Micros::SECOND,
        burst: 1,
        queue: 0,
        max_wait: Micros::ZERO,
        refill: Refill::Continuous,
    };
    let huge = amount(
        "b",
        Meter::Bucket(Bucket::new(small).unwrap()),
        u64::MAX,
        u64::MAX,
        None,
    );
    let (policy, state, _) = add(vec![huge], &[shown(0, u64::MAX, u64::MAX, None)], &[]);
    assert!(
        policy.contains("q=999999999999999;w=999999999999999"),
        "{policy}"
    );
    assert!(state.contains("r=999999999999999;t="), "{state}");
}

#[test]
fn what_is_at_once_has_no_window_and_nobody_knows_when_it_is_free() {
    let meter = Meter::Concurrency(Concurrency::new(20, LEASE).unwrap());
    let item = || {
        Item::compile(&Amount {
            meter,
            calendar: None,
            code: "cc".into(),
            shown_as: "now".into(),
            quota: 20,
            window: None,
            burst: None,
            words: "".into(),
        })
    };
    let (policy, state, _) = add(vec![item()], &[shown(0, 7, 15_000_000, None)], &[]);
    assert_eq!(policy, r#""now";q=20;qu="concurrent-requests""#);
    assert_eq!(state, r#""now";r=7"#);
    for retry in [Retry::Unknown, Retry::Never] {
        let rejected = [shown(0, 0, 15_000_000, Some(retry))];
        assert_eq!(add(vec![item()], &rejected, &[]).1, r#""now";r=0"#);
    }
}
