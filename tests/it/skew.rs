//! Gateways whose clocks are wrong: the store's clock judges, so none of them admits one more.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::support::{Gateway, RedisServer, Upstream, parallel};

/// A limit of ten by every algorithm, under names of their own.
const LIMITS: [(&str, &str); 6] = [
    (
        "fixed-window",
        "algorithm: fixed_window\n    allow: 10 per hour",
    ),
    (
        "sliding-log",
        "algorithm: sliding_log\n    allow: 10 per hour",
    ),
    (
        "sliding-window",
        "algorithm: sliding_window\n    allow: 10 per hour",
    ),
    (
        "token-bucket",
        "algorithm: token_bucket\n    allow: 10 per hour",
    ),
    (
        "interval",
        "algorithm: token_bucket\n    refill: interval\n    allow: 10 per hour",
    ),
    (
        "leaky-bucket",
        "algorithm: leaky_bucket\n    allow: 10 per hour",
    ),
];

/// The library that shifts the clock of a process; `tests/run` installs it.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").unwrap();
    folders
        .map(|folder| folder.unwrap().path().join("faketime/libfaketimeMT.so.1"))
        .find(|library| library.exists())
        .expect("libfaketime is not installed: run tests/run")
}

/// A gateway whose wall clock is off by so many seconds.
fn skewed(yaml: &str, seconds: i64) -> Gateway {
    let library = faketime();
    let shift = format!("{seconds:+}s");
    let gateway = Gateway::start_with(
        yaml,
        &[
            ("LD_PRELOAD", library.to_str().unwrap()),
            ("FAKETIME", &shift),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ],
    );
    let log = gateway.log();
    let stamp = log.split_whitespace().next().unwrap();
    let its = humantime::parse_rfc3339(stamp).unwrap();
    let seconds_since = |time: SystemTime| {
        let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        i64::try_from(since.as_secs()).unwrap()
    };
    let off = seconds_since(its) - seconds_since(SystemTime::now());
    assert!(
        (off - seconds).abs() < 30,
        "the clock is off by {off} s, not {seconds}"
    );
    gateway
}

#[test]
fn clocks_that_are_a_minute_off_admit_not_one_more() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let limits: String = LIMITS
        .iter()
        .map(|(name, amount)| {
            format!("  {name}:\n    when: /{name}\n    per: header X-Round\n    {amount}\n")
        })
        .collect();
    let yaml = format!(
        "access_log: off\n{}\nupstream: {}\nlimits:\n{limits}",
        redis.store(),
        upstream.url()
    );
    let gateways = [-60, 0, 60].map(|seconds| skewed(&yaml, seconds));
    let addresses = gateways.each_ref().map(|gateway| gateway.address);
    for (name, _) in LIMITS {
        for round in 0..3 {
            let path = format!("/{name}");
            let statuses = parallel(1000, &addresses, &path, &[&format!("X-Round: {round}")]);
            let of = |code| statuses.iter().filter(|status| **status == code).count();
            assert_eq!((of(200), of(429)), (10, 990), "{name}");
        }
    }
}

#[test]
fn what_one_gateway_spends_another_with_a_wrong_clock_sees() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let yaml = format!(
        "{}\nupstream: {}\nlimits:\n  ten:\n    per: ip\n    algorithm: fixed_window\n    allow: 10 per minute\n",
        redis.store(),
        upstream.url()
    );
    // A minute ahead, a clock of its own would be in the next window.
    let gateways = [-60, 60].map(|seconds| skewed(&yaml, seconds));
    let mut passed = 0;
    for turn in 0..24 {
        let answer = gateways[turn % 2].get("/");
        passed += usize::from(answer.status == 200);
        let reset = answer.field("ratelimit").unwrap();
        let seconds: u64 = reset.rsplit("t=").next().unwrap().parse().unwrap();
        assert!((1..=60).contains(&seconds), "{reset}");
    }
    assert_eq!(passed, 10);
    // The store's clock says when the key may be forgotten, too.
    let key = &redis
        .keys()
        .into_iter()
        .find(|key| key.contains(":ten:"))
        .unwrap();
    let left: u64 = redis.command(&["PTTL", key])[0].parse().unwrap();
    assert!(
        Duration::from_millis(left) <= Duration::from_secs(62),
        "{left} ms"
    );
}
