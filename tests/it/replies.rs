//! `reply`: what a limit answers.

use crate::support::{Client, Gateway, RedisServer, Response, Upstream, send};

fn gateway(rest: &str) -> Gateway {
    let upstream = Upstream::echo();
    Gateway::start(&format!("upstream: {}\n{rest}", upstream.url()))
}

/// The second answer, of a gateway whose limits allow one request.
fn rejected(gateway: &Gateway, fields: &[&str]) -> Response {
    assert_eq!(send(gateway.address, "GET", "/", fields, b"").status, 200);
    send(gateway.address, "GET", "/", fields, b"")
}

#[test]
fn a_body_of_its_own_is_filled_in() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in ["store: memory".to_owned(), redis.store()] {
        let gateway = Gateway::start(&format!(
            "{store}\nupstream: {}\nlimits:
  per-ip:
    per: ip
    algorithm: fixed_window
    allow: 1 per minute
    reply:
      status: 503
      content_type: application/json; charset=utf-8
      headers: {{X-Docs: https://www.example.com/limits, Set-Cookie: [a=1, b=2], Cache-Control: no-cache}}
      body: '{{\"limit\": \"<limit>\", \"in\": <retry_after>, \"whole\": <reset>, \"id\": \"<request_id>\", \"what\": \"<p>\"}}'\n",
            upstream.url()
        ));
        let answer = rejected(&gateway, &["X-Request-Id: abc.1"]);
        assert_eq!(answer.status, 503);
        assert_eq!(
            answer.field("content-type"),
            Some("application/json; charset=utf-8")
        );
        let retry = answer.field("retry-after").expect("Retry-After").to_owned();
        assert!((55..=60).contains(&retry.parse().unwrap()), "{retry}");
        assert!(answer.field("ratelimit").is_some());
        assert_eq!(
            answer.field("x-docs"),
            Some("https://www.example.com/limits")
        );
        assert_eq!(answer.all("set-cookie"), ["a=1", "b=2"]);
        assert_eq!(answer.field("cache-control"), Some("no-cache"));
        assert_eq!(answer.field("x-request-id"), Some("abc.1"));
        let said: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
        let seconds: u64 = retry.parse().unwrap();
        assert_eq!(
            said,
            serde_json::json!({"limit": "per-ip", "in": seconds, "whole": seconds, "id": "abc.1", "what": "<p>"})
        );
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.sum("sluice_requests_total", &["code=\"503\""]),
            1.0,
            "records know the status that was sent"
        );
        drop(redis.command(&["FLUSHALL"]));
    }
}

#[test]
fn a_rejected_client_is_sent_elsewhere() {
    for (reply, status) in [
        ("{redirect: https://www.example.com/wait?a=b#c}", 302),
        (
            "{redirect: https://www.example.com/wait?a=b#c, status: 303, headers: {X-A: b}}",
            303,
        ),
    ] {
        let gateway = gateway(&format!(
            "headers: {{legacy: delta}}\nlimits:\n  k:\n    per: ip\n    allow: 1 per minute\n    reply: {reply}\n"
        ));
        let answer = rejected(&gateway, &[]);
        assert_eq!(answer.status, status);
        assert_eq!(
            answer.field("location"),
            Some("https://www.example.com/wait?a=b#c")
        );
        for field in [
            "retry-after",
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-limit",
            "content-type",
        ] {
            assert_eq!(
                answer.field(field),
                None,
                "{field} would stop the client from following"
            );
        }
        assert_eq!(answer.field("cache-control"), Some("no-store"));
        assert_eq!(answer.body, b"");
    }
}

#[test]
fn another_status_keeps_the_problem() {
    let gateway =
        gateway("limits:\n  k:\n    per: ip\n    allow: 1 per minute\n    reply: {status: 503}\n");
    let answer = rejected(&gateway, &[]);
    assert_eq!(answer.status, 503);
    let problem: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(problem["status"], 503);
    assert_eq!(problem["violated-policies"], serde_json::json!(["k"]));
}

#[test]
fn the_limit_that_rejects_longest_answers() {
    let gateway = gateway(
        "defaults: {per: ip, reply: {body: 'default <limit> <retry_after>'}}
limits:
  minute: {allow: 1 per minute, reply: {body: minute}}
  hour: {allow: 1 per hour, algorithm: fixed_window}
  hour-again: {allow: 1 per hour, algorithm: fixed_window, reply: {body: again}}\n",
    );
    let answer = rejected(&gateway, &[]);
    let retry = answer.field("retry-after").expect("Retry-After");
    assert_eq!(
        answer.text(),
        format!("default hour {retry}"),
        "the longest, of equals the first in the file, by the reply of `defaults`"
    );
    assert_eq!(
        answer.field("content-type"),
        Some("text/plain; charset=utf-8")
    );
}

#[test]
fn a_head_request_gets_no_body_and_keeps_the_connection() {
    let gateway = gateway(
        "limits:\n  k:\n    per: ip\n    allow: 1 per minute\n    reply: {body: slow down}\n",
    );
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.send("GET", "/", &[], b"").status, 200);
    let head = client.send("HEAD", "/", &[], b"");
    assert_eq!(
        (head.status, head.field("content-length")),
        (429, Some("9"))
    );
    assert_eq!(client.send("GET", "/", &[], b"").text(), "slow down");
}

#[test]
fn only_rejections_by_an_amount_are_replaced() {
    let mut redis = RedisServer::start();
    let gateway = gateway(&format!(
        "{}\nlimits:\n  k:\n    per: header X-User\n    allow: 1 per minute\n    if_missing: reject\n    if_down: deny\n    reply: {{status: 403, body: mine}}\n",
        redis.store()
    ));
    let answer = gateway.get("/");
    assert_eq!(
        (answer.status, answer.field("content-type")),
        (400, Some("application/problem+json"))
    );
    assert_eq!(rejected(&gateway, &["X-User: a"]).text(), "mine");
    redis.kill();
    // Of another user, for whom nothing is remembered.
    let answer = send(gateway.address, "GET", "/", &["X-User: b"], b"");
    assert_eq!(
        (answer.status, answer.field("content-type")),
        (503, Some("application/problem+json"))
    );
    assert!(answer.field("retry-after").is_some());
}
