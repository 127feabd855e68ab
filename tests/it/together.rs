//! Fields of a limit that meet in one limit, on every kind of store.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{
    Client, Gateway, RedisCluster, RedisServer, Response, Upstream, eventually, held, send,
};

const SOON: Duration = Duration::from_secs(20);

/// A store of each kind, and what they need.
struct Stores {
    _redis: RedisServer,
    _cluster: Arc<RedisCluster>,
    all: [String; 3],
}

fn stores(prefix: &str) -> Stores {
    let (redis, cluster) = (RedisServer::start(), RedisCluster::shared());
    let all = [
        "store: memory".to_owned(),
        redis.store(),
        cluster.store(prefix),
    ];
    Stores {
        _redis: redis,
        _cluster: cluster,
        all,
    }
}

/// One worker, so that what a request gives back is there before the next. Every request meets one more limit, whose key
/// a cluster has in another slot.
fn start(store: &str, upstream: &Upstream, limit: &str) -> Gateway {
    Gateway::start(&format!(
        "workers: 1\naccess_log: off\nsecret: test\n{store}\nupstream: {}\nlimits:\n{limit}  all:\n    per: everyone\n    allow: 1000 per day\n",
        upstream.url()
    ))
}

fn decided(gateway: &Gateway, limit: &str, decision: &str) -> f64 {
    let series = format!("sluice_decisions_total{{decision=\"{decision}\",limit=\"{limit}\"}}");
    gateway.metrics().value(&series)
}

/// What is left of an amount, as the client is told.
fn left(answer: &Response, name: &str) -> u64 {
    let field = answer.field("ratelimit").unwrap_or_default();
    let (_, rest) = field
        .split_once(&format!("\"{name}\";r="))
        .unwrap_or_else(|| panic!("no {name} in {field:?}"));
    let digits = rest.split([';', ',']).next().unwrap_or_default();
    digits.parse().unwrap()
}

#[test]
fn plans_and_overrides_say_how_much_is_at_once() {
    let stores = stores("together-slots");
    for store in &stores.all {
        let (upstream, gate) = held();
        let limit = "  now:
    per: header X-User
    allow: 1 concurrent
    plans: {from: query plan, pro: 2 concurrent, partner: unlimited}
    overrides: [{key: vip, allow: 3 concurrent}, {key: robot, skip: true}]
";
        let gateway = start(store, &upstream, limit);
        let begin = |user: &str, path: &str| {
            let mut client = Client::connect(gateway.address);
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: api.example.test\r\nX-User: {user}\r\n\r\n");
            client.write(head.as_bytes());
            client
        };
        let mut under_way = Vec::new();
        for (user, path, most) in [
            ("one", "/", 1),
            ("two", "/?plan=pro", 2),
            ("three", "/?plan=other", 1),
            // Whatever its plan.
            ("vip", "/?plan=pro", 3),
        ] {
            for _ in 0..most {
                under_way.push(begin(user, path));
                eventually("it is under way", SOON, || {
                    (upstream.seen().len() == under_way.len()).then_some(())
                });
            }
            let refused = begin(user, path).read("GET").unwrap();
            assert_eq!(refused.status, 429, "{store}: {user}");
            assert_eq!(left(&refused, "now"), 0);
            let policy = refused.field("ratelimit-policy").unwrap();
            assert!(policy.contains(&format!("\"now\";q={most};")), "{policy}");
        }
        // One counter: a plan that has more lets in what is left of it.
        under_way.push(begin("one", "/?plan=pro"));
        for (user, path) in [("robot", "/"), ("two", "/?plan=partner")] {
            under_way.extend((0..4).map(|_| begin(user, path)));
        }
        eventually("all others are under way", SOON, || {
            (upstream.seen().len() == under_way.len()).then_some(())
        });
        assert_eq!(begin("one", "/?plan=pro").read("GET").unwrap().status, 429);
        assert!((decided(&gateway, "now", "rejected") - 5.0).abs() < 0.1);

        gate.open(1000);
        for client in &mut under_way {
            assert_eq!(client.read("GET").unwrap().status, 200, "{store}");
        }
        for (user, path, most) in [("one", "/", 1), ("two", "/?plan=pro", 2), ("vip", "/", 3)] {
            eventually("every slot is free again", SOON, || {
                let answer = begin(user, path).read("GET").unwrap();
                (answer.status == 200 && left(&answer, "now") == most - 1).then_some(())
            });
        }
    }
}

