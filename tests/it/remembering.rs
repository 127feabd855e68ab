//! Keys that are known to be out, for which the store is not asked again.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Client, Gateway, RedisServer, Upstream, code, codes, eventually, held, send};

/// How many scripts the server has run.
fn calls(redis: &RedisServer) -> u64 {
    let info = redis.command(&["INFO", "commandstats"]).join("\n");
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    line.map_or(0, |rest| rest.split(',').next().unwrap().parse().unwrap())
}

#[test]
fn a_flood_on_a_key_that_is_out_costs_the_store_a_call_a_second() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let gateway = Gateway::start(&format!(
        "workers: 1\naccess_log: off\n{}\nupstream: {}\nlimits:\n  one:\n    per: ip\n    allow: 1 per hour\n",
        redis.store(),
        upstream.url()
    ));
    assert_eq!(codes(2, gateway.address, "/", &[]), [200, 429]);
    let before = calls(&redis);
    let begun = Instant::now();
    let mut client = Client::connect(gateway.address);
    for _ in 0..3000 {
        let answer = client.send("GET", "/", &[], b"");
        assert_eq!(answer.status, 429);
        let retry: u64 = answer.field("retry-after").unwrap().parse().unwrap();
        assert!((3500..=3960).contains(&retry), "{retry}");
        assert!(answer.field("ratelimit").unwrap().contains("r=0;"));
    }
    let made = calls(&redis) - before;
    let promised = begun.elapsed().as_secs() + 1;
    assert!(made <= 4 * promised, "{made} calls in {promised} s");
    let metrics = gateway.metrics();
    let remembered =
        metrics.value("sluice_decision_source_total{limit=\"one\",source=\"remembered\"}");
    assert!(remembered > 2900.0, "{remembered}");
    let rejected = metrics.value("sluice_decisions_total{decision=\"rejected\",limit=\"one\"}");
    assert!(
        (rejected - 3001.0).abs() < 0.5,
        "each is counted: {rejected}"
    );
}

#[test]
fn a_key_that_came_free_elsewhere_is_asked_for_within_a_second() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let gateway = Gateway::start(&format!(
        "workers: 1\n{}\nupstream: {}\nlimits:\n  one:\n    per: ip\n    allow: 1 per hour\n",
        redis.store(),
        upstream.url()
    ));
    assert_eq!(codes(2, gateway.address, "/", &[]), [200, 429]);
    redis.command(&["FLUSHALL"]);
    eventually("the key is free", Duration::from_secs(4), || {
        (codes(1, gateway.address, "/", &[]) == [200]).then_some(())
    });
}

#[test]
fn a_reload_that_raises_the_amount_lets_a_client_in_at_once() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let yaml = |amount: u64| {
        format!(
            "workers: 1\n{}\nupstream: {}\nlimits:\n  one:\n    per: ip\n    allow: {amount} per hour\n",
            redis.store(),
            upstream.url()
        )
    };
    let gateway = Gateway::start(&yaml(1));
    assert_eq!(code(gateway.address, "/", &[]), 200);
    let (before, begun) = (calls(&redis), Instant::now());
    // The first of these is judged by the store, and remembered.
    assert_eq!(codes(9, gateway.address, "/", &[]), [429; 9]);
    let promised = begun.elapsed().as_secs() + 1;
    assert!(calls(&redis) - before <= promised, "the key is remembered");
    gateway.reload(&yaml(5), "ok");
    assert_eq!(
        codes(5, gateway.address, "/", &[]),
        [200, 200, 200, 200, 429]
    );
}

#[test]
fn a_dearer_request_is_told_what_is_true_of_it() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let gateway = Gateway::start(&format!(
        "workers: 1\ntrusted_proxies: [127.0.0.1]\n{}\nupstream: {}\nlimits:\n  one:\n    per: ip\n    allow: 10 per hour\n    cost: request header X-Cost, at most 50, else 1\n",
        redis.store(),
        upstream.url()
    ));
    let ask = |cost: u64| {
        let answer = send(
            gateway.address,
            "GET",
            "/",
            &[&format!("X-Cost: {cost}")],
            b"",
        );
        (answer.status, answer.field("retry-after").is_some())
    };
    assert_eq!(ask(8), (200, false));
    assert_eq!(ask(3), (429, true));
    assert_eq!(ask(3), (429, true));
    let remembered = "sluice_decision_source_total{limit=\"one\",source=\"remembered\"}";
    eventually("it is remembered", Duration::from_secs(20), || {
        ask(3);
        (gateway.metrics().value(remembered) > 0.0).then_some(())
    });
    assert_eq!(ask(11), (429, false), "waiting does not help");
    assert_eq!(ask(2), (200, false), "what is cheaper passes");
    let never = "sluice_decisions_total{decision=\"never\",limit=\"one\"}";
    assert_eq!(gateway.metrics().value(never), 1.0);
}

#[test]
fn what_can_come_back_is_never_remembered() {
    let redis = RedisServer::start();
    let (upstream, gate) = held();
    let yaml = format!(
        "workers: 1\n{}\nupstream: {}\nlimits:\n  failed:\n    per: ip\n    allow: 5 per hour\n    count: responses 401\n",
        redis.store(),
        upstream.url()
    );
    let [a, b] = [Gateway::start(&yaml), Gateway::start(&yaml)];
    let held: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut stream = TcpStream::connect(a.address).unwrap();
            write!(stream, "GET / HTTP/1.1\r\nHost: api.example.test\r\n\r\n").unwrap();
            stream
        })
        .collect();
    eventually("the five are reserved", Duration::from_secs(10), || {
        (upstream.seen().len() == 5).then_some(())
    });
    assert_eq!(codes(1, b.address, "/", &[]), [429], "all are reserved");
    gate.open(100);
    for stream in held {
        assert_eq!(Client::over(stream).read("GET").unwrap().status, 200);
    }
    // What is given back is on its way to the store when the last answer is read; B remembers nothing meanwhile.
    let begun = Instant::now();
    eventually("B admits", Duration::from_secs(4), || {
        (codes(1, b.address, "/", &[]) == [200]).then_some(())
    });
    let took = begun.elapsed();
    assert!(
        took < Duration::from_millis(900),
        "B had to forget first: {took:?}"
    );
}
