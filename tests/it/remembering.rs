//! Keys that are known to be out, for which the store is not asked again.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::support::{Client, Gateway, RedisServer, Upstream, codes, eventually};

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

/// Answers 200 once the door is open.
fn behind(door: &Arc<(Mutex<bool>, Condvar)>) -> Upstream {
    let door = Arc::clone(door);
    Upstream::answering(move |_| {
        let (open, opened) = &*door;
        drop(opened.wait_while(open.lock().unwrap(), |open| !*open));
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()
    })
}

#[test]
fn what_can_come_back_is_never_remembered() {
    let redis = RedisServer::start();
    let door = Arc::new((Mutex::new(false), Condvar::new()));
    let upstream = behind(&door);
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
    *door.0.lock().unwrap() = true;
    door.1.notify_all();
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
