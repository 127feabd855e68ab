//! While Redis is away, gateways divide what they counted together, and hand it back when it returns.

use std::time::Duration;

use crate::support::{Gateway, RedisServer, Upstream, codes, eventually, free_address, ways};

/// Four times what it may take until every gateway has counted the others.
const COUNTED: Duration = Duration::from_secs(4 * 6);
/// Four times the promise of how soon limits apply again.
const RECOVERY: Duration = Duration::from_secs(4 * 2);

fn file(store: &str, upstream: &Upstream, fields: &str) -> String {
    format!(
        "store:\n{store}upstream: {}\nlimits:\n  shared:\n    per: ip\n{fields}",
        upstream.url()
    )
}

fn admitted(gateway: &Gateway, requests: usize) -> usize {
    let statuses = codes(requests, gateway.address, "/", &[]);
    statuses.iter().filter(|status| **status == 200).count()
}

#[test]
fn a_gateway_on_its_own_lets_its_share_pass() {
    let upstream = Upstream::echo();
    let nobody = format!("  redis: redis://{}\n  instances: 4\n", free_address());
    for way in ways() {
        let gateway = Gateway::start(&file(&nobody, &upstream, &way.lines(10)));
        assert_eq!(
            admitted(&gateway, 6),
            3,
            "a quarter of ten, rounded up: {way}"
        );
        let Some(lines) = way.burst(100, 5) else {
            continue;
        };
        let gateway = Gateway::start(&file(&nobody, &upstream, &lines));
        assert_eq!(admitted(&gateway, 6), 2, "a quarter of five at once: {way}");
    }
}

#[test]
fn gateways_count_each_other_where_nobody_says_how_many_there_are() {
    let (mut redis, upstream) = (RedisServer::start(), Upstream::echo());
    let store = format!("  redis: {}\n", redis.url());
    let text = file(&store, &upstream, "    allow: 10 per day\n");
    let gateways = [(); 3].map(|()| Gateway::start(&text));
    eventually("each knows of the others", COUNTED, || {
        let all = |gateway: &Gateway| gateway.log().contains("instances=3");
        gateways.iter().all(all).then_some(())
    });
    redis.kill();
    for gateway in &gateways {
        assert_eq!(admitted(gateway, 6), 4, "a third of ten, rounded up");
    }
    redis.restart();
    for gateway in &gateways {
        eventually("the store decides again", RECOVERY, || {
            let fallback = gateway.metrics().value("sluice_store_fallback");
            let _ = gateway.get("/");
            (fallback == 0.0).then_some(())
        });
    }
    let late: usize = gateways.iter().map(|gateway| admitted(gateway, 3)).sum();
    assert_eq!(late, 0, "twelve were let in while it was away");
}

#[test]
fn what_was_granted_meanwhile_counts_when_redis_is_back() {
    let upstream = Upstream::echo();
    for way in ways() {
        let mut redis = RedisServer::start();
        let store = format!("  redis: {}\n  instances: 1\n", redis.url());
        let gateway = Gateway::start(&file(&store, &upstream, &way.lines(10)));
        assert_eq!(admitted(&gateway, 2), 2, "{way}");
        redis.kill();
        assert_eq!(admitted(&gateway, 4), 4, "{way}");
        // It comes back knowing nothing: of the first two nobody tells it.
        redis.restart();
        let mut more = 0;
        eventually("ten since it went away", RECOVERY, || {
            let answer = gateway.get("/");
            more += usize::from(answer.status == 200);
            (answer.status == 429).then_some(())
        });
        let fallback = gateway.metrics().value("sluice_store_fallback");
        assert_eq!((more, fallback), (6, 0.0), "{way}");
    }
}
