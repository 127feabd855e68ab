//! Many gateways, one Redis Cluster: what holds on one Redis holds there, also while slots move and nodes die.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{
    ALGORITHMS, Client, Gateway, RedisCluster, Upstream, code, codes, eventually, parallel,
};

fn passed(statuses: &[u16]) -> usize {
    statuses.iter().filter(|status| **status == 200).count()
}

/// A gateway over `store` whose limits refuse where the store gives no ruling, so that a test sees it.
fn gateway(store: &str, upstream: &Upstream, limits: &str) -> Gateway {
    Gateway::start(&format!(
        "access_log: off\n{store}\n  if_down: deny\nupstream: {}\nlimits:\n{limits}",
        upstream.url()
    ))
}

#[test]
fn a_thousand_at_once_over_three_gateways_pass_exactly_ten() {
    let (cluster, upstream) = (RedisCluster::shared(), Upstream::echo());
    let limits = "  ten:\n    per: ip\n    allow: 10 per hour\n";
    let gateways = [(); 3].map(|()| gateway(&cluster.store("crowd"), &upstream, limits));
    let statuses = parallel(1000, &gateways.each_ref().map(|g| g.address), "/", &[]);
    assert_eq!(passed(&statuses), 10);
    assert_eq!(
        statuses.iter().filter(|status| **status == 429).count(),
        990
    );
    assert!(
        cluster
            .keys("crowd")
            .iter()
            .all(|(node, key)| cluster.command(*node, &["TTL", key]) != ["-1"]),
        "every key expires"
    );
}

// R22: keys of all slots, under every algorithm and several amounts, are counted one by one.
#[test]
fn every_identity_has_its_own_count_in_its_own_slot() {
    let (cluster, upstream) = (RedisCluster::shared(), Upstream::echo());
    for algorithm in ALGORITHMS {
        let limits = format!(
            "  k:\n    per: header X-Api-Key\n    algorithm: {algorithm}\n    allow: [3 per 10 minutes, 5 per hour]\n"
        );
        let gateway = gateway(
            &cluster.store(&format!("own-{algorithm}")),
            &upstream,
            &limits,
        );
        for user in 0..60 {
            let key = format!("X-Api-Key: {{user}}-{user} {}", "x".repeat(200));
            let answers = codes(4, gateway.address, "/", &[&key]);
            assert_eq!(answers, [200, 200, 200, 429], "{algorithm} {key}");
        }
        let metrics = gateway.metrics();
        let refused = metrics.value("sluice_store_errors_total{kind=\"refused\"}");
        assert_eq!(
            refused,
            0.0,
            "no call has keys of two slots: {}",
            gateway.log()
        );
        assert_eq!(metrics.value("sluice_store_up"), 1.0);
    }
    let nodes: std::collections::HashSet<_> = cluster
        .keys("own-*")
        .into_iter()
        .map(|(node, _)| node)
        .collect();
    assert_eq!(nodes.len(), 3, "the keys are on every node");
}

