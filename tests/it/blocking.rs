//! `then`: who goes over a limit is let in no more for a while.

use std::time::Duration;

use crate::support::{Gateway, RedisServer, Response, Upstream, eventually, send};

/// As another client than those with other numbers.
fn from(gateway: &Gateway, client: u8, fields: &[&str]) -> Response {
    let client = format!("X-Forwarded-For: 192.0.2.{client}");
    let fields: Vec<&str> = fields.iter().copied().chain([client.as_str()]).collect();
    send(gateway.address, "GET", "/login", &fields, b"")
}

fn file(store: &str, upstream: &Upstream, limits: &str) -> String {
    format!(
        "{store}\nupstream: {}\ntrusted_proxies: [127.0.0.1]\nlimits:\n{limits}",
        upstream.url()
    )
}

fn wait(response: &Response) -> u64 {
    response.field("retry-after").unwrap().parse().unwrap()
}

fn decisions(gateways: &[Gateway], limit: &str, decision: &str) -> f64 {
    let series = format!("sluice_decisions_total{{decision=\"{decision}\",limit=\"{limit}\"}}");
    gateways
        .iter()
        .map(|gateway| gateway.metrics().value(&series))
        .sum()
}

/// Every kind of store, each empty, with as many gateways.
fn stores(redis: &RedisServer) -> impl Iterator<Item = (String, usize)> {
    let stores = [
        ("store: memory".to_owned(), 1),
        (redis.store(), 1),
        (redis.store(), 3),
    ];
    stores.into_iter().inspect(|_| {
        redis.command(&["FLUSHALL"]);
    })
}

#[test]
fn the_first_rejection_blocks_and_nothing_lengthens_it() {
    let redis = RedisServer::start();
    for (store, count) in stores(&redis) {
        let upstream = Upstream::echo();
        let yaml = file(
            &store,
            &upstream,
            "  per-ip:\n    per: ip\n    allow: 2 per minute\n    then: block for 15 minutes\n",
        );
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();
        let ask = |turn: usize| from(&gateways[turn % count], 1, &[]);

        assert_eq!([ask(0).status, ask(1).status], [200, 200], "{store}");
        let first = ask(2);
        assert_eq!((first.status, wait(&first)), (429, 900), "{store}");
        let problem: serde_json::Value = serde_json::from_str(&first.text()).unwrap();
        assert_eq!(
            problem["detail"],
            "blocked for 15 minutes after going over 2 per minute per client address; try again in 15 min"
        );
        assert_eq!(first.field("ratelimit"), Some("\"per-ip\";r=0;t=900"));
        assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip"]));

        let again = ask(3);
        assert_eq!(again.status, 429, "{store}");
        assert!(again.text().contains("blocked for 15 minutes"), "{store}");
        assert!(wait(&again) <= 900, "{store}");
        assert_eq!(from(&gateways[0], 2, &[]).status, 200, "{store}");
        assert!((decisions(&gateways, "per-ip", "rejected") - 1.0).abs() < 0.1);
        assert!(decisions(&gateways, "per-ip", "blocked") >= 1.0, "{store}");
        let logged = eventually("the access log says so", Duration::from_secs(10), || {
            let mut lines = gateways.iter().flat_map(Gateway::access);
            lines.find(|line| line.contains("\"decision\":\"blocked\",\"limits\""))
        });
        assert!(
            logged.contains("\"name\":\"per-ip\",\"decision\":\"blocked\""),
            "{logged}"
        );
        assert_eq!(upstream.seen().len(), 3, "{store}");
    }
}

#[test]
fn three_rejections_block() {
    let redis = RedisServer::start();
    for (store, count) in stores(&redis) {
        let upstream = Upstream::echo();
        let yaml = file(
            &store,
            &upstream,
            "  per-ip:\n    per: ip\n    allow: 1 per minute\n    then: block for 1 hour after 3 rejections in 10 minutes\n",
        );
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();
        let answers: Vec<Response> = (0..5)
            .map(|turn| from(&gateways[turn % count], 1, &[]))
            .collect();
        let statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 429, 429, 429, 429], "{store}");
        let long: Vec<bool> = answers[1..]
            .iter()
            .map(|answer| wait(answer) > 3000)
            .collect();
        assert_eq!(long, [false, false, true, true], "{store}");
        assert!((decisions(&gateways, "per-ip", "rejected") - 3.0).abs() < 0.1);
        assert!((decisions(&gateways, "per-ip", "blocked") - 1.0).abs() < 0.1);
    }
}

