//! What requests cost: by number, by kind, by a proxy's word, and by what the answer says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::support::{Client, Gateway, RedisServer, Response, Upstream, send};

const NO_FIELDS: &[&str] = &[];

fn file(store: &str, upstream: &str, rest: &str) -> String {
    format!(
        "access_log: off\nworkers: 1\n{store}\nupstream: {upstream}\nlimits:\n  dear:\n    per: ip\n{rest}"
    )
}

/// What the client is told is left.
fn left(answer: &Response) -> u64 {
    let field = answer.field("ratelimit").expect("a RateLimit field");
    let (_, rest) = field.split_once(";r=").expect("what is left");
    let digits = rest.split(';').next().unwrap_or_default();
    digits.parse().expect("a number")
}

/// Both stores, one after the other.
fn stores() -> (RedisServer, [String; 2]) {
    let redis = RedisServer::start();
    let stores = ["store: memory".to_owned(), redis.store()];
    (redis, stores)
}

#[test]
fn a_number_and_a_mapping_of_matchers() {
    let (_redis, stores) = stores();
    for store in stores {
        let upstream = Upstream::echo();
        let rules = "    allow: 100 per hour\n    cost: {POST /search: 10, '/report/**': 30, otherwise: 2}\n  number:\n    per: ip\n    allow: 1000 per hour\n    cost: 7\n";
        let gateway = Gateway::start(&file(&store, &upstream.url(), rules));
        let mut client = Client::connect(gateway.address);
        let mut shown = |method: &str, path: &str| {
            let answer = client.send(method, path, NO_FIELDS, b"x");
            let field = answer.field("ratelimit").unwrap_or_default().to_owned();
            (answer.status, field)
        };
        for (method, path, dear, number) in [
            ("GET", "/search", 98, 993),
            ("POST", "/search", 88, 986),
            // As widely as a limit matches: the API behind may not care.
            ("POST", "//SEARCH/", 78, 979),
            ("GET", "/report/a/b", 48, 972),
            ("GET", "/report", 18, 965),
        ] {
            let (status, field) = shown(method, path);
            assert_eq!(status, 200);
            assert!(
                field.contains(&format!("\"dear\";r={dear};"))
                    && field.contains(&format!("\"number\";r={number};")),
                "{store}: {method} {path}: {field}"
            );
        }
        assert_eq!(shown("GET", "/report").0, 429, "30 do not fit into 18");
        assert_eq!(shown("POST", "/search").0, 200, "10 do");
    }
}

#[test]
fn a_trusted_proxy_says_what_a_request_costs() {
    let upstream = Upstream::echo();
    let rules = "    allow: 1000 per hour\n    cost: request header X-Cost, at most 50, else 5\n";
    let yaml = file("store: memory", &upstream.url(), rules);
    let trusting = Gateway::start(&format!("trusted_proxies: [127.0.0.1]\n{yaml}"));
    let mut rest = 1000;
    for (fields, cost) in [
        (&["X-Cost: 7"][..], 7),
        (&["x-cost: 50"], 50),
        (&["X-Cost: 51"], 50),
        (&["X-Cost: 99999999999999999999"], 50),
        (&[], 5),
        (&["X-Cost: 0"], 5),
        (&["X-Cost: -7"], 5),
        (&["X-Cost: seven"], 5),
        (&["X-Cost:"], 5),
        (&["X-Cost: 7", "X-Cost: 7"], 5),
        (&["X-Cost: 1"], 1),
    ] {
        rest -= cost;
        let answer = send(trusting.address, "GET", "/", fields, b"");
        assert_eq!(left(&answer), rest, "{fields:?}");
    }
    let answer = send(
        Gateway::start(&yaml).address,
        "GET",
        "/",
        &["X-Cost: 1"],
        b"",
    );
    assert_eq!(left(&answer), 995, "a client does not set its own price");
}

#[test]
fn what_can_never_pass_is_told_not_to_wait() {
    let (_redis, stores) = stores();
    for store in stores {
        let upstream = Upstream::echo();
        let rules =
            "    allow: 100 per hour\n    cost: request header X-Cost, at most 300, else 1\n";
        let yaml = file(&store, &upstream.url(), rules);
        let gateway = Gateway::start(&format!("trusted_proxies: [127.0.0.1]\n{yaml}"));
        let never = send(gateway.address, "GET", "/", &["X-Cost: 101"], b"");
        assert_eq!((never.status, never.field("retry-after")), (429, None));
        assert_eq!(left(&never), 100, "it spends nothing");
        let most = send(gateway.address, "GET", "/", &["X-Cost: 100"], b"");
        assert_eq!((most.status, left(&most)), (200, 0));
        let later = send(gateway.address, "GET", "/", &["X-Cost: 1"], b"");
        assert_eq!(later.status, 429);
        assert!(later.field("retry-after").is_some());
        assert_eq!(upstream.seen().len(), 1);
    }
}

