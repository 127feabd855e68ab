//! Quotas of a calendar: what a client is told is when the window really ends.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Gateway, RedisServer, Upstream};

const HOUR: u64 = 3600;

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// A zone whose hour ends in half an hour at the earliest, and how far its clocks are off the full hour of UTC.
fn zone() -> (&'static str, u64) {
    if now() % HOUR < HOUR / 2 {
        ("UTC", 0)
    } else {
        ("Asia/Kolkata", HOUR / 2)
    }
}

#[test]
fn a_rejected_client_is_told_the_end_of_the_window() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let (zone, off) = zone();
    for store in ["store: memory".to_owned(), redis.store()] {
        let gateway = Gateway::start(&format!(
            "{store}\nupstream: {}\nlimits:\n  hourly: {{per: ip, allow: 2 per calendar hour in {zone}}}\n",
            upstream.url()
        ));
        let first = gateway.get("/");
        assert_eq!((first.status, gateway.get("/").status), (200, 200));
        assert_eq!(
            first.field("ratelimit-policy"),
            Some("\"hourly\";q=2;w=3600")
        );
        let before = now();
        let rejected = gateway.get("/");
        let after = now();
        assert_eq!(rejected.status, 429);
        let retry: u64 = rejected.field("retry-after").unwrap().parse().unwrap();
        let left = |now: u64| HOUR - (now + off) % HOUR;
        assert!((left(after)..=left(before)).contains(&retry), "{retry}");
        let told = format!("\"hourly\";r=0;t={retry}");
        assert_eq!(rejected.field("ratelimit"), Some(told.as_str()));
    }
}

#[test]
fn a_raised_amount_keeps_what_was_used_and_another_zone_starts_afresh() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let (zone, _) = zone();
    let yaml = |allow: &str| {
        format!(
            "{}\nupstream: {}\nlimits:\n  hourly: {{per: ip, allow: {allow}}}\n",
            redis.store(),
            upstream.url()
        )
    };
    let gateway = Gateway::start(&yaml(&format!("2 per calendar hour in {zone}")));
    assert_eq!([(); 3].map(|()| gateway.get("/").status), [200, 200, 429]);
    gateway.reload(&yaml(&format!("3 per calendar hour in {zone}")), "ok");
    assert_eq!([(); 2].map(|()| gateway.get("/").status), [200, 429]);
    gateway.reload(&yaml("3 per calendar hour in Europe/Paris"), "ok");
    assert_eq!(gateway.get("/").status, 200);
    let code = match zone {
        "UTC" => "cal-hour".to_owned(),
        zone => format!("cal-hour-{zone}"),
    };
    let keys = redis.keys();
    for code in [code.as_str(), "cal-hour-Europe/Paris"] {
        let key = format!("sluice:1:{{ip=127.0.0.1}}:hourly:{code}:");
        assert!(keys.contains(&key), "{keys:?}");
    }
}
