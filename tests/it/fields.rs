//! `headers`, `preflight` and `mode: tag`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Gateway, Response, Upstream, send};

fn parameter(field: &str, name: &str) -> u64 {
    field
        .split(';')
        .find_map(|part| part.trim().strip_prefix(&format!("{name}=")))
        .expect(field)
        .parse()
        .unwrap()
}

fn number(answer: &Response, field: &str) -> u64 {
    answer.field(field).expect(field).parse().unwrap()
}

/// An upstream's answer with an `X-RateLimit` trio of its own.
fn with_trio(head: &str) -> Upstream {
    Upstream::scripted(&format!(
        "HTTP/1.1 {head}\r\nX-RateLimit-Limit: 7\r\nX-RateLimit-Remaining: 6\r\nX-RateLimit-Reset: 5\r\nX-RateLimit-Reset: 4\r\nRateLimit: \"inner\";r=1;t=1\r\nContent-Length: 0\r\n\r\n"
    ))
}

#[test]
fn ratelimit_off_sends_neither_field() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nheaders: {{ratelimit: off}}\nlimits: {{k: {{per: ip, allow: 1 per minute}}}}\n",
        upstream.url()
    ));
    for status in [200, 429] {
        let answer = gateway.get("/");
        assert_eq!(answer.status, status);
        for field in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit"] {
            assert_eq!(answer.field(field), None);
        }
        assert_eq!(answer.field("retry-after").is_some(), status == 429);
    }
}

#[test]
fn the_older_fields_say_what_ratelimit_says() {
    let upstream = with_trio("200 OK");
    let gateway = Gateway::start(&format!(
        "upstream: {}\nheaders: {{legacy: delta}}\nlimits:\n  wide: {{per: ip, algorithm: fixed_window, allow: 100 per hour}}\n  tight: {{per: ip, algorithm: fixed_window, allow: 2 per minute}}\n",
        upstream.url()
    ));
    for (status, left) in [(200, 1), (200, 0), (429, 0)] {
        let answer = gateway.get("/");
        assert_eq!(answer.status, status);
        assert_eq!(number(&answer, "x-ratelimit-limit"), 2);
        assert_eq!(number(&answer, "x-ratelimit-remaining"), left);
        let items = answer.field("ratelimit").unwrap();
        let tight = items
            .split(", ")
            .find(|item| item.starts_with("\"tight\""))
            .unwrap();
        assert_eq!(parameter(tight, "r"), left);
        assert_eq!(number(&answer, "x-ratelimit-reset"), parameter(tight, "t"));
    }
    assert_eq!(
        number(&gateway.get("/"), "x-ratelimit-reset"),
        number(&gateway.get("/"), "retry-after")
    );
}

// The amount that rejects longest is told, even where another one rejects too.
#[test]
fn on_a_rejection_the_older_fields_tell_the_longest() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nheaders: {{legacy: delta, ratelimit: off}}\nlimits:\n  short: {{per: ip, algorithm: fixed_window, allow: 1 per minute}}\n  long: {{per: ip, algorithm: fixed_window, allow: 1 per hour}}\n",
        upstream.url()
    ));
    gateway.get("/");
    let answer = gateway.get("/");
    assert_eq!(answer.status, 429);
    let reset = number(&answer, "x-ratelimit-reset");
    assert!((3500..=3600).contains(&reset), "{reset}");
    assert_eq!(reset, number(&answer, "retry-after"));
}

#[test]
fn an_epoch_is_a_moment() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nheaders: {{legacy: epoch}}\nlimits: {{k: {{per: ip, algorithm: fixed_window, allow: 5 per hour}}}}\n",
        upstream.url()
    ));
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs()
    };
    let before = now();
    let answer = gateway.get("/");
    let (reset, after) = (number(&answer, "x-ratelimit-reset"), now());
    let t = parameter(answer.field("ratelimit").unwrap(), "t");
    assert!((before + t..=after + t + 1).contains(&reset), "{reset} {t}");
}

#[test]
fn a_redirect_has_no_older_fields_and_without_legacy_the_upstreams_pass() {
    let yaml = |upstream: &Upstream, headers: &str| {
        format!(
            "upstream: {}\n{headers}\nlimits: {{k: {{per: ip, allow: 5 per hour}}}}\n",
            upstream.url()
        )
    };
    let upstream = with_trio("302 Found\r\nLocation: /x");
    let gateway = Gateway::start(&yaml(&upstream, "headers: {legacy: delta}"));
    let answer = gateway.get("/");
    assert_eq!(answer.status, 302);
    assert!(answer.all("x-ratelimit-limit").is_empty());
    assert!(answer.all("x-ratelimit-reset").is_empty());
    let gateway = Gateway::start(&yaml(&upstream, ""));
    assert_eq!(gateway.get("/").field("x-ratelimit-limit"), Some("7"));
}

