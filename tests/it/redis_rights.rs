//! What the user of the gateway may do in Redis, and what happens when it may not.

use crate::support::{Gateway, Outage, RedisServer, Upstream, codes, ways};

/// The page that names what is needed.
const PAGE: &str = include_str!("../../docs/redis.md");

fn store(redis: &RedisServer) -> String {
    format!(
        "  redis: {}\n  username: gate\n  password: word\n",
        redis.url()
    )
}

/// Sets the user up from nothing with `rules`.
fn user(redis: &RedisServer, rules: &[&str]) {
    let set = ["ACL", "SETUSER", "gate", "reset", "on", ">word"];
    assert_eq!(redis.command(&[&set[..], rules].concat()), ["OK"]);
}

/// The rules of the documentation, as it gives them.
fn documented() -> Vec<&'static str> {
    let rules = PAGE
        .split("ACL SETUSER sluice on >PASSWORD")
        .nth(1)
        .unwrap();
    let rules = rules.split("```").next().unwrap();
    rules
        .split_whitespace()
        .filter(|word| *word != "\\")
        .collect()
}

#[test]
fn the_documented_rules_are_enough() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    user(&redis, &documented());
    for way in ways() {
        redis.command(&["FLUSHALL"]);
        redis.command(&["ACL", "LOG", "RESET"]);
        let gateway = Gateway::start(&format!(
            "access_log: off\nstore:\n{}  deadline: 5s\nupstream: {}\nlimits:\n  n:\n    per: header X-Key\n    if_down: deny\n{}",
            store(&redis),
            upstream.url(),
            way.lines(2)
        ));
        for key in ["X-Key: a", "X-Key: b"] {
            assert_eq!(
                codes(3, gateway.address, "/", &[key]),
                [200, 200, 429],
                "{way}"
            );
        }
        let metrics = gateway.metrics();
        for kind in ["noperm", "no_time", "auth"] {
            let series = format!("sluice_store_errors_total{{kind=\"{kind}\"}}");
            assert_eq!(metrics.value(&series), 0.0, "{}", gateway.log());
        }
        let denied = redis.command(&["ACL", "LOG"]);
        let of_ours = denied
            .iter()
            .filter(|word| word.as_str() == "toplevel" || word.as_str() == "lua");
        assert_eq!(of_ours.count(), 0, "{denied:?}");
    }
}

// Each of them is needed: without it something is said.
#[test]
fn every_documented_command_is_missed() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let needed = |rule: &&str| {
        rule.starts_with('+') && !["+select", "+role", "+script|load", "+info"].contains(rule)
    };
    for missing in documented().iter().filter(|rule| needed(rule)) {
        let rules: Vec<_> = documented()
            .into_iter()
            .filter(|rule| rule != missing)
            .collect();
        user(&redis, &rules);
        let outage = Outage::during(&store(&redis), &upstream);
        outage.says(&["noperm", "no_time"]);
        let (log, name) = (outage.gateway.log(), &missing[1..]);
        let named = log.lines().any(|line| {
            line.split(|c: char| !c.is_ascii_alphanumeric())
                .any(|word| word.eq_ignore_ascii_case(name))
        });
        assert!(named, "{missing}: {log}");
    }
}

#[test]
fn a_command_that_is_forbidden_and_allowed_again() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    user(&redis, &["~*", "+@all"]);
    let outage = Outage::before(&store(&redis), &upstream);
    redis.command(&["ACL", "SETUSER", "gate", "-evalsha"]);
    outage.holds(&["noperm"]);
    let log = outage.gateway.log();
    assert!(log.contains("'evalsha'"), "{log}");
    redis.command(&["ACL", "SETUSER", "gate", "+evalsha"]);
    outage.recovers();
}

#[test]
fn a_command_of_the_script_that_is_forbidden() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    user(&redis, &["~*", "+@all", "-mget", "-zadd"]);
    let outage = Outage::during(&store(&redis), &upstream);
    outage.holds(&["noperm"]);
    let log = outage.gateway.log();
    assert!(log.contains("the user may not run mget, zadd"), "{log}");
    user(&redis, &["~*", "+@all"]);
    outage.recovers();
}

#[test]
fn keys_that_are_forbidden() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    user(&redis, &["~other:*", "+@all"]);
    let outage = Outage::during(&store(&redis), &upstream);
    outage.holds(&["noperm"]);
    let log = outage.gateway.log();
    assert!(log.contains("the keys sluice:*"), "{log}");
    redis.command(&["ACL", "SETUSER", "gate", "~sluice:*"]);
    outage.recovers();
}

#[test]
fn a_clock_that_is_not_told_is_replaced() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    user(&redis, &["~*", "+@all", "-time"]);
    let outage = Outage::before(&store(&redis), &upstream);
    outage.says(&["no_time"]);
    let log = outage.gateway.log();
    assert!(log.contains("the clock of this machine counts"), "{log}");

    // Also when it is no longer told.
    user(&redis, &["~*", "+@all"]);
    let other = Outage::before(&store(&redis), &upstream);
    assert!(!other.gateway.log().contains("no_time"));
    redis.command(&["ACL", "SETUSER", "gate", "-time"]);
    other.recovers();
    other.says(&["no_time"]);
}

#[test]
fn a_password_that_is_asked_for() {
    let (redis, upstream) = (
        RedisServer::with(&["--requirepass", "word"]),
        Upstream::echo(),
    );
    let outage = Outage::during(&format!("  redis: {}\n", redis.url()), &upstream);
    outage.holds(&["auth"]);
    let log = outage.gateway.log();
    assert!(log.contains("NOAUTH"), "{log}");
    redis.command_as("word", &["CONFIG", "SET", "requirepass", ""]);
    outage.recovers();
}

#[test]
fn a_password_that_is_changed() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    user(&redis, &["~*", "+@all"]);
    let outage = Outage::before(&store(&redis), &upstream);
    // A user that is made anew loses its connections.
    redis.command(&["ACL", "DELUSER", "gate"]);
    redis.command(&["ACL", "SETUSER", "gate", "on", ">other", "~*", "+@all"]);
    outage.holds(&["auth"]);
    let log = outage.gateway.log();
    assert!(!log.contains("word\""), "no password in the log: {log}");
    redis.command(&["ACL", "SETUSER", "gate", ">word"]);
    outage.recovers();
}
