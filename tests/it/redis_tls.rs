//! Redis with TLS, and other ways to it: a socket, users.

use std::time::Duration;

use crate::support::{Authority, Gateway, RedisServer, Upstream, codes, eventually, free_address};

/// How soon limits apply again, times four.
const RECOVERY: Duration = Duration::from_secs(8);

struct Secure {
    _server: RedisServer,
    url: String,
}

/// A Redis whose certificate `authority` signs for `name`.
fn secure(authority: &Authority, name: &str, clients: &str) -> Secure {
    let signed = authority.sign("server", &[name]);
    let port = free_address().port();
    let server = RedisServer::with(&[
        "--tls-port",
        &port.to_string(),
        "--tls-ca-cert-file",
        authority.ca().to_str().unwrap(),
        "--tls-cert-file",
        signed.cert.to_str().unwrap(),
        "--tls-key-file",
        signed.key.to_str().unwrap(),
        "--tls-auth-clients",
        clients,
    ]);
    Secure {
        _server: server,
        url: format!("rediss://127.0.0.1:{port}"),
    }
}

fn gateway(url: &str, more: &str, upstream: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "access_log: off\nworkers: 1\nstore:\n  redis: {url}\n  deadline: 5s\n{more}upstream: {}\nlimits:\n  n: {{per: ip, if_down: deny, allow: 2 per hour}}\n",
        upstream.url()
    ))
}

/// Waits for a store that is refused, and for the line that says why.
fn refused(gateway: &Gateway, kind: &str, why: &str) {
    eventually("the log says why", RECOVERY, || {
        let log = gateway.log();
        (log.contains(&format!("kind=\"{kind}\"")) && log.contains(why)).then_some(())
    });
    assert_eq!(gateway.get("/").status, 503);
    let metrics = gateway.metrics();
    assert_eq!(metrics.value("sluice_store_up"), 0.0);
    assert!(metrics.value(&format!("sluice_store_errors_total{{kind=\"{kind}\"}}")) >= 1.0);
}

#[test]
fn a_redis_with_an_authority_of_its_own_counts() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let redis = secure(&authority, "127.0.0.1", "no");
    let tls = format!("  tls: {{ca: {}}}\n", authority.ca().display());
    let gateway = gateway(&redis.url, &tls, &upstream);
    assert_eq!(codes(3, gateway.address, "/", &[]), [200, 200, 429]);
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let redis = secure(&authority, "127.0.0.1", "no");
    let other = Authority::new();
    let tls = format!("  tls: {{ca: {}}}\n", other.ca().display());
    refused(
        &gateway(&redis.url, &tls, &upstream),
        "tls",
        "invalid peer certificate",
    );
    // Without an authority of one's own, those that browsers trust.
    refused(
        &gateway(&redis.url, "", &upstream),
        "tls",
        "invalid peer certificate: UnknownIssuer",
    );
}

#[test]
fn a_certificate_for_another_name_is_refused() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let redis = secure(&authority, "redis.example", "no");
    let tls = format!("  tls: {{ca: {}}}\n", authority.ca().display());
    refused(
        &gateway(&redis.url, &tls, &upstream),
        "tls",
        "certificate not valid for name",
    );
}

#[test]
fn a_certificate_of_the_client_is_shown_and_renewed() {
    let (authority, upstream) = (Authority::new(), Upstream::echo());
    let redis = secure(&authority, "127.0.0.1", "yes");
    let ca = authority.ca();
    let none = format!("  tls: {{ca: {}}}\n", ca.display());
    refused(
        &gateway(&redis.url, &none, &upstream),
        "tls",
        "received fatal alert",
    );

    // One that the server does not trust is replaced by one that it does, without a restart.
    let own = Authority::new().sign_into(authority.dir(), "gateway", &["gateway"]);
    let both = format!(
        "  tls: {{ca: {}, cert: {}, key: {}}}\n",
        ca.display(),
        own.cert.display(),
        own.key.display()
    );
    let gateway = gateway(&redis.url, &both, &upstream);
    refused(&gateway, "tls", "received fatal alert");
    authority.sign("gateway", &["gateway"]);
    eventually("the new certificate is shown", RECOVERY, || {
        (gateway.metrics().value("sluice_store_up") == 1.0).then_some(())
    });
    assert_eq!(codes(3, gateway.address, "/", &[]), [200, 200, 429]);
}

#[test]
fn a_server_without_tls_is_no_server_with_tls() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let url = redis.url().replace("redis://", "rediss://");
    refused(&gateway(&url, "", &upstream), "timeout", "");
}

#[test]
fn a_socket_counts() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let url = format!("unix://{}", redis.socket().display());
    let gateway = gateway(&url, "", &upstream);
    assert_eq!(codes(3, gateway.address, "/", &[]), [200, 200, 429]);
    assert!(!redis.keys().is_empty());
}

#[test]
fn a_socket_takes_users() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    redis.command(&[
        "ACL",
        "SETUSER",
        "gate",
        "on",
        ">word",
        "~sluice:*",
        "+@all",
    ]);
    redis.command(&["ACL", "SETUSER", "default", "off"]);
    let url = format!("unix://{}", redis.socket().display());
    let user = "  username: gate\n  password: word\n";
    let gateway = gateway(&url, user, &upstream);
    assert_eq!(codes(3, gateway.address, "/", &[]), [200, 200, 429]);
}
