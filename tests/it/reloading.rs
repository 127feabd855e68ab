//! Reload: atomic, without a lost request, and without a fresh quota.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Client, Gateway, RedisServer, Upstream, codes, eventually, ways};

// R45: no reload hands out a fresh quota unless the limit itself became another.
#[test]
fn counts_survive_every_reload() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in ["store: memory".to_owned(), redis.store()] {
        for way in ways() {
            let limit =
                |amount: u64| format!("  z:\n    when: /z\n    per: ip\n{}", way.lines(amount));
            let other = |allow: &str| {
                format!("  other:\n    when: /other\n    per: ip\n    allow: {allow}\n")
            };
            let head = format!("{store}\nupstream: {}\n", upstream.url());
            let base = format!("{head}limits:\n{}{}", limit(5), other("5 per minute"));
            redis.command(&["FLUSHALL"]);
            let gateway = Gateway::start(&base);
            assert_eq!(
                codes(6, gateway.address, "/z", &[]),
                [200, 200, 200, 200, 200, 429]
            );

            for changed in [
                base.clone(),
                format!("{head}limits:\n{}{}", other("5 per minute"), limit(5)),
                format!("{head}limits:\n{}{}", limit(5), other("7 per minute")),
                format!("# a comment\n{base}"),
            ] {
                gateway.reload(&changed, "ok");
                let answer = gateway.get("/z");
                assert_eq!(answer.status, 429, "{way} {store}:\n{changed}");
                assert!(answer.field("ratelimit").unwrap().contains("r=0;"));
            }
            gateway.reload(&format!("{head}limits:\n{}", limit(8)), "ok");
            assert_eq!(
                codes(4, gateway.address, "/z", &[]),
                [200, 200, 200, 429],
                "raised by three: {way} {store}"
            );
            gateway.reload(&format!("{head}limits:\n{}", limit(2)), "ok");
            assert_eq!(gateway.get("/z").status, 429, "{way} {store}");
        }
    }
}

#[test]
fn fifty_reloads_in_a_row_reset_nothing() {
    let upstream = Upstream::echo();
    let yaml = format!(
        "upstream: {}\nlimits:\n  z:\n    per: ip\n    allow: 5 per 300 seconds\n",
        upstream.url()
    );
    let gateway = Gateway::start(&yaml);
    codes(6, gateway.address, "/", &[]);
    for _ in 0..50 {
        gateway.reload(&yaml, "ok");
    }
    assert_eq!(gateway.get("/").status, 429);
    let metrics = gateway.metrics();
    assert_eq!(
        metrics.value("sluice_config_reloads_total{result=\"ok\"}"),
        50.0
    );
    assert_eq!(
        metrics.sum("sluice_requests_total", &["code=\"200\""]),
        5.0,
        "counters do not start over"
    );
}

// R47: no request fails during the swap.
#[test]
fn no_request_fails_during_the_swap() {
    let upstream = Upstream::echo();
    let routes: String = (0..300)
        .map(|i| format!("  - match: /r{i}/**\n    to: api\n"))
        .collect();
    let version = |extra: &str| {
        format!(
            "access_log: off\nupstreams:\n  api: {}\nroutes:\n{routes}{extra}",
            upstream.url()
        )
    };
    let (one, two) = (version(""), version("  - match: /extra\n    to: api\n"));
    let gateway = Gateway::start(&one);

    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (0..4)
        .map(|i| {
            let (stop, address) = (Arc::clone(&stop), gateway.address);
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut served = 0;
                while !stop.load(Ordering::Relaxed) {
                    if served % 50 == 49 && i % 2 == 0 {
                        client = Client::connect(address);
                    }
                    assert_eq!(
                        client
                            .send("GET", &format!("/r{}/x", served % 300), &[], b"")
                            .status,
                        200
                    );
                    served += 1;
                }
                served
            })
        })
        .collect();
    for turn in 0..20 {
        gateway.reload(if turn % 2 == 0 { &two } else { &one }, "ok");
    }
    stop.store(true, Ordering::Relaxed);
    let served: usize = clients
        .into_iter()
        .map(|client| client.join().expect("no request failed"))
        .sum();
    assert!(served > 100, "{served} requests were served meanwhile");
}

#[test]
fn a_bad_file_keeps_the_old_policy_and_says_so() {
    let upstream = Upstream::echo();
    let good = format!(
        "upstream: {}\nlimits:\n  z:\n    per: ip\n    allow: 2 per hour\n",
        upstream.url()
    );
    let gateway = Gateway::start(&good);
    codes(1, gateway.address, "/", &[]);
    for bad in [
        "limits: [",
        "upstrem: http://127.0.0.1:1\n",
        &good.replace("2 per hour", "0 per hour"),
    ] {
        gateway.reload(bad, "invalid");
    }
    assert!(
        gateway.log().contains("the policy in force stays"),
        "{}",
        gateway.log()
    );
    gateway.reload(&format!("workers: 7\n{good}"), "restart_required");
    assert_eq!(codes(2, gateway.address, "/", &[]), [200, 429]);
}

#[test]
fn a_changed_file_is_noticed_without_a_signal_and_through_links() {
    let upstream = Upstream::echo();
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for (version, amount) in [("v1", 2), ("v2", 4)] {
        std::fs::create_dir(path(version)).unwrap();
        std::fs::write(
            path(version).join("gateway.yaml"),
            format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: {}\nlimits:\n  z:\n    per: header X-Key\n    allow: {amount} per hour\n", upstream.url()),
        )
        .unwrap();
    }
    std::os::unix::fs::symlink("v1", path("..data")).unwrap();
    std::os::unix::fs::symlink("..data/gateway.yaml", path("gateway.yaml")).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["run", "-c"]).arg(path("gateway.yaml"));
    let (swap, link) = (path("..new"), path("..data"));
    let gateway = Gateway::spawn(command, dir);
    for (turn, (version, amount)) in [("v2", 4), ("v1", 2), ("v2", 4)].into_iter().enumerate() {
        std::os::unix::fs::symlink(version, &swap).unwrap();
        std::fs::rename(&swap, &link).unwrap();
        let reloads = (turn + 1) as f64;
        eventually("the swap is noticed", Duration::from_secs(20), || {
            (gateway
                .metrics()
                .value("sluice_config_reloads_total{result=\"ok\"}")
                >= reloads)
                .then_some(())
        });
        let statuses = codes(5, gateway.address, "/", &[&format!("X-Key: {turn}")]);
        assert_eq!(
            statuses.iter().filter(|status| **status == 200).count(),
            amount,
            "{version}"
        );
    }
}
