//! Who is counted: addresses, proxies that are trusted, keys that are missing or ambiguous.

use crate::support::{Client, Gateway, RedisServer, Upstream, code, codes, send};
use std::net::SocketAddr;

fn gateway(upstream: &Upstream, top: &str, allow: &str) -> Gateway {
    Gateway::start(&format!(
        "upstream: {}\n{top}\nlimits:\n  id:\n    per: ip\n    algorithm: fixed_window\n    allow: {allow}\n",
        upstream.url()
    ))
}

/// A request from another address of the loopback network.
fn code_from(source: [u8; 4], address: SocketAddr, path: &str, fields: &[&str]) -> u16 {
    Client::connect_from(source, address)
        .send("GET", path, fields, b"")
        .status
}

// R13: one IPv4 client, however it is written.
#[test]
fn an_ipv4_client_written_as_ipv6_is_the_same_client() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream, "trusted_proxies: [127.0.0.1]", "2 per minute");
    let statuses = [
        "::ffff:192.0.2.10",
        "::ffff:c000:20a",
        "192.0.2.10",
        "::ffff:c000:20b",
        "2001:db8:1:2::192.0.2.10",
    ]
    .map(|address| {
        code(
            gateway.address,
            "/id",
            &[&format!("X-Forwarded-For: {address}")],
        )
    });
    assert_eq!(statuses, [200, 200, 429, 200, 200]);
}

// R13, second part: the key of an IPv4 client is the same behind a dual-stack listener.
#[test]
fn a_dual_stack_listener_gives_the_same_key() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.yaml");
    std::fs::write(
        &file,
        format!(
            "listen: \"[::]:0\"\nadmin: 127.0.0.1:0\n{}\nupstream: {}\nlimits:\n  id:\n    per: ip\n    allow: 9 per minute\n",
            redis.store(),
            upstream.url()
        ),
    )
    .unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["run", "-c"]).arg(&file);
    let gateway = Gateway::spawn(command, dir);
    assert_eq!(
        code(
            SocketAddr::from(([127, 0, 0, 1], gateway.address.port())),
            "/",
            &[]
        ),
        200
    );
    assert!(
        redis
            .keys()
            .iter()
            .any(|key| key.contains("{ip=127.0.0.1}")),
        "{:?}",
        redis.keys()
    );
}

// R14: an IPv6 client is its /64.
#[test]
fn an_ipv6_client_is_its_network() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream, "trusted_proxies: [127.0.0.1]", "5 per minute");
    let statuses: Vec<u16> = (1..=12)
        .map(|i| {
            code(
                gateway.address,
                "/",
                &[&format!("X-Forwarded-For: 2001:db8:1:2::{i}")],
            )
        })
        .collect();
    assert_eq!(
        statuses,
        [200, 200, 200, 200, 200, 429, 429, 429, 429, 429, 429, 429]
    );
    assert_eq!(
        code(gateway.address, "/", &["X-Forwarded-For: 2001:db8:1:3::1"]),
        200
    );
}

// R16: a direct request counts by its peer, and a missing key follows the rule and is seen.
#[test]
fn a_missing_identity_is_never_a_silent_shared_counter() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\ntrusted_proxies: [10.0.0.0/8]\nlimits:\n  s:\n    when: /s\n    per: ip\n    allow: 2 per minute\n  h:\n    when: /h\n    per: header X-Api-Key\n    allow: 2 per minute\n",
        upstream.url()
    ));
    assert_eq!(codes(3, gateway.address, "/s", &[]), [200, 200, 429]);
    assert_eq!(code_from([127, 0, 0, 2], gateway.address, "/s", &[]), 200);

    assert_eq!(codes(2, gateway.address, "/h", &[]), [200, 200]);
    assert_eq!(
        codes(2, gateway.address, "/h", &["X-Api-Key:"]),
        [429, 429],
        "empty is the same as absent"
    );
    assert_eq!(code(gateway.address, "/h", &["X-Api-Key: a"]), 200);
    assert_eq!(
        gateway
            .metrics()
            .value("sluice_key_missing_total{limit=\"h\"}"),
        4.0
    );
}