#[test]
fn a_rejection_by_a_wider_limit_gives_back_what_narrower_ones_spent() {
    let (cluster, upstream) = (RedisCluster::shared(), Upstream::echo());
    // Whatever the order in the file, `everyone` is asked last. No rejection by a limit that counts answers is remembered.
    let limits = "  all:\n    when: /shared\n    per: everyone\n    count: responses 200\n    allow: 5 per hour
  own:\n    per: header X-Key\n    count: responses 200\n    allow: 10 per hour
  watched:\n    per: cookie c\n    mode: shadow\n    allow: 8 per hour
  address:\n    per: ip\n    allow: 100 per hour\n";
    // With one worker, what is given back is there before the next request.
    let store = format!("workers: 1\n{}", cluster.store("back"));
    let gateway = gateway(&store, &upstream, limits);
    let fields = ["X-Key: a", "Cookie: c=1"];
    assert_eq!(codes(5, gateway.address, "/shared", &fields), [200; 5]);
    for _ in 0..20 {
        let rejected = crate::support::send(gateway.address, "GET", "/shared", &fields, b"");
        assert_eq!(rejected.status, 429);
        let shown = rejected.field("ratelimit").unwrap().to_owned();
        assert!(shown.contains("\"all\";r=0"), "{shown}");
        assert!(
            shown.contains("\"own\";r=5"),
            "as before the request: {shown}"
        );
        assert!(shown.contains("\"address\";r=95"), "{shown}");
    }
    let shadow = "sluice_decisions_total{limit=\"watched\",decision=\"shadow_rejected\"}";
    assert_eq!(
        gateway.metrics().value(shadow),
        0.0,
        "what it watched was given back too"
    );
    assert_eq!(
        codes(6, gateway.address, "/", &fields),
        [200, 200, 200, 200, 200, 429]
    );
    assert_eq!(gateway.metrics().value(shadow), 2.0);

    // What a narrow limit rejects costs the counter of all nothing.
    let other = ["X-Key: b"];
    assert_eq!(codes(10, gateway.address, "/", &other), [200; 10]);
    cluster
        .keys("back")
        .iter()
        .filter(|(_, key)| key.contains(":all:"))
        .for_each(|(node, key)| {
            cluster.command(*node, &["DEL", key]);
        });
    assert_eq!(codes(9, gateway.address, "/shared", &other), [429; 9]);
    assert_eq!(
        codes(6, gateway.address, "/shared", &["X-Key: c"]),
        [200, 200, 200, 200, 200, 429]
    );
}

#[test]
fn gateways_share_a_secret_and_find_the_cluster_by_any_node() {
    let (cluster, upstream) = (RedisCluster::shared(), Upstream::echo());
    let limits = "  k:\n    per: header X-Key\n    allow: 4 per hour\n";
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let master = cluster.masters()[2];
    let one_of_two = format!(
        "store:\n  cluster: [redis://{closed}, redis://{master}]\n  prefix: secret\n  deadline: 5s"
    );
    let one = gateway(&one_of_two, &upstream, limits);
    let other = gateway(&cluster.store("secret"), &upstream, limits);
    assert_eq!(codes(2, one.address, "/", &["X-Key: a"]), [200, 200]);
    assert_eq!(codes(3, other.address, "/", &["X-Key: a"]), [200, 200, 429]);
    assert_eq!(code(one.address, "/", &["X-Key: a"]), 429);
    let secrets = cluster.keys("secret");
    assert_eq!(
        secrets
            .iter()
            .filter(|(_, key)| key == "secret:1:secret")
            .count(),
        1
    );
}

/// What came back for each path.
type Statuses = HashMap<(String, u16), usize>;

/// Three clients on connections that are kept ask for every path by turns, until `meanwhile` has returned.
fn under_load(gateways: &[SocketAddr], paths: &[String], meanwhile: impl FnOnce()) -> Statuses {
    let done = AtomicBool::new(false);
    let client = |mine: usize| {
        let mut clients: Vec<_> = gateways.iter().map(|g| Client::connect(*g)).collect();
        let mut statuses = Statuses::new();
        for round in 0.. {
            if done.load(Ordering::Relaxed) {
                break;
            }
            for (n, path) in paths.iter().enumerate() {
                let client = &mut clients[(round + n + mine) % gateways.len()];
                let status = client.send("GET", path, &[], b"").status;
                *statuses.entry((path.clone(), status)).or_default() += 1;
            }
        }
        statuses
    };
    std::thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..3)
            .map(|mine| scope.spawn(move || client(mine)))
            .collect();
        let _done = Done(&done);
        meanwhile();
        done.store(true, Ordering::Relaxed);
        let mut all = Statuses::new();
        for client in clients {
            for (what, count) in client.join().unwrap() {
                *all.entry(what).or_default() += count;
            }
        }
        all
    })
}