#[test]
fn jitter_only_ever_makes_it_later() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nheaders: {{retry_jitter: 1000s, legacy: delta}}\nlimits: {{k: {{per: ip, algorithm: fixed_window, allow: 1 per hour}}}}\n",
        upstream.url()
    ));
    let passed = gateway.get("/");
    assert!(parameter(passed.field("ratelimit").unwrap(), "t") <= 3600);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let answer = gateway.get("/");
        assert_eq!(answer.status, 429);
        let retry = number(&answer, "retry-after");
        assert!((3500..=4600).contains(&retry), "{retry}");
        assert_eq!(parameter(answer.field("ratelimit").unwrap(), "t"), retry);
        assert_eq!(number(&answer, "x-ratelimit-reset"), retry);
        seen.insert(retry);
    }
    assert!(seen.len() > 3, "{seen:?}");
}

const ORIGIN: &str = "Origin: https://app.example";
const ASKS: &str = "Access-Control-Request-Method: PUT";

#[test]
fn preflights_count_by_address_and_are_free_of_other_keys() {
    let upstream = Upstream::echo();
    for (limit, free) in [
        ("per: ip", false),
        ("per: everyone", false),
        ("per: ip, preflight: free", true),
        ("per: header X-User-Id", true),
        ("per: [ip, path]", true),
        ("per: header X-User-Id, preflight: count", false),
    ] {
        let gateway = Gateway::start(&format!(
            "upstream: {}\nlimits: {{k: {{{limit}, allow: 1 per hour}}}}\n",
            upstream.url()
        ));
        let ask = |method: &str, fields: &[&str]| send(gateway.address, method, "/", fields, b"");
        for nth in 0..3 {
            let answer = ask("OPTIONS", &[ORIGIN, ASKS]);
            let passes = free || nth == 0;
            assert_eq!(answer.status, if passes { 200 } else { 429 }, "{limit}");
            assert_eq!(answer.field("ratelimit").is_none(), free, "{limit}");
        }
        if free {
            // Nothing was spent, and what only looks like a preflight counts.
            assert_eq!(ask("OPTIONS", &[ORIGIN]).status, 200, "{limit}");
            for (method, fields) in [
                ("OPTIONS", &[ASKS][..]),
                ("OPTIONS", &[]),
                ("GET", &[ORIGIN, ASKS]),
            ] {
                assert_eq!(ask(method, fields).status, 429, "{limit} {method}");
            }
            let series = "sluice_decisions_total{decision=\"skipped\",limit=\"k\"}";
            assert!((gateway.metrics().value(series) - 3.0).abs() < 0.1);
        }
    }
}

#[test]
fn a_tagging_limit_passes_and_tells_the_upstream() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nlimits:\n  one: {{per: ip, mode: tag, allow: 1 per hour}}\n  two: {{per: ip, mode: tag, allow: 2 per hour}}\n  real: {{per: ip, allow: 4 per hour}}\n",
        upstream.url()
    ));
    let forged = ["Sluice-Over-Limit: real", "Sluice_Over_Limit: real"];
    for over in [None, Some("one"), Some("one, two"), Some("one, two")] {
        let answer = send(gateway.address, "GET", "/", &forged, b"");
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.field("ratelimit-policy"),
            Some("\"real\";q=4;w=3600")
        );
        assert_eq!(answer.field("sluice-over-limit"), None);
        assert_eq!(
            upstream.last().all("sluice-over-limit"),
            Vec::from_iter(over)
        );
        assert!(upstream.last().all("sluice_over_limit").is_empty());
    }
    assert_eq!(gateway.get("/").status, 429);
    let metrics = gateway.metrics();
    let tagged = |limit: &str, decision: &str| {
        metrics.value(&format!(
            "sluice_decisions_total{{decision=\"{decision}\",limit=\"{limit}\"}}"
        ))
    };
    assert!((tagged("one", "allowed") - 1.0).abs() < 0.1);
    assert!((tagged("one", "tagged") - 4.0).abs() < 0.1);
    assert!((tagged("two", "tagged") - 3.0).abs() < 0.1);
    assert!(tagged("one", "shadow_rejected").abs() < 0.1);
}

#[test]
fn the_shadow_over_every_limit_tags_nothing() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nmode: shadow\nlimits: {{one: {{per: ip, mode: tag, allow: 1 per hour}}}}\n",
        upstream.url()
    ));
    for _ in 0..2 {
        assert_eq!(gateway.get("/").status, 200);
        assert!(upstream.last().field("sluice-over-limit").is_none());
    }
    let series = "sluice_decisions_total{decision=\"shadow_rejected\",limit=\"one\"}";
    assert!((gateway.metrics().value(series) - 1.0).abs() < 0.1);
}
