//! So much at once: slots that are held while an answer lasts, and freed however it ends.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use crate::support::{
    Client, Gate, Gateway, RedisServer, Upstream, code, codes, eventually, held, parallel, send,
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: api.example.test\r\n\r\n";
const SOON: Duration = Duration::from_secs(5);

/// An upstream that sends the head and half of the body, and the other half when the gate lets it.
fn halved() -> (String, Gate) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let gate = Gate::default();
    let inside = gate.clone();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let gate = inside.clone();
            thread::spawn(move || {
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                    head.push(byte[0]);
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nha");
                gate.pass();
                let _ = stream.write_all(b"lf");
            });
        }
    });
    (url, gate)
}

fn file(store: &str, upstream: &str, allow: &str) -> String {
    format!(
        "access_log: off\n{store}\nupstream: {upstream}\nlimits:\n  now:\n    per: ip\n    allow: {allow}\n"
    )
}

/// Sends a request and does not read the answer.
fn begin(gateway: &Gateway) -> Client {
    let mut client = Client::connect(gateway.address);
    client.write(REQUEST);
    client
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|one| **one == status).count()
}

fn rejected(gateways: &[Gateway]) -> f64 {
    let labels = ["limit=\"now\"", "decision=\"rejected\""];
    let each = gateways.iter().map(|gateway| {
        let metrics = gateway.metrics();
        metrics.sum("sluice_decisions_total", &labels)
    });
    each.sum()
}