/// Ends the load also when what goes on meanwhile fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until so many more requests were decided.
fn more_requests(gateways: &[Gateway], more: f64) {
    let decided = || -> f64 {
        let decided = |gateway: &Gateway| gateway.metrics().sum("sluice_decisions_total", &[]);
        gateways.iter().map(decided).sum()
    };
    let before = decided();
    eventually("requests go on", Duration::from_secs(60), || {
        (decided() > before + more).then_some(())
    });
}

/// So many of each path passed, and the others were rejected: never an error.
fn exactly(amounts: &[(&str, usize)], statuses: &Statuses) {
    for (path, amount) in amounts {
        let count = |status| {
            statuses
                .get(&((*path).to_owned(), status))
                .copied()
                .unwrap_or(0)
        };
        assert_eq!(count(200), *amount, "{path}: {statuses:?}");
        assert!(count(429) > 0, "the load went over the limit: {statuses:?}");
    }
    let expected = |status: &u16| matches!(status, 200 | 429);
    assert!(
        statuses.keys().all(|(_, status)| expected(status)),
        "{statuses:?}"
    );
}

#[test]
fn a_slot_that_moves_costs_nothing() {
    let (cluster, upstream) = (RedisCluster::shared(), Upstream::echo());
    let _moving = cluster.moving();
    // Two keys of one slot, and one of another.
    let limits = "  k:\n    per: path\n    count: responses 200\n    allow: [600 per hour, 700 per day]\n  all:\n    per: everyone\n    allow: 100000 per hour\n";
    let gateways = [(); 2].map(|()| gateway(&cluster.store("moving"), &upstream, limits));
    let addresses = gateways.each_ref().map(|g| g.address);
    let [old, new] = ["/old", "/new"].map(|path| {
        let slot = cluster.slot(&format!("{{path={path}}}"));
        let from = cluster.owner(slot);
        let to = *cluster
            .masters()
            .iter()
            .find(|node| **node != from)
            .unwrap();
        (slot, from, to)
    });
    // The keys of one are there before its slot moves, those of the other are made while it does.
    assert_eq!(codes(1, addresses[0], "/old", &[]), [200]);
    let stored = cluster.keys("moving");
    let (_, first) = stored
        .iter()
        .find(|(_, key)| key.contains("{path=/old}"))
        .unwrap();
    cluster.open_slot(new.0, new.1, new.2);

    let paths = ["/old".to_owned(), "/new".to_owned()];
    let statuses = under_load(&addresses, &paths, || {
        more_requests(&gateways, 100.0);
        cluster.open_slot(old.0, old.1, old.2);
        more_requests(&gateways, 100.0);
        cluster.move_key(first, old.1, old.2);
        more_requests(&gateways, 200.0);
        cluster.close_slot(old.0, old.1, old.2);
        more_requests(&gateways, 200.0);
        cluster.close_slot(new.0, new.1, new.2);
        more_requests(&gateways, 3000.0);
    });
    exactly(&[("/old", 599), ("/new", 600)], &statuses);
    for kind in ["moved", "ask", "tryagain"] {
        let series = format!("sluice_store_errors_total{{kind=\"{kind}\"}}");
        let met: f64 = gateways
            .iter()
            .map(|gateway| gateway.metrics().value(&series))
            .sum();
        assert!(met > 0.0, "the load met {kind}");
    }
    for gateway in &gateways {
        let dropped = gateway
            .metrics()
            .sum("sluice_settlements_dropped_total", &[]);
        assert_eq!(dropped, 0.0, "every receipt arrived");
    }
}

#[test]
fn a_reshard_costs_nothing() {
    let (cluster, upstream) = (RedisCluster::shared(), Upstream::echo());
    let _moving = cluster.moving();
    let limits =
        "  k:\n    per: path\n    count: responses 200\n    allow: [40 per hour, 50 per day]\n";
    let gateways = [(); 2].map(|()| gateway(&cluster.store("reshard"), &upstream, limits));
    let addresses = gateways.each_ref().map(|g| g.address);
    let paths: Vec<_> = (0..40).map(|n| format!("/{n}")).collect();
    let statuses = under_load(&addresses, &paths, || {
        more_requests(&gateways, 500.0);
        let masters = cluster.masters();
        let (node, from, to) = (
            masters[0].to_string(),
            cluster.id(masters[0]),
            cluster.id(masters[1]),
        );
        let [from, to] = [["--cluster-from", &from], ["--cluster-to", &to]];
        cluster.cli(
            &[
                &["reshard", &node][..],
                &from,
                &to,
                &["--cluster-slots", "1500", "--cluster-yes"],
            ]
            .concat(),
        );
        more_requests(&gateways, 6000.0);
    });
    let amounts: Vec<_> = paths.iter().map(|path| (path.as_str(), 40)).collect();
    exactly(&amounts, &statuses);
}

