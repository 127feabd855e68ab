//! What passes and what does not: exactness, all or nothing, in memory and in Redis.

use crate::support::{Gateway, RedisServer, Upstream, Way, codes, parallel, ways};

fn passed(statuses: &[u16]) -> usize {
    statuses.iter().filter(|status| **status == 200).count()
}

/// Every way of limiting in both stores.
fn every(redis: &RedisServer) -> impl Iterator<Item = (String, Way)> {
    let stores = stores(redis);
    ways()
        .into_iter()
        .flat_map(move |way| stores.clone().map(|store| (store, way)))
}

/// The store lines of both stores.
fn stores(redis: &RedisServer) -> [String; 2] {
    ["store: memory".to_owned(), redis.store()]
}

// R01: a request that the narrow limit rejects does not spend the broad one, in whichever order they stand.
#[test]
fn a_rejection_spends_nothing_anywhere() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for (store, way) in every(&redis) {
        let broad = format!(
            "  broad:\n    when: /bar/**\n    per: ip\n{}",
            way.lines(10)
        );
        let narrow = format!(
            "  narrow:\n    when: /bar/special\n    per: ip\n{}",
            way.lines(3)
        );
        for limits in [format!("{broad}{narrow}"), format!("{narrow}{broad}")] {
            redis.command(&["FLUSHALL"]);
            let gateway = Gateway::start(&format!(
                "{store}\nupstream: {}\nlimits:\n{limits}",
                upstream.url()
            ));

            assert_eq!(
                codes(5, gateway.address, "/bar/special", &[]),
                [200, 200, 200, 429, 429],
                "{way} {store}"
            );
            assert_eq!(
                codes(8, gateway.address, "/bar/hello", &[]),
                [200, 200, 200, 200, 200, 200, 200, 429],
                "{way} {store}"
            );
        }
    }
}

// R03: a burst far below the rate still limits, whatever it does to the key's lifetime.
#[test]
fn a_burst_below_the_rate_limits() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for (store, way) in every(&redis) {
        let limits = [
            (way.burst(10, 3), 3),
            (way.burst(3, 1), 1),
            // What is no bucket has no burst: its amount is the most.
            (Some(way.lines(3)), 3),
        ];
        for (lines, most) in limits {
            let Some(lines) = lines else { continue };
            redis.command(&["FLUSHALL"]);
            let gateway = Gateway::start(&format!(
                "{store}\nupstream: {}\nlimits:\n  tb:\n    per: ip\n{lines}",
                upstream.url()
            ));
            assert_eq!(
                passed(&parallel(30, &[gateway.address], "/tb", &[])),
                most,
                "{way} {store}"
            );
        }
    }
}

// R04: requests that arrive together are counted one by one.
#[test]
fn simultaneous_requests_are_counted_one_by_one() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let yaml = format!(
        "{}\nupstream: {}\nlimits:\n  log:\n    per: ip\n    algorithm: sliding_log\n    allow: 5 per 10 minutes\n",
        redis.store(),
        upstream.url()
    );
    let gateways = [Gateway::start(&yaml), Gateway::start(&yaml)];

    // Pipelined on one connection.
    let pipelined = "GET /log HTTP/1.1\r\nHost: api.example.test\r\n\r\n".repeat(19)
        + "GET /log HTTP/1.1\r\nHost: api.example.test\r\nConnection: close\r\n\r\n";
    let answers = crate::support::raw(gateways[0].address, pipelined.as_bytes());
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 5);
    let log = redis
        .keys()
        .into_iter()
        .find(|key| key.contains(":log:"))
        .expect("the log's key");
    assert_eq!(
        redis.command(&["ZCARD", &log]),
        ["6"],
        "five entries and the total"
    );

    // In parallel, over two gateways.
    redis.command(&["DEL", &log]);
    assert_eq!(
        passed(&parallel(
            20,
            &[gateways[0].address, gateways[1].address],
            "/log",
            &[]
        )),
        5
    );
}

// The main promise, a hundred times over: three gateways, one Redis, a thousand requests at once, a limit of ten.
#[test]
fn a_thousand_parallel_requests_on_three_gateways_pass_exactly_ten() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let yaml = format!(
        "store:\n  redis: {}\n  deadline: 10s\nupstream: {}\nlimits:\n  ten:\n    per: header X-Round\n    allow: 10 per hour\n",
        redis.url(),
        upstream.url()
    );
    let gateways = [
        Gateway::start(&yaml),
        Gateway::start(&yaml),
        Gateway::start(&yaml),
    ];
    let addresses = gateways.each_ref().map(|gateway| gateway.address);
    for round in 0..100 {
        let statuses = parallel(1000, &addresses, "/", &[&format!("X-Round: {round}")]);
        assert_eq!(passed(&statuses), 10, "round {round}");
        assert_eq!(
            statuses.iter().filter(|status| **status == 429).count(),
            990,
            "round {round}"
        );
    }
}