#[test]
fn twenty_of_a_hundred_reach_the_upstream_at_once() {
    let redis = RedisServer::start();
    for (store, number) in [
        ("store: memory".to_owned(), 1),
        (redis.store(), 1),
        (redis.store(), 3),
    ] {
        redis.command(&["FLUSHALL"]);
        let (upstream, gate) = held();
        let yaml = file(&store, &upstream.url(), "20 concurrent");
        let gateways: Vec<Gateway> = (0..number).map(|_| Gateway::start(&yaml)).collect();
        let addresses: Vec<SocketAddr> = gateways.iter().map(|gateway| gateway.address).collect();

        let asked = addresses.clone();
        let clients = thread::spawn(move || parallel(100, &asked, "/", &[]));
        eventually("eighty are refused", 4 * SOON, || {
            (rejected(&gateways) >= 80.0).then_some(())
        });
        eventually("twenty are under way", SOON, || {
            (upstream.seen().len() == 20).then_some(())
        });
        gate.open(1000);
        let statuses = clients.join().unwrap();

        let both = (count(&statuses, 200), count(&statuses, 429));
        assert_eq!(both, (20, 80), "{store}, {number} gateways");
        assert_eq!(upstream.seen().len(), 20, "{store}");
        for address in addresses {
            eventually("all slots are free again", SOON, || {
                let answer = Client::connect(address).send("GET", "/", &[], b"");
                let field = answer.field("ratelimit").map(str::to_owned);
                (field.as_deref() == Some(r#""now";r=19"#)).then_some(())
            });
        }
    }
}

#[test]
fn the_next_is_admitted_as_soon_as_one_ends() {
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        let (upstream, gate) = held();
        let gateway = Gateway::start(&file(&store, &upstream.url(), "1 concurrent"));
        let mut first = begin(&gateway);
        eventually("the first is under way", SOON, || {
            (!upstream.seen().is_empty()).then_some(())
        });
        assert_eq!(codes(3, gateway.address, "/", &[]), [429; 3], "{store}");
        gate.open(1);
        assert_eq!(first.read("GET").unwrap().status, 200);
        gate.open(1);
        eventually("the next is admitted", SOON, || {
            (code(gateway.address, "/", &[]) == 200).then_some(())
        });
    }
}

#[test]
fn a_refusal_says_how_much_and_not_when() {
    let (upstream, _gate) = held();
    let allow = "\n      - 1 concurrent\n      - 100 per minute";
    let gateway = Gateway::start(&file("store: memory", &upstream.url(), allow));
    let _first = begin(&gateway);
    eventually("the slot is taken", SOON, || {
        (upstream.seen().len() == 1).then_some(())
    });
    let refused = gateway.get("/");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.field("retry-after"), None);
    assert_eq!(
        refused.field("ratelimit-policy"),
        Some(r#""now-concurrent";q=1;qu="concurrent-requests", "now-1m";q=100;w=60"#)
    );
    let state = refused.field("ratelimit").unwrap();
    assert!(
        state.starts_with(r#""now-concurrent";r=0, "now-1m";r=99;t="#),
        "{state}"
    );
    let body = refused.text();
    assert!(body.contains(r#""violated-policies":["now-concurrent"]"#));
    assert!(
        body.contains("at most 1 at once per client address; try again when one of them has ended"),
        "{body}"
    );
}

#[test]
fn requests_one_after_another_hold_one_slot() {
    let upstream = Upstream::answering(|request| match request.line() {
        line if line.contains("/empty") => b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(),
        line if line.starts_with("HEAD") => {
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec()
        }
        _ => b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n".to_vec(),
    });
    let gateway = Gateway::start(&file("store: memory", &upstream.url(), "1 concurrent"));
    for _ in 0..10 {
        for (method, path) in [("HEAD", "/"), ("GET", "/empty"), ("GET", "/")] {
            let status = send(gateway.address, method, path, &[], b"").status;
            assert!(status < 300, "{method} {path}: {status}");
        }
    }
}

#[test]
fn what_never_reached_the_upstream_and_what_broke_there_frees_its_slot() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let gateway = Gateway::start(&file(
        "store: memory",
        &format!("http://{nobody}"),
        "1 concurrent",
    ));
    assert_eq!(codes(5, gateway.address, "/", &[]), [502; 5]);

    let broken = Upstream::scripted("nonsense\r\n\r\n");
    let gateway = Gateway::start(&file("store: memory", &broken.url(), "1 concurrent"));
    assert_eq!(codes(5, gateway.address, "/", &[]), [502; 5]);
}

#[test]
fn a_client_that_hangs_up_frees_its_slot() {
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        // Before the head of the answer.
        let (upstream, gate) = held();
        let gateway = Gateway::start(&file(&store, &upstream.url(), "1 concurrent"));
        let first = begin(&gateway);
        eventually("it is under way", SOON, || {
            (upstream.seen().len() == 1).then_some(())
        });
        assert_eq!(code(gateway.address, "/", &[]), 429);
        drop(first);
        gate.open(100);
        eventually("its slot is free", SOON, || {
            (code(gateway.address, "/", &[]) == 200).then_some(())
        });

        // In the middle of the answer.
        redis.command(&["FLUSHALL"]);
        let (upstream, gate) = halved();
        let gateway = Gateway::start(&file(&store, &upstream, "1 concurrent"));
        let mut first = begin(&gateway);
        assert_eq!(first.status(), Some(200));
        assert_eq!(code(gateway.address, "/", &[]), 429);
        drop(first);
        gate.open(100);
        eventually("its slot is free", SOON, || {
            (code(gateway.address, "/", &[]) == 200).then_some(())
        });
    }
}

#[test]
fn a_client_that_leaves_a_queue_frees_its_slot() {
    let upstream = Upstream::echo();
    let yaml = file("store: memory", &upstream.url(), "1 concurrent")
        + "  line: {per: everyone, allow: 1 per 4 seconds, algorithm: leaky_bucket, queue: 9}\n";
    let gateway = Gateway::start(&yaml);
    assert_eq!(code(gateway.address, "/", &[]), 200);
    let waiting = begin(&gateway);
    let delayed = ["limit=\"line\"", "decision=\"delayed\""];
    eventually("it waits its turn", SOON, || {
        let metrics = gateway.metrics();
        (metrics.sum("sluice_decisions_total", &delayed) == 1.0).then_some(())
    });
    assert_eq!(code(gateway.address, "/", &[]), 429);
    drop(waiting);
    // The next waits its turn, behind the place of the one that left.
    eventually("its slot is free", 4 * SOON, || {
        (code(gateway.address, "/", &[]) == 200).then_some(())
    });
}

#[test]
fn a_gateway_that_stops_frees_its_slots() {
    let redis = RedisServer::start();
    let (upstream, _gate) = held();
    let yaml = file(&redis.store(), &upstream.url(), "5 concurrent") + "drain: {grace: 100ms}\n";
    let mut gateway = Gateway::start(&yaml);
    let _first = begin(&gateway);
    eventually("it is under way", SOON, || {
        (upstream.seen().len() == 1).then_some(())
    });
    let leases = || {
        redis
            .keys()
            .iter()
            .filter(|key| key.contains(":now:cc:"))
            .count()
    };
    assert_eq!(leases(), 1);
    gateway.signal("TERM");
    gateway.ended(4 * SOON);
    assert_eq!(leases(), 0);
}

#[test]
fn a_store_that_was_away_learns_what_is_under_way() {
    let mut redis = RedisServer::start();
    let (upstream, gate) = held();
    let yaml = file(&redis.store(), &upstream.url(), "2 concurrent").replace("5s", "200ms");
    let gateway = Gateway::start(&yaml);
    let mut first = begin(&gateway);
    eventually("it is under way", SOON, || {
        (upstream.seen().len() == 1).then_some(())
    });
    redis.kill();
    // This one is granted by the gateway alone.
    let mut second = begin(&gateway);
    eventually("it passes without the store", 4 * SOON, || {
        (upstream.seen().len() == 2).then_some(())
    });
    redis.restart();
    let held = |redis: &RedisServer| {
        let keys = redis.keys();
        let key = keys.iter().find(|key| key.contains(":now:cc:"))?;
        let members = redis
            .command(&["ZCARD", key])
            .first()?
            .parse::<usize>()
            .ok()?;
        members.checked_sub(1)
    };
    // The heartbeat comes every five seconds.
    eventually("both are entered", 4 * SOON, || {
        (held(&redis) == Some(2)).then_some(())
    });
    gate.open(100);
    assert_eq!(first.read("GET").unwrap().status, 200);
    assert_eq!(second.read("GET").unwrap().status, 200);
    eventually("both are freed", SOON, || {
        held(&redis).is_none().then_some(())
    });
}

/// The one test that lasts as long as a lease: nothing but time shows that a heartbeat beats.
#[test]
fn a_dead_gateway_frees_its_slots_and_a_slow_answer_keeps_its_own() {
    let redis = RedisServer::start();
    let (upstream, _gate) = halved();
    let yaml = file(&redis.store(), &upstream, "2 concurrent");
    let [living, mut dying, asking] = [(); 3].map(|()| Gateway::start(&yaml));
    let (mut slow, mut lost) = (begin(&living), begin(&dying));
    assert_eq!((slow.status(), lost.status()), (Some(200), Some(200)));
    assert_eq!(code(asking.address, "/", &[]), 429);
    dying.signal("KILL");
    dying.ended(SOON);
    assert_eq!(code(asking.address, "/", &[]), 429);
    let keys = redis.keys();
    let key = keys.iter().find(|key| key.contains(":now:cc:")).unwrap();
    let ttl: i64 = redis.command(&["PTTL", key])[0].parse().unwrap();
    assert!((1..=16_000).contains(&ttl), "{ttl}");
    let lease = Duration::from_secs(15);
    let _third = eventually("the dead gateway's slot is free", 4 * lease, || {
        let mut client = begin(&asking);
        (client.status() == Some(200)).then_some(client)
    });
    assert_eq!(
        code(asking.address, "/", &[]),
        429,
        "the slow answer keeps its slot"
    );
}
