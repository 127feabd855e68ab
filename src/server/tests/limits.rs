//! What a client is told about its limits.

use std::time::Duration;

use super::harness::{House, OK, answering, policy, run};
use crate::limit::algorithm::{Bucket, BucketSpec, FixedWindow, Refill};
use crate::limit::key::{IfMissing, Source};
use crate::limit::{Cost, KeySpec, Meter};
use crate::policy::{Amount, CostRule, Count, IfDown, Limit, LimitMode, Policy, Preflight, Reply};
use crate::route::{Index, Matcher, Width};
use crate::time::Micros;

const GET: &str = "GET / HTTP/1.1\r\nHost: gw\r\n\r\n";
const LAST: &str = "GET / HTTP/1.1\r\nHost: gw\r\nConnection: close\r\n\r\n";

const MINUTE: Micros = Micros::new(60_000_000);

/// The policy with one limit more, over every request of an address.
fn limited(mut policy: Policy, meter: Meter, quota: u64, cost: u32) -> Policy {
    let ip = Source::Ip { v4: 32, v6: 64 };
    policy.limits.push(Limit {
        name: "per-ip".into(),
        except: Index::new(Width::Exact, []),
        per: KeySpec {
            parts: vec![vec![ip.clone()]],
            if_missing: IfMissing::Ip,
            fallback: ip,
        },
        per_words: "client address".into(),
        amounts: vec![Amount {
            meter,
            calendar: None,
            code: "x60s".into(),
            shown_as: "per-ip".into(),
            quota,
            window: Some(Duration::from_secs(60)),
            burst: None,
            words: format!("{quota} per minute").into(),
        }],
        choice: None,
        cost: CostRule::Fixed(Cost::new(cost)),
        count: Count::Every,
        mode: LimitMode::Enforce,
        candidate: None,
        then: None,
        preflight: Preflight::Count,
        if_down: IfDown::Local,
        reply: Reply::default(),
    });
    policy.limit_index = Index::new(Width::Wide, [(0, Matcher::default())]);
    policy
}

fn fixed(policy: Policy, quota: u64) -> Policy {
    let meter = FixedWindow::new(quota, MINUTE).unwrap();
    limited(policy, Meter::FixedWindow(meter), quota, 1)
}

/// The policy with a limit that no request can meet.
pub(super) fn closed(policy: Policy) -> Policy {
    let meter = FixedWindow::new(1, MINUTE).unwrap();
    limited(policy, Meter::FixedWindow(meter), 1, 2)
}

#[test]
fn under_and_over_the_limit() {
    run(async {
        let (to, seen) = answering(OK).await;
        let house = House::open(fixed(policy(to), 2));
        let mut client = house.client().await;
        for left in [1, 0] {
            client.say(GET).await;
            let answer = client.hear("ok").await;
            assert!(
                answer.contains("ratelimit-policy: \"per-ip\";q=2;w=60\r\n"),
                "{answer}"
            );
            assert!(
                answer.contains(&format!("ratelimit: \"per-ip\";r={left};t=60\r\n")),
                "{answer}"
            );
            assert!(!answer.contains("retry-after"), "{answer}");
        }
        client.say(&GET.replace("GET", "HEAD")).await;
        let head = client.hear("\r\n\r\n").await;
        client.say(GET).await;
        let answer = client.hear("}").await;
        assert!(
            answer.starts_with("HTTP/1.1 429 Too Many Requests\r\n"),
            "{answer}"
        );
        for there in [
            "content-type: application/problem+json\r\n",
            "cache-control: no-store\r\n",
            "ratelimit-policy: \"per-ip\";q=2;w=60\r\n",
            "ratelimit: \"per-ip\";r=0;t=60\r\n",
            "retry-after: 60\r\n",
        ] {
            assert!(
                answer.contains(there) && head.contains(there),
                "no {there} in {answer}"
            );
        }
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(
            head.contains(&format!("content-length: {}\r\n", body.len())),
            "{head}"
        );
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        let expected = serde_json::json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Too many requests",
            "status": 429,
            "violated-policies": ["per-ip"],
            "detail": "at most 2 per minute per client address; try again in 60 s",
        });
        assert_eq!(problem, expected);
        assert_eq!(seen.borrow()[0].matches("GET").count(), 2);
    });
}