#[test]
fn every_algorithm_admits_its_amount_and_no_more() {
    RedisServer::each(every_algorithm);
}

fn every_algorithm(redis: &mut RedisServer) {
    let upstream = Upstream::echo();
    for (store, way) in every(redis) {
        redis.command(&["FLUSHALL"]);
        let gateway = Gateway::start(&format!(
            "{store}\nupstream: {}\nlimits:\n  five:\n    per: ip\n{}",
            upstream.url(),
            way.lines(5)
        ));
        assert_eq!(
            passed(&parallel(40, &[gateway.address], "/", &[])),
            5,
            "{way} {store}"
        );
    }
}

#[test]
fn a_queue_delays_in_order_and_rejects_what_does_not_fit() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in stores(&redis) {
        let gateway = Gateway::start(&format!(
            "{store}\nupstream: {}\nlimits:\n  shaped:\n    per: everyone\n    algorithm: leaky_bucket\n    allow: 10 per second\n    queue: 4\n",
            upstream.url()
        ));
        let begun = std::time::Instant::now();
        let statuses = parallel(20, &[gateway.address], "/", &[]);
        assert_eq!(
            passed(&statuses),
            5,
            "one at once and four in the queue: {store}"
        );
        assert!(
            begun.elapsed().as_millis() >= 390,
            "the last of the queue waits its turn"
        );
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.value("sluice_decisions_total{decision=\"delayed\",limit=\"shaped\"}"),
            4.0
        );
        assert_eq!(
            metrics.value("sluice_delay_seconds_count{limit=\"shaped\"}"),
            4.0
        );
    }
}

#[test]
fn shadow_counts_and_never_rejects() {
    let upstream = Upstream::echo();
    for yaml in [
        "mode: shadow\nlimits:\n  two:\n    per: ip\n    allow: 2 per hour\n",
        "limits:\n  two:\n    per: ip\n    mode: shadow\n    allow: 2 per hour\n",
    ] {
        let gateway = Gateway::start(&format!("upstream: {}\n{yaml}", upstream.url()));
        assert_eq!(codes(5, gateway.address, "/", &[]), [200; 5]);
        assert!(
            gateway.get("/").field("ratelimit").is_none(),
            "a limit in shadow shows nothing"
        );
        assert_eq!(
            gateway
                .metrics()
                .value("sluice_decisions_total{decision=\"shadow_rejected\",limit=\"two\"}"),
            4.0
        );
    }
}

#[test]
fn skip_and_except_exempt_exactly() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nskip:\n  - GET /healthz\nlimits:\n  one:\n    per: ip\n    allow: 1 per hour\n    except: /free/**\n",
        upstream.url()
    ));
    assert_eq!(codes(2, gateway.address, "/counted", &[]), [200, 429]);
    assert_eq!(codes(2, gateway.address, "/healthz", &[]), [200, 200]);
    assert_eq!(codes(2, gateway.address, "/free/lunch", &[]), [200, 200]);
    assert_eq!(
        codes(3, gateway.address, "/HEALTHZ", &[]),
        [429, 429, 429],
        "exemptions compare exactly"
    );
    assert_eq!(
        gateway.get("//healthz").status,
        200,
        "the normalised path is what is compared"
    );
}

// No spelling of a path escapes its limit.
#[test]
fn no_spelling_of_a_path_escapes_its_limit() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nlimits:\n  login:\n    when: POST /api/login\n    per: ip\n    allow: 5 per hour\n",
        upstream.url()
    ));
    let post = |path: &str| crate::support::send(gateway.address, "POST", path, &[], b"x").status;
    (0..5).for_each(|_| assert_eq!(post("/api/login"), 200));
    for path in [
        "/api/login",
        "/api/login/",
        "//api/login",
        "/api//login",
        "/api/./login",
        "/api/x/../login",
        "/api/%6cogin",
        "/api%2flogin",
        "/API/Login",
        "/api/login;a=b",
        "/api/login?",
        "/api/login?x",
        "/%2e/api/login",
        "http://api.example.test/api/login",
    ] {
        assert_eq!(post(path), 429, "{path}");
    }
    for path in [
        "/api/login%00",
        "/api/login%0a",
        "/../api/login",
        "/api\\login",
        "/api/%5clogin",
        "/api/%zz",
    ] {
        assert_eq!(post(path), 400, "{path}");
    }
}
