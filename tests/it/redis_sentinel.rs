//! A master that sentinels replace is followed.

use std::time::Duration;

use crate::support::{
    Gateway, Load, RedisServer, Upstream, Watched, codes, eventually, free_address,
};

/// How soon limits apply again, times four.
const RECOVERY: Duration = Duration::from_secs(8);

fn gateway(store: &str, upstream: &Upstream) -> Gateway {
    Gateway::start(&format!(
        "access_log: off\n{store}\nupstream: {}\nlimits:\n  load:\n    when: /load\n    per: everyone\n    allow: 1000000000 per hour\n  few:\n    when: /few/*\n    per: path\n    allow: 2 per hour\n",
        upstream.url()
    ))
}

/// Waits until the gateway counts at the store again, and not in itself.
fn counts_again(gateway: &Gateway, watched: &Watched, master: usize, key: &str) {
    eventually("the store is up", RECOVERY, || {
        (gateway.metrics().value("sluice_store_up") == 1.0).then_some(())
    });
    let mut tries = 0;
    eventually("limits apply at the master", RECOVERY, || {
        // A busy machine may miss the deadline, and this process then counts: another key, another try.
        tries += 1;
        let path = format!("/few/{key}-{tries}");
        let codes = codes(3, gateway.address, &path, &[]);
        let keys = watched.servers[master].command_as("word", &["KEYS", "*:few:*"]);
        let there = keys.iter().any(|key| key.contains(&path));
        (there && codes == [200, 200, 429]).then_some(())
    });
}

#[test]
fn a_killed_master_and_a_frozen_one_are_left_under_load() {
    let (mut watched, upstream) = (Watched::start(), Upstream::echo());
    let gateway = gateway(&watched.store(), &upstream);
    counts_again(&gateway, &watched, 0, "first");

    let load = Load::on(gateway.address, "/load");
    watched.servers[0].kill();
    let second = watched.master_after(0);
    counts_again(&gateway, &watched, second, "second");
    load.end();

    // The old one comes back as a replica, and changes nothing.
    watched.servers[0].restart();
    watched.follows(0);
    counts_again(&gateway, &watched, second, "third");

    // One that hangs keeps its connections open.
    let load = Load::on(gateway.address, "/load");
    watched.servers[second].signal("STOP");
    let third = watched.master_after(second);
    counts_again(&gateway, &watched, third, "fourth");
    watched.servers[second].signal("CONT");
    load.end();
    counts_again(&gateway, &watched, third, "fifth");
}

#[test]
fn a_master_that_becomes_a_replica_is_left() {
    let (watched, upstream) = (Watched::start(), Upstream::echo());
    let gateway = gateway(&watched.store(), &upstream);
    counts_again(&gateway, &watched, 0, "first");
    let load = Load::on(gateway.address, "/load");
    watched.fail_over();
    let second = watched.master_after(0);
    counts_again(&gateway, &watched, second, "second");
    load.end();
}

#[test]
fn a_name_that_no_sentinel_knows_is_said() {
    let (watched, upstream) = (Watched::start(), Upstream::echo());
    let store = watched.store().replace("master: counts", "master: count");
    let gateway = gateway(&store, &upstream);
    eventually("the log says so", RECOVERY, || {
        let log = gateway.log();
        (log.contains("no sentinel says where the master `count` is")
            && log.contains("it knows no master of this name"))
        .then_some(())
    });
    assert_eq!(gateway.metrics().value("sluice_store_up"), 0.0);
    assert_eq!(codes(3, gateway.address, "/few/a", &[]), [200, 200, 429]);
}

// Sentinels that are late may name a server that is no master any more, or not yet.
#[test]
fn a_server_that_is_no_master_is_refused() {
    let (nobody, upstream) = (free_address(), Upstream::echo());
    let replica = RedisServer::with(&["--replicaof", "127.0.0.1", &nobody.port().to_string()]);
    let gateway = gateway(&format!("store: {}", replica.url()), &upstream);
    eventually("the store is away", RECOVERY, || {
        let metrics = gateway.metrics();
        (metrics.value("sluice_store_errors_total{kind=\"readonly\"}") > 0.0).then_some(())
    });
    assert_eq!(gateway.metrics().value("sluice_store_up"), 0.0);
    replica.command(&["REPLICAOF", "NO", "ONE"]);
    eventually("the store is up", RECOVERY, || {
        (gateway.metrics().value("sluice_store_up") == 1.0).then_some(())
    });
}