/// Answers as `/KIND/COST` asks; `/none` says nothing.
fn saying() -> Upstream {
    Upstream::answering(|request| {
        let path = request.line().split(' ').nth(1).unwrap_or_default();
        let (kind, cost) = path
            .trim_start_matches('/')
            .split_once('/')
            .unwrap_or((path, ""));
        let json = format!(
            "{{\"text\":\"\\\"usage\\\"\",\"usage\":{{\"in\":1,\"total_tokens\":{cost}}},\"z\":[]}}"
        );
        let events = format!(
            "data: {{\"choices\":[{{}}],\"usage\":null}}\n\ndata: {{\"choices\":[],\"usage\":{{\"total_tokens\":{cost}}}}}\n\ndata: [DONE]\n\n"
        );
        let head = "HTTP/1.1 200 OK\r\n";
        match kind {
            "header" => format!("{head}X-Cost: {cost}\r\nContent-Length: 2\r\n\r\nok"),
            "trailer" => format!(
                "{head}Trailer: X-Cost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Cost: {cost}\r\n\r\n"
            ),
            "json" => format!("{head}Content-Length: {}\r\n\r\n{json}", json.len()),
            "pieces" => format!(
                "{head}Transfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
                pieces(&json)
            ),
            "events" => format!(
                "{head}Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n{}0\r\n\r\n",
                pieces(&events)
            ),
            "long" => {
                let long = format!("{{\"text\":\"{}\",{}", "x".repeat(300_000), &json[1..]);
                format!("{head}Content-Length: {}\r\n\r\n{long}", long.len())
            }
            "gzip" => format!(
                "{head}Content-Encoding: gzip\r\nContent-Length: {}\r\n\r\n{json}",
                json.len()
            ),
            "empty" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
            "short" => format!(
                "{head}Connection: close\r\nContent-Length: {}\r\n\r\n{json}",
                json.len() + 1
            ),
            _ => format!("{head}Content-Length: 2\r\n\r\nok"),
        }
        .into_bytes()
    })
}

/// Chunks of three bytes.
fn pieces(text: &str) -> String {
    let pieces = text.as_bytes().chunks(3);
    pieces
        .map(|piece| {
            format!(
                "{:x}\r\n{}\r\n",
                piece.len(),
                String::from_utf8_lossy(piece)
            )
        })
        .collect()
}

