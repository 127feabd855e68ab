//! `cors`: pages may read what the gateway answers by itself.

use crate::support::{Gateway, Response, Upstream, get, send};

const ALLOW: &str = "access-control-allow-origin";
const CREDENTIALS: &str = "access-control-allow-credentials";
const EXPOSE: &str = "access-control-expose-headers";
const APP: &str = "Origin: https://app.example";

fn gateway(upstream: &Upstream, rest: &str) -> Gateway {
    Gateway::start(&format!(
        "upstream: {}\n{rest}\nlimits:\n  k:\n    per: ip\n    allow: 1 per hour\n",
        upstream.url()
    ))
}

/// An answer of the gateway itself to a request with these fields.
fn rejected(gateway: &Gateway, fields: &[&str]) -> Response {
    let answer = send(gateway.address, "GET", "/", fields, b"");
    assert_eq!(answer.status, 429);
    answer
}

#[test]
fn a_page_of_a_listed_origin_may_read_a_rejection() {
    let upstream = Upstream::echo();
    let gateway = gateway(
        &upstream,
        "cors:\n  origins: [https://other.example, 'HTTPS://App.example:443']\n  credentials: true",
    );
    get(gateway.address, "/");
    let answer = rejected(&gateway, &[APP]);
    assert_eq!(answer.field(ALLOW), Some("https://app.example"));
    assert_eq!(answer.field("vary"), Some("Origin"));
    assert_eq!(answer.field(CREDENTIALS), Some("true"));
    assert_eq!(
        answer.field(EXPOSE),
        Some("Retry-After, RateLimit, RateLimit-Policy")
    );
    for foreign in [
        &[][..],
        &["Origin: https://evil.example"],
        &["Origin: https://app.example.evil.example"],
        &["Origin: http://app.example"],
        &["Origin: https://app.example:8443"],
        &["Origin: null"],
        &[APP, APP],
    ] {
        let answer = rejected(&gateway, foreign);
        assert_eq!(answer.field("vary"), Some("Origin"), "{foreign:?}");
        for field in [ALLOW, CREDENTIALS, EXPOSE] {
            assert_eq!(answer.field(field), None, "{foreign:?}");
        }
    }
    let preflight = ["Access-Control-Request-Method: PUT", APP];
    let answer = send(gateway.address, "OPTIONS", "/", &preflight, b"");
    assert_eq!(answer.status, 429, "preflights count per ip");
    assert_eq!(answer.field(ALLOW), Some("https://app.example"));
    let answer = send(gateway.address, "OPTIONS", "*", &[APP], b"");
    assert_eq!(
        (answer.status, answer.field(ALLOW)),
        (204, Some("https://app.example"))
    );
}

#[test]
fn every_answer_of_the_gateway_may_be_read_and_no_forwarded_one_is_touched() {
    let upstream = Upstream::scripted(
        "HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: https://theirs.example\r\nContent-Length: 0\r\n\r\n",
    );
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let dead = nobody.local_addr().unwrap();
    drop(nobody);
    let gateway = Gateway::start(&format!(
        "upstreams: {{api: {}, dead: 'http://{dead}'}}\nroutes:\n  - match: /api/**\n    to: api\n  - match: /dead\n    to: dead\ncors: {{origins: ['https://app.example']}}\nlimits: {{k: {{per: ip, allow: 100/s}}}}\n",
        upstream.url()
    ));
    for (path, status) in [("/dead", 502), ("/nowhere", 404), ("/api/%", 400)] {
        let answer = send(gateway.address, "GET", path, &[APP], b"");
        assert_eq!(
            (answer.status, answer.field(ALLOW)),
            (status, Some("https://app.example")),
            "{path}"
        );
        assert_eq!(answer.field(CREDENTIALS), None);
    }
    let forwarded = send(gateway.address, "GET", "/api/x", &[APP], b"");
    assert_eq!(forwarded.field(ALLOW), Some("https://theirs.example"));
    assert_eq!(forwarded.field(EXPOSE), None);
    assert_eq!(forwarded.field("vary"), None);
}

#[test]
fn any_origin_is_a_constant() {
    let upstream = Upstream::echo();
    let gateway = gateway(
        &upstream,
        "headers: {legacy: delta}\ncors: {origins: '*', credentials: off}",
    );
    get(gateway.address, "/");
    for fields in [&[][..], &[APP], &["Origin: null"]] {
        let answer = rejected(&gateway, fields);
        assert_eq!(answer.field(ALLOW), Some("*"));
        assert_eq!(answer.field("vary"), None);
        assert_eq!(answer.field(CREDENTIALS), None);
        assert_eq!(
            answer.field(EXPOSE),
            Some(
                "Retry-After, RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset"
            )
        );
    }
}

#[test]
fn without_cors_nothing_is_added() {
    let gateway = gateway(&Upstream::echo(), "");
    get(gateway.address, "/");
    let answer = rejected(&gateway, &[APP]);
    for field in [ALLOW, CREDENTIALS, EXPOSE, "vary"] {
        assert_eq!(answer.field(field), None);
    }
}