#[test]
fn the_log_names_the_limits_that_were_met() {
    run(async {
        let (to, _) = answering(OK).await;
        let house = House::open(fixed(policy(to), 1));
        house.ask(LAST).await;
        house.ask(LAST).await;
        let log = house.log();
        for (line, decision) in log.iter().zip(["allowed", "rejected"]) {
            let limits = format!(r#""limits":[{{"name":"per-ip","decision":"{decision}"}}]"#);
            assert!(line.contains(&limits), "{line}");
        }
        assert_eq!(log.len(), 2);
    });
}

#[test]
fn what_can_never_pass_is_not_told_to_wait() {
    run(async {
        let (to, _) = answering(OK).await;
        let answer = House::open(closed(policy(to))).ask(LAST).await;
        assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
        assert!(
            !answer.contains("retry-after") && !answer.contains("try again"),
            "{answer}"
        );
    });
}

#[test]
fn a_redirect_says_nothing_of_limits_and_a_failure_does() {
    run(async {
        let (to, _) =
            answering("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n").await;
        let answer = House::open(fixed(policy(to), 2)).ask(LAST).await;
        assert!(
            answer.starts_with("HTTP/1.1 302 ") && !answer.contains("ratelimit"),
            "{answer}"
        );
        let (to, _) = answering("nonsense\r\n\r\n").await;
        let answer = House::open(fixed(policy(to), 2)).ask(LAST).await;
        assert!(
            answer.starts_with("HTTP/1.1 502 ") && answer.contains("\"per-ip\";r=1;t=60"),
            "{answer}"
        );
    });
}

#[test]
fn an_upstreams_own_words_stay() {
    run(async {
        let (to, _) = answering(
            "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 77\r\nRateLimit: \"api\";r=3\r\n\
             RateLimit: \"Per-IP\";r=9\r\nX-RateLimit-Limit: 5\r\nContent-Length: 2\r\n\r\nno",
        )
        .await;
        let answer = House::open(fixed(policy(to), 2)).ask(LAST).await;
        assert!(
            answer.contains("Retry-After: 77\r\n") || answer.contains("retry-after: 77\r\n"),
            "{answer}"
        );
        assert!(
            answer.contains("ratelimit: \"per-ip\";r=1;t=60, \"api\";r=3\r\n"),
            "{answer}"
        );
        assert!(
            answer.contains("x-ratelimit-limit: 5\r\n") && answer.ends_with("no"),
            "{answer}"
        );
    });
}

#[test]
fn a_delayed_request_waits_and_what_was_not_sent_is_given_back() {
    run(async {
        let spec = BucketSpec {
            amount: 600,
            window: MINUTE,
            burst: 1,
            queue: 5,
            max_wait: MINUTE,
            refill: Refill::Continuous,
        };
        let meter = Meter::Bucket(Bucket::new(spec).unwrap());
        let (to, _) = answering(OK).await;
        let house = House::open(limited(policy(to), meter, 600, 1));
        let begun = std::time::Instant::now();
        for _ in 0..3 {
            assert!(house.ask(LAST).await.starts_with("HTTP/1.1 200 "));
        }
        assert!(
            begun.elapsed() >= Duration::from_millis(190),
            "{:?}",
            begun.elapsed()
        );

        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gone = nobody.local_addr().unwrap();
        drop(nobody);
        let house = House::open(fixed(policy(gone), 1));
        for _ in 0..3 {
            assert!(house.ask(LAST).await.starts_with("HTTP/1.1 502 "));
        }
    });
}