#[test]
fn only_rejections_of_its_own_limit_are_strikes() {
    let upstream = Upstream::echo();
    let limits = "  strict:\n    per: ip\n    allow: 1 per minute\n  kind:\n    per: ip\n    allow: 2 per minute\n    then: block for 1 hour\n";
    let gateway = Gateway::start(&file("store: memory", &upstream, limits));
    let answers: Vec<Response> = (0..5).map(|_| from(&gateway, 1, &[])).collect();
    assert!(answers[1..].iter().all(|answer| answer.status == 429));
    assert!(answers[1..].iter().all(|answer| wait(answer) < 100));
}

#[test]
fn a_limit_in_shadow_blocks_nobody() {
    let redis = RedisServer::start();
    for (store, count) in stores(&redis) {
        let upstream = Upstream::echo();
        let limits = "  per-ip:\n    per: ip\n    allow: 2 per minute\n    mode: shadow\n    then: block for 1 hour\n";
        let yaml = file(&store, &upstream, limits);
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();
        for turn in 0..6 {
            let answer = from(&gateways[turn % count], 1, &[]);
            assert_eq!((answer.status, answer.field("ratelimit")), (200, None));
        }
        let counted = |decision| decisions(&gateways, "per-ip", decision);
        assert!((counted("shadow_rejected") - 4.0).abs() < 0.1, "{store}");
        assert!(counted("blocked") < 0.1, "{store}");
    }
}

#[test]
fn a_reload_keeps_who_is_blocked_until_the_block_is_taken_out() {
    let upstream = Upstream::echo();
    let with = |then: &str| {
        let limits =
            format!("  per-ip:\n    per: ip\n    allow: {{requests: 1, window: 50ms}}\n{then}");
        file("store: memory", &upstream, &limits)
    };
    let gateway = Gateway::start(&with("    then: block for 1 hour\n"));
    eventually("it is blocked", Duration::from_secs(20), || {
        (from(&gateway, 1, &[]).status == 429).then_some(())
    });
    gateway.reload(
        &with("    then: block for 30 minutes after 9 rejections in 1 minute\n"),
        "ok",
    );
    let kept = from(&gateway, 1, &[]);
    assert_eq!(
        (kept.status, wait(&kept)),
        (429, 1800),
        "no longer than it says now"
    );
    gateway.reload(&with(""), "ok");
    eventually("it passes", Duration::from_secs(20), || {
        (from(&gateway, 1, &[]).status == 200).then_some(())
    });
}

#[test]
fn what_redis_blocked_stays_blocked_while_it_is_away() {
    let mut redis = RedisServer::start();
    let upstream = Upstream::echo();
    let limits = "  per-ip:\n    per: ip\n    allow: {requests: 1, window: 50ms}\n    then: block for 1 hour\n";
    let gateway = Gateway::start(&file(&redis.store(), &upstream, limits));
    eventually("it is blocked", Duration::from_secs(20), || {
        (from(&gateway, 1, &[]).status == 429).then_some(())
    });
    redis.kill();
    let kept = from(&gateway, 1, &[]);
    assert_eq!(kept.status, 429);
    assert!(wait(&kept) > 3000);
    assert_eq!(from(&gateway, 2, &[]).status, 200);
}

#[test]
fn failed_logins_block_even_the_right_password() {
    let redis = RedisServer::start();
    for (store, count) in stores(&redis) {
        let upstream = Upstream::answering(|request| {
            let status = match request.field("x-password") {
                Some("right") => "200 OK",
                _ => "401 Unauthorized",
            };
            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        });
        let yaml = file(
            &store,
            &upstream,
            "  failed:\n    per: ip\n    allow: 5 per minute\n    count: responses 401\n    then: block for 1 hour\n",
        );
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();
        let right = ["X-Password: right"];
        // What a right password gives back may still be on its way when another worker's request is judged.
        let fail = |gateway: &Gateway| {
            eventually("a wrong password fails", Duration::from_secs(20), || {
                (from(gateway, 1, &[]).status == 401).then_some(())
            });
        };
        for turn in 0..4 {
            let gateway = &gateways[turn % count];
            fail(gateway);
            eventually("a right password passes", Duration::from_secs(20), || {
                (from(gateway, 1, &right).status == 200).then_some(())
            });
        }
        fail(&gateways[0]);
        let blocked = eventually("the block begins", Duration::from_secs(20), || {
            let answer = from(&gateways[count - 1], 1, &right);
            (answer.status == 429 && wait(&answer) > 3000).then_some(answer)
        });
        assert!(blocked.text().contains("blocked for 1 hour"), "{store}");
        assert_eq!(from(&gateways[0], 2, &right).status, 200, "{store}");
    }
}