/// What 100 have left after one request for `path`, by asking with one that reserves 10.
fn left_after(gateway: &Gateway, method: &str, path: &str) -> u64 {
    let mut client = Client::connect(gateway.address);
    client.write(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    if let Some(answer) = client.read(method) {
        assert_eq!(left(&answer), 90, "what is reserved is shown as spent");
    }
    left(&gateway.get("/none")) + 10
}

fn costing(place: &str) -> String {
    format!("    allow: 100 per hour\n    cost: response {place}, at most 10\n")
}

#[test]
fn an_answer_says_what_it_cost() {
    let (redis, stores) = stores();
    let upstream = saying();
    let (header, trailer) = (costing("header X-Cost"), costing("trailer X-Cost"));
    let json = costing("json usage.total_tokens");
    for store in stores {
        for (rules, path, left) in [
            (&header, "/header/3", 97),
            (&header, "/header/0", 100),
            (&header, "/header/10", 90),
            (&header, "/header/60", 40),
            (&header, "/header/much", 90),
            (&header, "/trailer/3", 90),
            (&trailer, "/trailer/3", 97),
            (&trailer, "/trailer/60", 40),
            (&trailer, "/trailer/much", 90),
            (&trailer, "/header/3", 90),
            (&json, "/json/3", 97),
            (&json, "/json/60", 40),
            (&json, "/json/null", 90),
            (&json, "/pieces/3", 97),
            (&json, "/events/4", 96),
            (&json, "/events/60", 40),
            (&json, "/events/null", 90),
            (&json, "/long/3", 97),
            (&json, "/gzip/3", 90),
            (&json, "/empty/", 90),
            (&json, "/short/3", 90),
        ] {
            redis.command(&["FLUSHALL"]);
            let gateway = Gateway::start(&file(&store, &upstream.url(), rules));
            assert_eq!(left_after(&gateway, "GET", path), left, "{store}: {path}");
        }
        redis.command(&["FLUSHALL"]);
        let gateway = Gateway::start(&file(&store, &upstream.url(), &json));
        assert_eq!(left_after(&gateway, "HEAD", "/json/3"), 90, "no body");
    }
}

#[test]
fn every_algorithm_settles_in_redis_and_in_memory() {
    let (redis, stores) = stores();
    let upstream = saying();
    for store in stores {
        for algorithm in ["sliding_window", "sliding_log", "fixed_window"] {
            for (path, left) in [("/header/3", 97), ("/header/60", 40)] {
                redis.command(&["FLUSHALL"]);
                let rules = format!("{}    algorithm: {algorithm}\n", costing("header X-Cost"));
                let gateway = Gateway::start(&file(&store, &upstream.url(), &rules));
                let got = left_after(&gateway, "GET", path);
                assert_eq!(got, left, "{store}: {algorithm} {path}");
            }
        }
    }
}

#[test]
fn a_cost_above_all_that_is_left_is_charged_in_full() {
    let (_redis, stores) = stores();
    for store in stores {
        let upstream = saying();
        let rules = costing("header X-Cost").replace("100 per hour", "100 per 3 seconds");
        let gateway = Gateway::start(&file(&store, &upstream.url(), &rules));
        assert_eq!(gateway.get("/header/500").status, 200);
        let next = gateway.get("/none");
        assert_eq!((next.status, left(&next)), (429, 0), "{store}");
        assert!(next.field("retry-after").is_some());
    }
}

#[test]
fn trailers_are_asked_for_and_kept_from_a_client_that_did_not_ask() {
    let upstream = saying();
    let gateway = Gateway::start(&file(
        "store: memory",
        &upstream.url(),
        &costing("trailer X-Cost"),
    ));
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream
        .write_all(b"GET /trailer/3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(!answer.to_ascii_lowercase().contains("x-cost"), "{answer}");
    assert_eq!(upstream.last().field("te"), Some("trailers"));
    let plain = Gateway::start(&file(
        "store: memory",
        &upstream.url(),
        &costing("header X-Cost"),
    ));
    plain.get("/header/3");
    assert_eq!(upstream.last().field("te"), None);
}

#[test]
fn what_does_not_count_costs_nothing_and_what_does_costs_what_it_says() {
    let upstream = Upstream::answering(|request| {
        let status = match request.line().contains("/fails") {
            true => "500 Oops",
            false => "200 OK",
        };
        format!("HTTP/1.1 {status}\r\nX-Cost: 3\r\nContent-Length: 0\r\n\r\n").into_bytes()
    });
    let rules = format!("{}    count: responses 2xx\n", costing("header X-Cost"));
    let gateway = Gateway::start(&file("store: memory", &upstream.url(), &rules));
    assert_eq!(left(&gateway.get("/fails")), 90);
    assert_eq!(left(&gateway.get("/works")), 90, "all was given back");
    assert_eq!(left(&gateway.get("/works")), 87);
}

/// An upstream that begins an event stream and then waits for its next line.
struct Stream {
    url: String,
    /// Connections that have begun, each with what says its next line; dropped: the stream is cut off.
    begun: Receiver<Sender<String>>,
    /// Told when the gateway has closed one.
    closed: Receiver<()>,
}

fn streaming() -> Stream {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let ((begin, begun), (close, closed)) = (channel(), channel());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (begin, close) = (begin.clone(), close.clone());
            thread::spawn(move || stream_to(stream, &begin, &close));
        }
    });
    Stream { url, begun, closed }
}

fn stream_to(mut stream: TcpStream, begin: &Sender<Sender<String>>, close: &Sender<()>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
        line.clear();
    }
    let (say, said) = channel::<String>();
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    drop(begin.send(say));
    for text in said {
        let chunk = format!("{:x}\r\n{text}\r\n", text.len());
        let chunk = if text.is_empty() {
            "0\r\n\r\n".to_owned()
        } else {
            chunk
        };
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    drop(stream.shutdown(std::net::Shutdown::Write));
    drop(reader.read(&mut [0]));
    close.send(()).unwrap_or_default();
}

const SOON: Duration = Duration::from_secs(20);

#[test]
fn a_stream_that_is_left_keeps_what_was_reserved() {
    for (event, left_then) in [
        ("data: {\"usage\":null}\n\n", 90),
        // The client has read what it cost and leaves before the end.
        ("data: {\"usage\":{\"total_tokens\":3}}\n\n", 90),
        ("data: {\"usage\":{\"total_tokens\":30}}\n\n", 70),
    ] {
        let upstream = streaming();
        let rules = costing("json usage.total_tokens");
        let gateway = Gateway::start(&file("store: memory", &upstream.url, &rules));
        let mut client = TcpStream::connect(gateway.address).unwrap();
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .unwrap();
        let say = upstream.begun.recv_timeout(SOON).unwrap();
        say.send(event.to_owned()).unwrap();
        let mut seen = String::new();
        while !seen.contains("\n\n\r\n") {
            let mut some = [0; 512];
            let read = client.read(&mut some).unwrap();
            seen.push_str(&String::from_utf8_lossy(&some[..read]));
        }
        drop(client);
        drop(say);
        upstream.closed.recv_timeout(SOON).unwrap();
        assert_eq!(left_in(&gateway, &upstream), left_then, "{event}");
    }
}

