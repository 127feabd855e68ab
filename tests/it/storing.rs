//! What stands in Redis, and what happens when it does not answer.

use std::time::{Duration, Instant};

use crate::support::{
    ALGORITHMS, Client, Gateway, RedisServer, Upstream, code, codes, eventually, ways,
};

fn limited(redis: &RedisServer, upstream: &Upstream, limit: &str) -> Gateway {
    Gateway::start(&format!(
        "access_log: off\n{}\nupstream: {}\nlimits:\n  n:\n{limit}",
        redis.store(),
        upstream.url()
    ))
}

// R20: an emptied script cache costs no request and no count.
#[test]
fn an_emptied_script_cache_costs_nothing() {
    RedisServer::each(an_emptied_script_cache);
}

fn an_emptied_script_cache(redis: &mut RedisServer) {
    let upstream = Upstream::echo();
    for way in ways() {
        redis.command(&["FLUSHALL"]);
        let lines = format!("    per: ip\n{}", way.lines(5));
        let gateway = limited(redis, &upstream, &lines);
        assert_eq!(codes(2, gateway.address, "/n", &[]), [200, 200]);
        redis.command(&["SCRIPT", "FLUSH"]);
        assert_eq!(
            codes(4, gateway.address, "/n", &[]),
            [200, 200, 200, 429],
            "{way}"
        );
    }
}

#[test]
fn a_script_cache_emptied_in_a_loop_costs_nothing() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let gateway = limited(
        &redis,
        &upstream,
        "    per: ip\n    if_down: deny\n    allow: 100000 per hour\n",
    );
    let mut client = Client::connect(gateway.address);
    for i in 0..500 {
        if i % 5 == 0 {
            redis.command(&["SCRIPT", "FLUSH"]);
        }
        assert_eq!(client.send("GET", "/", &[], b"").status, 200, "request {i}");
    }
    let metrics = gateway.metrics();
    assert!(
        metrics.value("sluice_store_errors_total{kind=\"noscript\"}") <= 101.0,
        "at most one for each flush"
    );
    assert_eq!(
        metrics.sum("sluice_decision_source_total", &["source=\"store\""]),
        500.0
    );
}

// R24: every key expires, and a flood of rejections does not grow the log.
#[test]
fn every_key_expires_and_rejections_add_nothing() {
    RedisServer::each(every_key_expires);
}

fn every_key_expires(redis: &mut RedisServer) {
    let upstream = Upstream::echo();
    for algorithm in ALGORITHMS {
        redis.command(&["FLUSHALL"]);
        let gateway = limited(
            redis,
            &upstream,
            &format!(
                "    per: header X-Api-Key\n    algorithm: {algorithm}\n    allow: 5 per 5 seconds\n"
            ),
        );
        let mut client = Client::connect(gateway.address);
        (0..500).for_each(|i| {
            assert_eq!(
                client
                    .send("GET", "/t", &[&format!("X-Api-Key: {i}")], b"")
                    .status,
                200
            );
        });
        let keys = redis.keys();
        assert!(keys.len() >= 500, "{algorithm}: {}", keys.len());
        for key in keys.iter().filter(|key| key.contains(":n:")) {
            let left: i64 = redis.command(&["PTTL", key])[0].parse().unwrap();
            assert!(
                (0..=20_000).contains(&left) || left == -2,
                "{algorithm} {key} lives {left} ms more"
            );
        }
        for key in &keys {
            assert_ne!(
                redis.command(&["PTTL", key])[0],
                "-1",
                "{key} never expires"
            );
        }
    }
}

#[test]
fn a_hammered_log_stays_its_size() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    // A limit with `count` is never remembered: every request comes to the store.
    let gateway = limited(
        &redis,
        &upstream,
        "    per: header X-Api-Key\n    algorithm: sliding_log\n    allow: 5 per hour\n    count: responses 200\n",
    );
    let mut client = Client::connect(gateway.address);
    let mut hammer =
        |n: usize| (0..n).for_each(|_| drop(client.send("GET", "/t", &["X-Api-Key: a"], b"")));
    hammer(100);
    let key = redis
        .keys()
        .into_iter()
        .find(|key| key.contains(":n:"))
        .unwrap();
    let size = redis.command(&["MEMORY", "USAGE", &key]);
    hammer(2000);
    assert_eq!(redis.command(&["MEMORY", "USAGE", &key]), size);

    // A key that lost its expiry is healed by the next request that is admitted.
    redis.command(&["PERSIST", &key]);
    redis.command(&["ZREMRANGEBYRANK", &key, "0", "-1"]);
    hammer(1);
    assert_ne!(
        redis.command(&[
            "PTTL",
            &redis
                .keys()
                .into_iter()
                .find(|key| key.contains(":n:"))
                .unwrap()
        ])[0],
        "-1"
    );
}

