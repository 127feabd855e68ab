//! `per: body FIELD`: limits whose key is in the body.

use std::time::Duration;

use crate::support::{Client, Gateway, RedisServer, Response, Upstream, eventually, send};

const JSON: &str = "Content-Type: application/json";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded";

fn start(upstream: &Upstream, store: &str, allow: &str) -> Gateway {
    Gateway::start(&format!(
        "{store}\nsecret: test\nupstream: {}\nlimits:\n  logins:\n    when: POST,PUT /login\n    per: body user\n    if_missing: reject\n    allow: {allow}\n",
        upstream.url()
    ))
}

fn login(gateway: &Gateway, fields: &[&str], body: &str) -> Response {
    send(gateway.address, "POST", "/login", fields, body.as_bytes())
}

#[test]
fn a_user_has_one_counter_in_every_spelling() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in ["store: memory".to_owned(), redis.store()] {
        let gateway = start(&upstream, &store, "4 per hour");
        let spellings = [
            (JSON, r#"{"user":"bob","password":"1"}"#),
            (JSON, r#"{"password":"2", "\u0075ser" : "b\u006fb"}"#),
            (FORM, "user=bob&password=3"),
            (FORM, "password=4&%75ser=b%6fb"),
            (JSON, r#"{"user":"bob"}"#),
            (FORM, "user=bob"),
            ("Content-Type: text/plain", r#"{"User":"bob"}"#),
        ];
        let codes = spellings.map(|(kind, body)| login(&gateway, &[kind], body).status);
        assert_eq!(codes, [200, 200, 200, 200, 429, 429, 429]);
        assert_eq!(login(&gateway, &[JSON], r#"{"user":"eve"}"#).status, 200);
        let other = send(gateway.address, "POST", "/other", &[JSON], b"{}");
        assert_eq!(other.status, 200, "only where `when` says");
    }
    let keys = redis.keys();
    let counters: Vec<_> = keys.iter().filter(|key| key.contains(":logins:")).collect();
    assert_eq!(counters.len(), 2, "{keys:?}");
    for key in counters {
        assert!(key.starts_with("sluice:1:{body="), "{key}");
        assert!(!key.contains("bob") && !key.contains("eve"), "{key}");
    }
}

#[test]
fn a_body_that_names_nobody_or_two_is_refused() {
    let upstream = Upstream::echo();
    let gateway = start(&upstream, "", "1 per hour");
    for (fields, body, word) in [
        (&[JSON][..], r#"{"user":"a","user":"b"}"#, "twice"),
        (&[JSON], r#"{"user":"a","USER":"b"}"#, "twice"),
        (&[FORM], "user=a&user=b", "twice"),
        (&[JSON], "", "missing"),
        (&[JSON], "[]", "missing"),
        (
            &[JSON, "Content-Encoding: gzip"],
            r#"{"user":"a"}"#,
            "missing",
        ),
        (
            &["Content-Type: multipart/form-data; boundary=x"],
            "--x\r\n\r\nuser=a",
            "missing",
        ),
    ] {
        let answer = login(&gateway, fields, body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.text().contains(word), "{}", answer.text());
        assert!(
            answer.text().contains("body field user"),
            "{}",
            answer.text()
        );
    }
    assert!(upstream.seen().is_empty());
    assert_eq!(
        login(&gateway, &[JSON], r#"{"user":"a"}"#).status,
        200,
        "nothing was spent"
    );
}

#[test]
fn the_body_is_forwarded_as_it_came() {
    let upstream = Upstream::echo();
    let gateway = start(&upstream, "", "100 per hour");
    let mut client = Client::connect(gateway.address);
    for size in [0, 1, 16_000, 16_384, 16_385, 70_000, 1_000_000] {
        let body = format!("{{\"user\":\"bob\",\"x\":\"{}\"}}", "y".repeat(size));
        for method in ["POST", "PUT"] {
            let answer = client.send(method, "/login", &[JSON], body.as_bytes());
            assert_eq!(answer.status, 200, "{size}");
            let sent = upstream.last();
            assert_eq!(
                sent.field("content-length"),
                Some(body.len().to_string().as_str())
            );
            assert_eq!(sent.field("transfer-encoding"), None);
            assert!(sent.body == body.as_bytes(), "{size}");
        }
        let mut chunked = String::from(
            "POST /login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        for piece in body.as_bytes().chunks(5000) {
            let piece = std::str::from_utf8(piece).unwrap();
            chunked.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
        }
        chunked.push_str("0\r\n\r\n");
        client.write(chunked.as_bytes());
        assert_eq!(client.read("POST").expect("an answer").status, 200);
        let sent = upstream.last();
        assert_eq!(sent.field("transfer-encoding"), Some("chunked"));
        assert_eq!(sent.field("content-length"), None);
        assert!(sent.body == body.as_bytes(), "{size}");
    }
}

#[test]
fn only_the_first_16_kib_are_looked_at() {
    let upstream = Upstream::echo();
    let gateway = start(&upstream, "", "100 per hour");
    let padded = |before: usize| format!("{{\"x\":\"{}\",\"user\":\"bob\"}}", "y".repeat(before));
    assert_eq!(login(&gateway, &[JSON], &padded(16_000)).status, 200);
    assert_eq!(login(&gateway, &[JSON], &padded(16_384)).status, 400);
    // The value ends with the last byte that is looked at, or one later.
    let overhead = "{\"x\":\"\",\"user\":\"bob\"".len();
    let long = |before: usize| {
        format!(
            "{},\"z\":\"{}\"}}",
            padded(before).trim_end_matches('}'),
            "z".repeat(9000)
        )
    };
    assert_eq!(
        login(&gateway, &[JSON], &long(16_384 - overhead)).status,
        200
    );
    assert_eq!(
        login(&gateway, &[JSON], &long(16_384 - overhead + 1)).status,
        400
    );
}

#[test]
fn the_client_is_asked_to_continue_and_refused_by_its_body() {
    let upstream = Upstream::echo();
    let gateway = start(&upstream, "", "1 per hour");
    for expected in ["HTTP/1.1 200 ", "HTTP/1.1 429 "] {
        let mut client = Client::connect(gateway.address);
        client.write(b"POST /login HTTP/1.1\r\nHost: gw\r\nContent-Length: 14\r\nExpect: 100-continue\r\nContent-Type: application/json\r\n\r\n");
        assert_eq!(client.read("POST").expect("100").status, 100);
        client.write(br#"{"user":"bob"}"#);
        let answer = client.read("POST").expect("an answer");
        assert!(answer.head.starts_with(expected), "{}", answer.head);
        assert_eq!(
            client.send("GET", "/", &[], b"").status,
            200,
            "the connection is kept"
        );
    }
}

#[test]
fn only_requests_that_meet_such_a_limit_wait() {
    let upstream = Upstream::scripted("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(&format!(
        "upstream: {}\nlimits:\n  all: {{per: ip, allow: 1 per hour}}\n  logins: {{when: POST /login, except: {{path: /login, header: {{X-Free: present}}}}, per: body user, allow: 5 per hour}}\n",
        upstream.url()
    ));
    assert_eq!(send(gateway.address, "GET", "/", &[], b"").status, 200);
    for (path, free) in [("/upload", ""), ("/login", "X-Free: 1\r\n")] {
        let mut client = Client::connect(gateway.address);
        client.write(
            format!("POST {path} HTTP/1.1\r\nHost: gw\r\n{free}Content-Length: 1000\r\n\r\n")
                .as_bytes(),
        );
        let answer = client.read("POST").expect("an answer before the body");
        assert_eq!(answer.status, 429, "{path}");
    }
}

#[test]
fn a_slow_or_broken_body_spends_nothing() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstreams:\n  default:\n    servers: [{}]\n    timeouts: {{idle: 500ms}}\nlimits: {{logins: {{when: POST /login, per: body user, if_missing: share, allow: 1 per hour}}}}\n",
        upstream.url()
    ));
    let begin = "POST /login HTTP/1.1\r\nHost: gw\r\nContent-Type: application/json\r\n";
    let mut slow = Client::connect(gateway.address);
    slow.write(format!("{begin}Content-Length: 100\r\n\r\n{{\"user\":\"bob\"").as_bytes());
    let answer = slow.read("POST").expect("an answer");
    assert_eq!(
        (answer.status, answer.field("connection")),
        (408, Some("close"))
    );
    assert_eq!(answer.field("ratelimit"), None);
    // A byte now and then is too slow as well: all of it has the time of one pause.
    let dripping = std::net::TcpStream::connect(gateway.address).unwrap();
    let mut writer = dripping.try_clone().unwrap();
    let head = format!("{begin}Content-Length: 100000\r\n\r\n");
    let drip = std::thread::spawn(move || {
        use std::io::Write;
        writer.write_all(head.as_bytes()).unwrap();
        while writer.write_all(b" ").is_ok() {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    });
    let mut dripping = Client::over(dripping);
    assert_eq!(dripping.read("POST").expect("an answer").status, 408);
    drop(dripping.rest());
    drop(dripping);
    drip.join().unwrap();
    let mut gone = Client::connect(gateway.address);
    gone.write(format!("{begin}Content-Length: 100\r\n\r\n{{\"user\":\"bob\"").as_bytes());
    drop(gone);
    let broken = format!("{begin}Transfer-Encoding: chunked\r\n\r\nzz\r\n");
    let mut malformed = Client::connect(gateway.address);
    malformed.write(broken.as_bytes());
    assert_eq!(malformed.read("POST").expect("an answer").status, 400);
    eventually(
        "the client that left is recorded",
        Duration::from_secs(20),
        || {
            gateway
                .access()
                .iter()
                .any(|line| line.contains("\"status\":499"))
                .then_some(())
        },
    );
    assert!(upstream.seen().is_empty());
    assert!((gateway.metrics().sum("sluice_decisions_total", &[])).abs() < 0.1);
    assert_eq!(login(&gateway, &[JSON], r#"{"user":"bob"}"#).status, 200);
    assert_eq!(login(&gateway, &[JSON], r#"{"user":"bob"}"#).status, 429);
}

/// A server that closes a kept connection as the request goes out: what has a body is not sent twice, though the body
/// was read and would be at hand.
#[test]
fn a_request_with_a_body_is_not_sent_again() {
    let upstream = Upstream::answering(|request| {
        if request.line().starts_with("PUT") {
            b"".to_vec()
        } else {
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()
        }
    });
    let gateway = start(&upstream, "workers: 1", "100 per hour");
    assert_eq!(send(gateway.address, "GET", "/", &[], b"").status, 200);
    let answer = send(
        gateway.address,
        "PUT",
        "/login",
        &[JSON],
        br#"{"user":"bob"}"#,
    );
    assert_eq!(answer.status, 502);
    let sent = upstream.seen();
    assert_eq!(sent.len(), 2, "{sent:?}");
    assert_eq!(sent[1].body, br#"{"user":"bob"}"#);
}
