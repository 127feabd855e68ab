//! What a client is told: `RateLimit`, `RateLimit-Policy`, `Retry-After`, the body.

use crate::support::{Client, Gateway, RedisServer, Upstream, ways};

fn limited(upstream: &Upstream, store: &str, limit: &str) -> Gateway {
    Gateway::start(&format!(
        "{store}\nupstream: {}\nlimits:\n  k:\n    per: ip\n{limit}\n",
        upstream.url()
    ))
}

fn parameter(field: &str, name: &str) -> i64 {
    field
        .split(';')
        .find_map(|part| part.trim().strip_prefix(&format!("{name}=")))
        .expect(field)
        .parse()
        .unwrap()
}

// R07: on a rejection the reset does not drop to 0, and Retry-After says the same.
#[test]
fn a_rejected_client_is_told_until_when() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in ["store: memory".to_owned(), redis.store()] {
        for way in ways() {
            redis.command(&["FLUSHALL"]);
            let gateway = limited(&upstream, &store, &way.lines(2));
            let answers: Vec<_> = (0..4).map(|_| gateway.get("/c")).collect();
            let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
            assert_eq!(statuses, [200, 200, 429, 429], "{way} {store}");
            for (answer, left) in answers.iter().zip([1, 0, 0, 0]) {
                let field = answer.field("ratelimit").expect("RateLimit");
                assert_eq!(parameter(field, "r"), left, "{way} {store}: {field}");
                // Nothing comes back within half an hour.
                let until = parameter(field, "t");
                assert!((1790..=95_040).contains(&until), "{way} {store}: {field}");
                let policy = answer.field("ratelimit-policy").unwrap();
                assert!(policy.starts_with("\"k\";q=2;w="), "{policy}");
            }
            for answer in &answers[2..] {
                let retry: i64 = answer.field("retry-after").unwrap().parse().unwrap();
                let until = parameter(answer.field("ratelimit").unwrap(), "t");
                assert!((retry - until).abs() <= 1, "{way} {store}");
            }
            assert!(answers[0].field("retry-after").is_none());
        }
    }
}

#[test]
fn a_rejection_is_a_problem_in_words() {
    let upstream = Upstream::echo();
    let gateway = limited(&upstream, "", "    allow: 1 per minute");
    gateway.get("/");
    let answer = gateway.get("/");
    assert_eq!(answer.status, 429);
    assert_eq!(
        answer.field("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(problem["status"], 429);
    assert_eq!(problem["violated-policies"], serde_json::json!(["k"]));
    let detail = problem["detail"].as_str().expect("detail");
    assert!(
        detail.starts_with("at most 1 per minute per client address; try again in "),
        "{detail}"
    );
}

#[test]
fn a_rejected_head_request_has_no_body_and_keeps_the_connection() {
    let upstream = Upstream::echo();
    let gateway = limited(&upstream, "", "    allow: 1 per minute");
    let mut client = Client::connect(gateway.address);
    client.send("GET", "/", &[], b"");
    let head = client.send("HEAD", "/", &[], b"");
    assert_eq!(head.status, 429);
    assert!(
        head.field("content-length")
            .is_some_and(|length| length != "0")
    );
    assert_eq!(client.send("GET", "/", &[], b"").status, 429);
}

// R09: an upstream that sends the fields itself: one consistent set.
#[test]
fn the_upstreams_own_fields_are_merged_into_one_list() {
    let upstream = Upstream::scripted(
        "HTTP/1.1 200 OK\r\nRateLimit-Policy: \"inner\";q=7;w=10\r\nRateLimit: \"inner\";r=3;t=2\r\nRateLimit: \"K\";r=1;t=1\r\nX-RateLimit-Limit: 100\r\nX-RateLimit-Remaining: 50\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    );
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        for way in ways() {
            redis.command(&["FLUSHALL"]);
            let gateway = limited(&upstream, &store, &way.lines(10));
            let answer = gateway.get("/k");
            assert_eq!(answer.status, 200);
            let policy = answer.field("ratelimit-policy").expect("one line");
            assert!(
                policy.contains("\"k\";q=10;w=") && policy.contains("\"inner\";q=7;w=10"),
                "{way}: {policy}"
            );
            let fields = answer.field("ratelimit").expect("one line");
            assert!(
                fields.contains("\"k\";r=9;t=") && fields.contains("\"inner\";r=3;t=2"),
                "{way}: {fields}"
            );
            assert!(
                !fields.contains("\"K\""),
                "a name that collides with ours is not sent twice: {fields}"
            );
            assert_eq!(answer.field("x-ratelimit-limit"), Some("100"));
        }
    }
}

#[test]
fn an_upstreams_own_429_keeps_its_retry_after() {
    let upstream = Upstream::scripted(
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 77\r\nContent-Length: 2\r\n\r\nno",
    );
    let gateway = limited(&upstream, "", "    allow: 10 per minute");
    let answer = gateway.get("/");
    assert_eq!(
        (
            answer.status,
            answer.field("retry-after"),
            answer.text().as_str()
        ),
        (429, Some("77"), "no")
    );
}

#[test]
fn a_redirect_carries_no_rate_fields() {
    let upstream =
        Upstream::scripted("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n");
    let gateway = limited(&upstream, "", "    allow: 10 per minute");
    assert!(gateway.get("/").field("ratelimit").is_none());
}

#[test]
fn several_windows_are_listed_once_each() {
    let upstream = Upstream::echo();
    let gateway = limited(
        &upstream,
        "",
        "    allow:\n      - 10 per second\n      - 1000 per hour",
    );
    let answer = gateway.get("/");
    assert_eq!(
        answer.field("ratelimit-policy"),
        Some("\"k-1s\";q=10;w=1, \"k-1h\";q=1000;w=3600")
    );
}

// A bucket's fields: the burst is published, and r/t stays within the rate.
#[test]
fn a_bucket_publishes_its_burst() {
    let upstream = Upstream::echo();
    let gateway = limited(&upstream, "", "    allow: 100 per minute, burst 20");
    let answer = gateway.get("/");
    assert_eq!(
        answer.field("ratelimit-policy"),
        Some("\"k\";q=100;w=60;sluice-burst=20")
    );
    let field = answer.field("ratelimit").unwrap();
    let (r, t) = (parameter(field, "r"), parameter(field, "t"));
    assert_eq!(r, 19);
    assert!(r * 60 <= t * 100, "{field}");
}