#[test]
fn a_killed_master_is_replaced_and_the_others_go_on() {
    let (mut cluster, upstream) = (RedisCluster::start(), Upstream::echo());
    let limits = "  shared:\n    when: /shared/*\n    per: path\n    if_down: local\n    allow: 100000 per hour
  strict:\n    when: /strict/*\n    per: path\n    allow: 10 per hour
  alone:\n    when: /alone/*\n    per: path\n    if_down: local\n    allow: 10 per hour\n";
    let store = cluster.store_within("killed", "100ms");
    let gateways = [(); 2].map(|()| gateway(&store, &upstream, limits));
    let addresses = gateways.each_ref().map(|g| g.address);
    let victim = cluster.masters()[0];
    let owner = |path: &str| cluster.owner(cluster.slot(&format!("{{path={path}}}")));
    let strict = (0..).map(|n| format!("/strict/{n}"));
    let (on_victim, elsewhere): (Vec<_>, Vec<_>) =
        strict.take(20).partition(|path| owner(path) == victim);
    let mut alone = (0..100).map(|n| format!("/alone/{n}"));
    let alone = alone.find(|path| owner(path) == victim).unwrap();
    let paths: Vec<_> = (0..20).map(|n| format!("/shared/{n}")).collect();
    eventually("both are connected", Duration::from_secs(20), || {
        let up = |gateway: &Gateway| gateway.metrics().value("sluice_store_up") == 1.0;
        gateways.iter().all(up).then_some(())
    });

    let statuses = under_load(&addresses, &paths, || {
        more_requests(&gateways, 500.0);
        cluster.kill(victim);
        eventually("the node is missed", Duration::from_secs(8), || {
            let down = |gateway: &Gateway| gateway.metrics().value("sluice_store_up") == 0.0;
            gateways.iter().all(down).then_some(())
        });
        for path in &elsewhere {
            let status = code(addresses[0], path, &[]);
            assert!(
                matches!(status, 200 | 429),
                "other nodes go on: {path} {status}"
            );
        }
        let granted = codes(3, addresses[0], &alone, &[]);
        assert_eq!(granted, [200; 3], "within its share");
        more_requests(&gateways, 500.0);
        eventually(
            "the cluster replaces the node",
            RedisCluster::failover() * 4,
            || (cluster.masters().len() == 3).then_some(()),
        );
        // Limits are promised to apply again within 2 s.
        eventually("limits apply again", Duration::from_secs(8), || {
            let up = |gateway: &Gateway| gateway.metrics().value("sluice_store_up") == 1.0;
            gateways.iter().all(up).then_some(())
        });
    });
    assert!(
        statuses.keys().all(|(_, status)| *status == 200),
        "{statuses:?}"
    );
    // What the gateway granted meanwhile it tells the new node with its next question.
    let mut statuses = vec![code(addresses[0], &alone, &[])];
    statuses.extend(parallel(30, &addresses, &alone, &[]));
    assert_eq!(passed(&statuses), 10 - 3, "{alone} {statuses:?}");
    for path in &on_victim {
        let statuses = parallel(30, &addresses, path, &[]);
        assert_eq!(passed(&statuses), 10, "{path} {statuses:?}");
        assert!(
            statuses.iter().all(|status| matches!(status, 200 | 429)),
            "{path} {statuses:?}"
        );
    }
    assert!(!on_victim.is_empty());
}