#[test]
fn failed_logins_of_a_user_block_it_at_its_own_amount() {
    let stores = stores("together-logins");
    for store in &stores.all {
        let upstream = Upstream::answering(|request| {
            let status = match String::from_utf8_lossy(&request.body).contains("right") {
                true => "200 OK",
                false => "401 Unauthorized",
            };
            format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").into_bytes()
        });
        let limit = "  failed:
    when: POST /login
    per: body user
    allow: 3 per 30 minutes
    count: responses 401
    then: block for 1 hour
    overrides: [{key: robot, allow: 6 per 30 minutes}, {key: probe, skip: true}]
";
        let gateway = start(store, &upstream, limit);
        let login = |user: &str, password: &str| {
            let body = format!("{{\"user\":\"{user}\",\"password\":\"{password}\"}}");
            let json = ["Content-Type: application/json"];
            send(gateway.address, "POST", "/login", &json, body.as_bytes())
        };
        for (user, most) in [("bob", 3), ("robot", 6)] {
            for failed in 0..most {
                for _ in 0..2 {
                    let right = login(user, "right");
                    assert_eq!(right.status, 200, "{store}: {user} after {failed}");
                }
                let wrong = login(user, "wrong");
                assert_eq!(wrong.status, 401, "{store}: {user} after {failed}");
                assert_eq!(left(&wrong, "failed"), most - failed - 1);
            }
            let blocked = login(user, "right");
            assert_eq!(blocked.status, 429, "{store}: {user}");
            let wait: u64 = blocked.field("retry-after").unwrap().parse().unwrap();
            assert!((3000..=3600).contains(&wait), "{wait}");
            assert!(blocked.text().contains("blocked for 1 hour"));
            assert_eq!(login("eve", "right").status, 200);
        }
        for _ in 0..9 {
            assert_eq!(login("probe", "wrong").status, 401);
        }
        assert!((decided(&gateway, "failed", "blocked") - 2.0).abs() < 0.1);
        assert!((decided(&gateway, "failed", "skipped") - 9.0).abs() < 0.1);
        assert_eq!(send(gateway.address, "POST", "/", &[], b"").status, 401);
    }
}

#[test]
fn a_candidate_is_charged_what_its_request_costs() {
    let stores = stores("together-costs");
    for store in &stores.all {
        let upstream = Upstream::echo();
        let limit = "  dear:
    per: header X-User
    allow: 60 per day
    cost: {POST /search: 10, otherwise: 1}
    candidate: 25 per day
  wider:
    per: header X-User
    when: POST /search
    allow: 40 per day
    cost: 10
    candidate: 60 per day
";
        let gateway = start(store, &upstream, limit);
        let ask = |method: &str, path: &str| {
            let answer = send(gateway.address, method, path, &["X-User: a"], b"");
            (answer.status, left(&answer, "dear"))
        };
        let over = |limit: &str| decided(&gateway, limit, "candidate_rejected");

        // What costs 10 fits into 25 twice, and then there is room for 5 of 1.
        for (left, candidate) in [(50, 0.0), (40, 0.0), (30, 1.0), (20, 2.0)] {
            assert_eq!(ask("POST", "/search"), (200, left), "{store}");
            assert!((over("dear") - candidate).abs() < 0.1, "{store}");
            assert!(over("wider") < 0.1, "{store}");
        }
        for left in (15..20).rev() {
            assert_eq!(ask("GET", "/search"), (200, left), "{store}");
        }
        assert!((over("dear") - 2.0).abs() < 0.1, "{store}");
        assert_eq!(ask("GET", "/"), (200, 14), "{store}");
        assert!((over("dear") - 3.0).abs() < 0.1, "{store}");

        // `wider` rejects: its own candidate counts on, up to 60, and that of `dear` hears nothing.
        for candidate in [0.0, 0.0, 1.0] {
            assert_eq!(ask("POST", "/search"), (429, 14), "{store}");
            assert!((over("wider") - candidate).abs() < 0.1, "{store}");
        }
    }
}

#[test]
fn a_candidate_is_charged_what_the_answer_says() {
    let stores = stores("together-answers");
    for store in &stores.all {
        let upstream =
            Upstream::scripted("HTTP/1.1 200 OK\r\nX-Cost: 3\r\nContent-Length: 0\r\n\r\n");
        let limit = "  tokens:
    per: header X-User
    allow: 100 per day
    cost: response header X-Cost, at most 10
    candidate: 25 per day
";
        let gateway = start(store, &upstream, limit);
        for (left_then, over) in [
            (90, 0.0),
            (87, 0.0),
            (84, 0.0),
            (81, 0.0),
            (78, 0.0),
            // 15 of 25 are spent, and 10 are to be reserved: the last that fits.
            (75, 0.0),
            (72, 1.0),
            (69, 2.0),
        ] {
            let answer = send(gateway.address, "GET", "/", &["X-User: a"], b"");
            assert_eq!((answer.status, left(&answer, "tokens")), (200, left_then));
            let counted = decided(&gateway, "tokens", "candidate_rejected");
            assert!((counted - over).abs() < 0.1, "{store}: {left_then}");
        }
    }
}