/// What is left, by asking with a stream that reserves 10.
fn left_in(gateway: &Gateway, upstream: &Stream) -> u64 {
    let address = gateway.address;
    let asking = thread::spawn(move || crate::support::get(address, "/"));
    let say = upstream.begun.recv_timeout(SOON).unwrap();
    say.send(String::new()).unwrap();
    drop(say);
    left(&asking.join().unwrap()) + 10
}

#[test]
fn a_stream_that_breaks_keeps_what_was_reserved() {
    let upstream = streaming();
    let rules = costing("json usage.total_tokens");
    let gateway = Gateway::start(&file("store: memory", &upstream.url, &rules));
    let mut client = TcpStream::connect(gateway.address).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .unwrap();
    let say = upstream.begun.recv_timeout(SOON).unwrap();
    say.send("data: {\"usage\":{\"total_tokens\":3}}\n\n".to_owned())
        .unwrap();
    // Without the last chunk.
    drop(say);
    client.read_to_end(&mut Vec::new()).unwrap_or_default();
    assert_eq!(left_in(&gateway, &upstream), 90);
}

#[test]
fn an_upstream_that_cannot_be_reached_costs_nothing() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{nobody}");
    let gateway = Gateway::start(&file("store: memory", &url, &costing("trailer X-Cost")));
    for _ in 0..15 {
        let answer = gateway.get("/");
        assert_eq!((answer.status, left(&answer)), (502, 90));
    }
}

/// A language model: it streams its answers, and knows how much of the budget is out at every moment.
struct Model {
    url: String,
    /// What was used, and what is reserved.
    out: AtomicU64,
    /// The most that was ever out.
    worst: AtomicU64,
    arrived: AtomicU64,
    /// The first five answers meet here.
    five: Barrier,
}

fn model() -> Arc<Model> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = Arc::new(Model {
        url: format!("http://{}", listener.local_addr().unwrap()),
        out: AtomicU64::new(0),
        worst: AtomicU64::new(0),
        arrived: AtomicU64::new(0),
        five: Barrier::new(5),
    });
    let serving = Arc::clone(&model);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let model = Arc::clone(&serving);
            thread::spawn(move || model.serve(stream));
        }
    });
    model
}

impl Model {
    fn serve(&self, mut stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).unwrap_or(0) == 0 {
                    return;
                }
            }
            let cost = self.arrive();
            let mut body = "data: {\"delta\":\"word\",\"usage\":null}\n\n".repeat(20);
            body.push_str(&format!(
                "data: {{\"usage\":{{\"total_tokens\":{cost}}}}}\n\ndata: [DONE]\n\n"
            ));
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
            let answer = format!("{head}{}0\r\n\r\n", pieces(&body));
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    /// What an answer cost. It is out for no longer than the gateway thinks: the gateway hears of the end later.
    fn arrive(&self) -> u64 {
        let out = self.out.fetch_add(200, Ordering::SeqCst) + 200;
        self.worst.fetch_max(out, Ordering::SeqCst);
        if self.arrived.fetch_add(1, Ordering::SeqCst) < 5 {
            self.five.wait();
        }
        let cost = 10 + out % 31;
        self.out.fetch_sub(200 - cost, Ordering::SeqCst);
        cost
    }
}

#[test]
fn a_budget_of_tokens_holds_with_fifty_answers_in_flight() {
    let redis = RedisServer::start();
    for (store, count) in [
        ("store: memory".to_owned(), 1),
        (redis.store(), 1),
        (redis.store(), 3),
    ] {
        redis.command(&["FLUSHALL"]);
        let model = model();
        let rules =
            "    allow: 1000 per day\n    cost: response json usage.total_tokens, at most 200\n";
        let yaml = file(&store, &model.url, rules);
        let gateways: Vec<Gateway> = (0..count).map(|_| Gateway::start(&yaml)).collect();
        let addresses: Vec<_> = gateways.iter().map(|gateway| gateway.address).collect();
        // Fifty at a time, until nothing more fits.
        let mut rounds = 0;
        while crate::support::parallel(50, &addresses, "/chat", NO_FIELDS).contains(&200) {
            rounds += 1;
            assert!(rounds < 100, "{store}: it never ends");
        }
        let worst = model.worst.load(Ordering::SeqCst);
        assert_eq!(worst, 1000, "{store}: five at once, and never more");
        let used = model.out.load(Ordering::SeqCst);
        assert!(
            (801..=1000).contains(&used),
            "{store}: {used} of 1000 were used"
        );
    }
}
