//! Charges that the answer decides about.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::{Client, Gateway, RedisServer, Upstream, codes, eventually, parallel};

/// Refuses every password but the right one.
fn login() -> Upstream {
    Upstream::answering(|request| {
        let status = match request.field("x-password") {
            Some("right") => "200 OK",
            _ => "401 Unauthorized",
        };
        format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
    })
}

fn file(store: &str, upstream: &str) -> String {
    format!(
        "access_log: off\n{store}\nupstream: {upstream}\nlimits:\n  failed:\n    per: ip\n    allow: 5 per hour\n    count: responses 401, 5xx\n"
    )
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|one| **one == status).count()
}

#[test]
fn a_thousand_wrong_passwords_reach_the_upstream_five_times() {
    let redis = RedisServer::start();
    for (store, gateways) in [
        ("store: memory".to_owned(), 1),
        (redis.store(), 1),
        (redis.store(), 3),
    ] {
        redis.command(&["FLUSHALL"]);
        let upstream = login();
        let yaml = file(&store, &upstream.url());
        let gateways: Vec<Gateway> = (0..gateways).map(|_| Gateway::start(&yaml)).collect();
        let addresses: Vec<_> = gateways.iter().map(|gateway| gateway.address).collect();

        let statuses = parallel(1000, &addresses, "/login", &[]);

        assert_eq!(
            (count(&statuses, 401), count(&statuses, 429)),
            (5, 995),
            "{store}"
        );
        assert_eq!(upstream.seen().len(), 5, "{store}");
    }
}

#[test]
fn a_right_password_costs_nothing() {
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        let upstream = login();
        let gateway = Gateway::start(&file(&store, &upstream.url()));
        for _ in 0..20 {
            // What is given back in Redis is back before the next request of the same worker is judged; another worker's
            // may be judged first.
            eventually("a right password passes", Duration::from_secs(5), || {
                (codes(1, gateway.address, "/login", &["X-Password: right"]) == [200]).then_some(())
            });
        }
        let wrong = eventually("all is given back", Duration::from_secs(5), || {
            let answer =
                Client::connect(gateway.address).send("GET", "/login", &["X-Password: right"], b"");
            answer
                .field("ratelimit")
                .is_some_and(|field| field.contains("r=4;"))
                .then(|| codes(6, gateway.address, "/login", &[]))
        });
        assert_eq!(count(&wrong, 401), 5, "{store}: {wrong:?}");
    }
}

#[test]
fn what_reached_nobody_is_given_back() {
    let nobody = {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let gateway = Gateway::start(&file("store: memory", &format!("http://{nobody}")));
    assert_eq!(codes(20, gateway.address, "/login", &[]), [502; 20]);
}

/// An upstream that reads a head and then does what the test says.
fn upstream_doing(act: impl Fn(TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            act(stream);
        }
    });
    url
}

#[test]
fn a_connection_that_breaks_after_sending_keeps_the_charge() {
    let gateway = Gateway::start(&file("store: memory", &upstream_doing(drop)));
    let post = || crate::support::send(gateway.address, "POST", "/login", &[], b"x").status;
    let statuses: Vec<u16> = (0..7).map(|_| post()).collect();
    assert_eq!(statuses, [502, 502, 502, 502, 502, 429, 429]);
}

#[test]
fn a_client_that_hangs_up_keeps_the_charge() {
    let (told, asked) = std::sync::mpsc::channel();
    let upstream = upstream_doing(move |mut stream| {
        told.send(()).unwrap();
        // Until the gateway, whose client has left, closes.
        drop(stream.read(&mut [0]));
    });
    let gateway = Gateway::start(&file("store: memory", &upstream));
    for _ in 0..5 {
        let mut client = TcpStream::connect(gateway.address).unwrap();
        client
            .write_all(b"GET /login HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        asked
            .recv_timeout(Duration::from_secs(10))
            .expect("the upstream is asked");
    }
    assert_eq!(gateway.get("/login").status, 429);
}

#[test]
fn a_gateway_that_is_killed_keeps_the_charge() {
    let (told, asked) = std::sync::mpsc::channel();
    let upstream = upstream_doing(move |mut stream| {
        told.send(()).unwrap();
        drop(stream.read(&mut [0]));
    });
    let redis = RedisServer::start();
    let yaml = file(&redis.store(), &upstream);
    let gateway = Gateway::start(&yaml);
    let clients: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut client = TcpStream::connect(gateway.address).unwrap();
            client
                .write_all(b"GET /login HTTP/1.1\r\nHost: a\r\n\r\n")
                .unwrap();
            client
        })
        .collect();
    asked
        .recv_timeout(Duration::from_secs(10))
        .expect("the upstream is asked");
    eventually("all five are charged", Duration::from_secs(10), || {
        let metrics = gateway.metrics();
        (metrics.sum("sluice_decisions_total", &["decision=\"allowed\""]) == 5.0).then_some(())
    });
    gateway.signal("KILL");
    drop(clients);
    assert_eq!(Gateway::start(&yaml).get("/login").status, 429);
}

#[test]
fn an_upstream_that_does_not_answer_in_time_keeps_the_charge() {
    let upstream = upstream_doing(|mut stream| {
        drop(stream.read(&mut [0]));
    });
    let yaml = file("store: memory", "u").replace(
        "upstream: u\n",
        &format!(
            "upstreams:\n  u:\n    servers: [\"{upstream}\"]\n    timeouts: {{response: 200ms}}\nroutes:\n  - match: /**\n    to: u\n"
        ),
    );
    let gateway = Gateway::start(&yaml);
    let statuses: Vec<u16> = (0..7).map(|_| gateway.get("/login").status).collect();
    assert_eq!(statuses, [504, 504, 504, 504, 504, 429, 429]);
}

#[test]
fn twenty_right_passwords_in_a_row_pass() {
    // One worker asks and gives back in order; with several, another's request may be judged before the charge is back.
    let redis = RedisServer::start();
    for store in ["store: memory".to_owned(), redis.store()] {
        let upstream = login();
        let gateway = Gateway::start(&format!("workers: 1\n{}", file(&store, &upstream.url())));
        let statuses = codes(20, gateway.address, "/login", &["X-Password: right"]);
        assert_eq!(statuses, [200; 20], "{store}");
    }
}