// R55, and the bound of the memory store: unique keys do not grow it without end, and free no exhausted key.
#[test]
fn unique_keys_do_not_grow_the_memory_without_end() {
    let upstream = Upstream::echo();
    for algorithm in ALGORITHMS {
        let gateway = Gateway::start(&format!(
            "access_log: off\nworkers: 1\nstore:\n  memory: {{max_keys: 1000}}\nupstream: {}\nlimits:\n  m:\n    per: header X-Api-Key\n    algorithm: {algorithm}\n    allow: 5 per 10 minutes\n",
            upstream.url()
        ));
        assert_eq!(
            codes(6, gateway.address, "/", &["X-Api-Key: victim"]),
            [200, 200, 200, 200, 200, 429]
        );
        let mut client = Client::connect(gateway.address);
        (0..3000).for_each(|i| drop(client.send("GET", "/", &[&format!("X-Api-Key: {i}")], b"")));
        assert_eq!(
            code(gateway.address, "/", &["X-Api-Key: victim"]),
            429,
            "{algorithm}: the exhausted key is not freed early"
        );
        let metrics = gateway.metrics();
        assert!(
            metrics.value("sluice_keys") <= 1010.0,
            "{} keys",
            metrics.value("sluice_keys")
        );
        assert_eq!(metrics.value("sluice_keys_max"), 1000.0);
    }
}

fn outage(redis: &RedisServer, upstream: &Upstream) -> Gateway {
    let limit = |name: &str, if_down: &str| {
        format!(
            "  {name}:\n    when: /{name}\n    per: ip\n    if_down: {if_down}\n    allow: 5 per hour\n"
        )
    };
    Gateway::start(&format!(
        "access_log: off\nworkers: 1\nstore:\n  redis: {}\n  deadline: 50ms\nupstream: {}\nlimits:\n{}{}{}",
        redis.url(),
        upstream.url(),
        limit("open", "allow"),
        limit("closed", "deny"),
        limit("local", "local")
    ))
}

#[test]
fn a_dead_redis_does_what_each_limit_says_and_comes_back() {
    RedisServer::each(a_dead_redis);
}

fn a_dead_redis(redis: &mut RedisServer) {
    let upstream = Upstream::echo();
    let gateway = outage(redis, &upstream);
    assert_eq!(codes(5, gateway.address, "/local", &[]), [200; 5]);
    redis.kill();

    assert_eq!(codes(20, gateway.address, "/open", &[]), [200; 20]);
    assert_eq!(codes(3, gateway.address, "/closed", &[]), [503; 3]);
    let closed = gateway.get("/closed");
    assert!(closed.field("retry-after").is_some());
    assert!(closed.text().contains("temporary-reduced-capacity"));
    assert_eq!(
        codes(2, gateway.address, "/local", &[]),
        [429, 429],
        "the switch is not a free burst"
    );
    let metrics = gateway.metrics();
    assert_eq!(metrics.value("sluice_store_up"), 0.0);
    assert_eq!(
        metrics.value("sluice_decision_source_total{limit=\"open\",source=\"open\"}"),
        20.0
    );
    assert_eq!(
        metrics.value("sluice_decision_source_total{limit=\"closed\",source=\"closed\"}"),
        4.0
    );
    assert_eq!(
        metrics.value("sluice_decision_source_total{limit=\"local\",source=\"local\"}"),
        2.0
    );
    assert_eq!(
        get_ready(&gateway),
        200,
        "readiness does not depend on Redis"
    );

    redis.restart();
    eventually("limits apply again", Duration::from_secs(8), || {
        gateway.get("/closed");
        (gateway.metrics().value("sluice_store_up") == 1.0).then_some(())
    });
    let statuses = codes(7, gateway.address, "/open", &[]);
    assert_eq!(
        statuses.iter().filter(|status| **status == 200).count(),
        5,
        "{statuses:?}"
    );
}