// R17: the client's own entry in X-Forwarded-For is not believed.
#[test]
fn the_leftmost_forwarded_address_is_not_believed() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream, "trusted_proxies: [127.0.0.1/32]", "3 per minute");
    let statuses: Vec<u16> = (0..6)
        .map(|i| {
            code(
                gateway.address,
                "/x",
                &[&format!("X-Forwarded-For: 203.0.113.{i}, 198.51.100.9")],
            )
        })
        .collect();
    assert_eq!(statuses, [200, 200, 200, 429, 429, 429]);
    assert_eq!(
        code(
            gateway.address,
            "/x",
            &[
                "X-Forwarded-For: 203.0.113.9",
                "X-Forwarded-For: 198.51.100.9"
            ]
        ),
        429
    );

    let untrusted: Vec<u16> = (0..6)
        .map(|i| {
            let spoofed = [
                format!("X-Forwarded-For: 203.0.113.{i}"),
                format!("X-Real-IP: 203.0.113.{i}"),
                format!("Forwarded: for=203.0.113.{i}"),
            ];
            code_from(
                [127, 0, 0, 2],
                gateway.address,
                "/x",
                &spoofed.each_ref().map(String::as_str),
            )
        })
        .collect();
    assert_eq!(untrusted, [200, 200, 200, 429, 429, 429]);
    let seen = upstream.last();
    assert_eq!(seen.all("x-forwarded-for"), ["127.0.0.2"]);
    assert!(
        seen.field("x-real-ip").is_none() && seen.field("forwarded").is_none(),
        "{}",
        seen.head
    );
}

#[test]
fn a_trusted_proxy_is_appended_to() {
    let upstream = Upstream::echo();
    let gateway = gateway(&upstream, "trusted_proxies: [127.0.0.1]", "3 per minute");
    code(
        gateway.address,
        "/",
        &["X-Forwarded-For: 203.0.113.1", "X-Forwarded-Proto: https"],
    );
    assert_eq!(
        upstream.last().all("x-forwarded-for"),
        ["203.0.113.1, 127.0.0.1"]
    );
    assert_eq!(upstream.last().all("x-forwarded-proto"), ["https"]);
}

#[test]
fn a_key_that_comes_twice_is_refused() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nlimits:\n  h:\n    per: header X-Api-Key\n    allow: 2 per minute\n",
        upstream.url()
    ));
    assert_eq!(
        code(gateway.address, "/", &["X-Api-Key: a", "X-Api-Key: b"]),
        400
    );
    assert!(upstream.seen().is_empty());
}

#[test]
fn credentials_stand_nowhere() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let gateway = Gateway::start(&format!(
        "{}\nupstream: {}\nlimits:\n  h:\n    per: header Authorization\n    allow: 2 per minute\n",
        redis.store(),
        upstream.url()
    ));
    let secret = "s3cr3t-t0ken";
    codes(
        3,
        gateway.address,
        "/",
        &[&format!("Authorization: Bearer {secret}")],
    );
    assert_eq!(
        code(
            gateway.address,
            "/",
            &[&format!("Authorization: bearer   {secret}")]
        ),
        429,
        "the scheme's case does not matter"
    );
    let everything = [
        redis.keys().join("\n"),
        gateway.log(),
        gateway.access().join("\n"),
    ]
    .concat();
    assert!(
        redis.keys().iter().any(|key| key.contains(":h:")),
        "{:?}",
        redis.keys()
    );
    assert!(!everything.contains(secret), "{everything}");
    assert!(
        send(
            gateway.address,
            "GET",
            "/",
            &[&format!("Authorization: Bearer {secret}")],
            b""
        )
        .text()
        .find(secret)
        .is_none()
    );
}
