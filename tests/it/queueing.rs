//! The leaky bucket as a queue, under load.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::{Client, Gateway, RedisServer, Upstream, eventually, get, parallel};

fn file(store: &str, upstream: &Upstream, limit: &str) -> String {
    format!(
        "{store}\nupstream: {}\nlimits:\n  shaped:\n    per: everyone\n    algorithm: leaky_bucket\n{limit}",
        upstream.url()
    )
}

/// A request that is sent, and whose answer nobody has read yet.
fn sent(gateway: &Gateway, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: api.example.test\r\n\r\n"
    )
    .unwrap();
    stream
}

fn delayed(gateways: &[Gateway]) -> f64 {
    let series = "sluice_decisions_total{decision=\"delayed\",limit=\"shaped\"}";
    gateways
        .iter()
        .map(|gateway| gateway.metrics().value(series))
        .sum()
}

/// Waits until so many requests were told to wait their turn.
fn await_delayed(gateways: &[Gateway], count: f64) {
    eventually("the request has its place", Duration::from_secs(10), || {
        (delayed(gateways) >= count).then_some(())
    });
}

#[test]
fn first_come_first_served_across_connections_and_gateways() {
    let redis = RedisServer::start();
    for (store, count) in [("store: memory".to_owned(), 1), (redis.store(), 3)] {
        let upstream = Upstream::echo();
        let yaml = file(
            &store,
            &upstream,
            "    allow: 4 per second\n    queue: 20\n",
        );
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();

        assert_eq!(get(gateways[0].address, "/0").status, 200);
        let mut waiting = Vec::new();
        for place in 1..=8_u32 {
            let gateway = &gateways[usize::try_from(place).unwrap() % count];
            waiting.push(sent(gateway, &format!("/{place}")));
            await_delayed(&gateways, f64::from(place));
        }
        for stream in waiting {
            assert_eq!(Client::over(stream).read("GET").unwrap().status, 200);
        }

        let order: Vec<String> = upstream
            .seen()
            .iter()
            .map(|request| request.line().to_owned())
            .collect();
        let expected: Vec<String> = (0..=8)
            .map(|place| format!("GET /{place} HTTP/1.1"))
            .collect();
        assert_eq!(order, expected, "{store}");
    }
}

#[test]
fn nobody_waits_longer_than_max_wait_whatever_the_queue_holds() {
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        let upstream = Upstream::echo();
        let gateway = Gateway::start(&file(
            &store,
            &upstream,
            "    allow: 10 per second\n    queue: 1000\n    max_wait: 500ms\n",
        ));
        let begun = Instant::now();
        let statuses = parallel(50, &[gateway.address], "/", &[]);
        let took = begun.elapsed();

        let passed = statuses.iter().filter(|status| **status == 200).count();
        let over = statuses.iter().filter(|status| **status == 429).count();
        // One at once, one each 100 ms for half a second, and what drained while the fifty were sent.
        let drained = usize::try_from(took.as_millis() / 100).unwrap();
        assert!((6..=6 + drained).contains(&passed), "{passed} in {took:?}");
        assert_eq!(passed + over, 50, "{store}");
    }
}

#[test]
fn a_client_that_leaves_is_noticed_at_once_and_has_spent_its_place() {
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        let upstream = Upstream::echo();
        let gateways = [Gateway::start(&file(
            &store,
            &upstream,
            "    allow: 6 per minute\n    queue: 3\n    max_wait: 50s\n",
        ))];
        let [gateway] = &gateways;
        assert_eq!(get(gateway.address, "/first").status, 200);
        for place in 1..=3_u8 {
            let stream = sent(gateway, "/leaves");
            await_delayed(&gateways, f64::from(place));
            drop(stream);
        }

        // Their turns would come after 10, 20 and 30 s.
        eventually("the gateway notices", Duration::from_secs(4), || {
            let gone = gateway
                .access()
                .iter()
                .filter(|line| {
                    line.contains("\"status\":499")
                        && line.contains("\"reason\":\"client_gone\"")
                        && line.contains("\"decision\":\"delayed\"")
                })
                .count();
            (gone == 3).then_some(())
        });
        let full = get(gateway.address, "/late");
        assert_eq!(full.status, 429, "the places are spent: {store}");
        assert!(full.field("retry-after").is_some());
        assert_eq!(upstream.seen().len(), 1, "none of them reached it: {store}");
    }
}

#[test]
fn a_request_that_waits_is_counted_with_its_time() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&file(
        "store: memory",
        &upstream,
        "    allow: 5 per second\n    queue: 2\n",
    ));
    assert_eq!(parallel(3, &[gateway.address], "/", &[]), [200; 3]);

    let metrics = gateway.metrics();
    assert_eq!(
        metrics.value("sluice_delay_seconds_count{limit=\"shaped\"}"),
        2.0
    );
    let sum = metrics.value("sluice_delay_seconds_sum{limit=\"shaped\"}");
    assert!((0.4..=0.6).contains(&sum), "200 and 400 ms: {sum}");
    eventually("the lines are written", Duration::from_secs(4), || {
        let delays: Vec<f64> = gateway
            .access()
            .iter()
            .filter_map(|line| {
                let (_, rest) = line.split_once("\"delay_ms\":")?;
                rest.split(',').next()?.parse().ok()
            })
            .filter(|delay| *delay > 0.0)
            .collect();
        (delays.len() == 2).then_some(())
    });
}

/// Resident memory of a process, in KiB.
fn resident(gateway: &Gateway) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", gateway.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn a_waiting_upload_is_not_read_into_memory() {
    let upstream = Upstream::echo();
    let gateways = [Gateway::start(&file(
        "store: memory",
        &upstream,
        "    allow: 6 per minute\n    queue: 200\n    max_wait: 50s\n",
    ))];
    let [gateway] = &gateways;
    assert_eq!(get(gateway.address, "/first").status, 200);
    let before = resident(gateway);
    let body = vec![b'x'; 4 << 20];
    let waiting: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut stream = TcpStream::connect(gateway.address).unwrap();
            write!(
                stream,
                "POST / HTTP/1.1\r\nHost: api.example.test\r\nContent-Length: {}\r\n\r\n",
                body.len()
            )
            .unwrap();
            stream.set_nonblocking(true).unwrap();
            stream
        })
        .collect();
    await_delayed(&gateways, 4.0);
    // Each writes until nobody takes more: the sockets are full, and the gateway reads no further.
    let mut written = 0;
    for mut stream in &waiting {
        let mut rest = &body[..];
        let patience = Instant::now();
        while !rest.is_empty() && patience.elapsed() < Duration::from_millis(300) {
            if let Ok(count) = stream.write(rest) {
                rest = &rest[count..];
                written += count;
            }
        }
    }
    let grown = resident(gateway).saturating_sub(before);
    assert!(written > 1 << 20, "the clients did send: {written}");
    assert!(
        grown < 4 << 10,
        "20 MiB were offered, {grown} KiB were kept"
    );
}