fn get_ready(gateway: &Gateway) -> u16 {
    crate::support::get(gateway.admin, "/readyz").status
}

#[test]
fn a_hanging_redis_adds_at_most_its_deadline() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let gateway = outage(&redis, &upstream);
    let mut client = Client::connect(gateway.address);
    assert_eq!(client.send("GET", "/open", &[], b"").status, 200);
    redis.signal("STOP");
    let mut slow = 0;
    for _ in 0..60 {
        let begun = Instant::now();
        assert_eq!(client.send("GET", "/open", &[], b"").status, 200);
        assert!(
            begun.elapsed() < Duration::from_millis(200),
            "four times the deadline"
        );
        slow += usize::from(begun.elapsed() > Duration::from_millis(25));
    }
    assert!(
        slow <= 12,
        "the breaker opened: {slow} of 60 requests waited"
    );
    assert_eq!(gateway.metrics().value("sluice_store_breaker_open"), 1.0);
    redis.signal("CONT");
    eventually("limits apply again", Duration::from_secs(8), || {
        (gateway.metrics().value("sluice_store_breaker_open") == 0.0).then_some(())
    });
    eventually("and reject", Duration::from_secs(8), || {
        (client.send("GET", "/open", &[], b"").status == 429).then_some(())
    });
}

#[test]
fn it_starts_without_redis_and_connects_later() {
    let (mut redis, upstream) = (RedisServer::start(), Upstream::echo());
    redis.kill();
    let gateway = outage(&redis, &upstream);
    assert_eq!(
        codes(6, gateway.address, "/local", &[]),
        [200, 200, 200, 200, 200, 429]
    );
    redis.restart();
    eventually("the store is up", Duration::from_secs(8), || {
        (gateway.metrics().value("sluice_store_up") == 1.0).then_some(())
    });
    assert_eq!(code(gateway.address, "/open", &[]), 200);
    assert!(
        redis.keys().iter().any(|key| key.contains(":open:")),
        "{:?}",
        redis.keys()
    );
}

#[test]
fn the_key_says_what_it_is() {
    RedisServer::each(what_a_key_says);
}

fn what_a_key_says(redis: &mut RedisServer) {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "{}\nupstream: {}\nlimits:\n  per-ip:\n    per: ip\n    allow: 100 per minute\n",
        redis.store(),
        upstream.url()
    ));
    gateway.get("/");
    assert!(
        redis
            .keys()
            .contains(&"sluice:1:{ip=127.0.0.1}:per-ip:sw60s:".to_owned()),
        "{:?}",
        redis.keys()
    );
}

#[test]
fn a_foreign_value_fails_its_request_alone() {
    RedisServer::each(a_foreign_value);
}

fn a_foreign_value(redis: &mut RedisServer) {
    let upstream = Upstream::echo();
    let gateway = limited(
        redis,
        &upstream,
        "    per: header X-Key\n    if_down: deny\n    allow: 5 per hour\n",
    );
    assert_eq!(code(gateway.address, "/", &["X-Key: a"]), 200);
    let key = redis
        .keys()
        .into_iter()
        .find(|key| key.contains(":n:"))
        .unwrap();
    redis.command(&["SET", &key, "something else"]);
    assert_eq!(code(gateway.address, "/", &["X-Key: a"]), 503);
    assert_eq!(code(gateway.address, "/", &["X-Key: b"]), 200);
    redis.command(&["DEL", &key]);
    redis.command(&["LPUSH", &key, "x"]);
    assert_eq!(code(gateway.address, "/", &["X-Key: a"]), 503);
    assert_eq!(code(gateway.address, "/", &["X-Key: c"]), 200);
}

#[test]
fn users_and_databases_of_redis_are_used() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    redis.command(&["ACL", "SETUSER", "gate", "on", ">pa:ss@word", "~*", "+@all"]);
    let gateway = Gateway::start(&format!(
        "store:\n  redis: {}/3\n  deadline: 5s\n  username: gate\n  password: \"pa:ss@word\"\n  prefix: mine\nupstream: {}\nlimits:\n  n:\n    per: ip\n    allow: 1 per hour\n",
        redis.url(),
        upstream.url()
    ));
    assert_eq!(codes(2, gateway.address, "/", &[]), [200, 429]);
    assert!(redis.keys().is_empty(), "database 0 is empty");
    assert!(redis.command(&["INFO", "keyspace"])[0].contains("db3:"));
}
