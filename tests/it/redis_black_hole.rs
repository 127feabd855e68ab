//! A network that swallows everything: no packet comes back, and none says so.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};

use crate::support::{Outage, RedisServer, Upstream};

/// Set in the process that lives in a network of its own.
const INSIDE: &str = "SLUICE_TEST_INSIDE";
/// This end, and the one where Redis is.
const NEAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);

fn sh(script: &str) {
    let status = Command::new("sh").args(["-ec", script]).status().unwrap();
    assert!(status.success(), "{script}");
}

/// Runs the test again within namespaces of its own, where it may change the network; they end with it.
fn run_inside(test: &str) {
    let inside = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(
        inside.status.success(),
        "in a network of its own (user namespaces must be allowed on this machine):\n{}{}",
        String::from_utf8_lossy(&inside.stdout),
        String::from_utf8_lossy(&inside.stderr)
    );
    let said = String::from_utf8_lossy(&inside.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
fn a_black_hole() {
    if std::env::var_os(INSIDE).is_none() {
        run_inside("redis_black_hole::a_black_hole");
        return;
    }
    sh(&format!(
        "mount -t tmpfs tmpfs /run
         ip link set lo up
         ip netns add far
         ip link add near type veth peer name off netns far
         ip addr add {NEAR}/24 dev near
         ip link set near up
         ip -n far addr add {FAR}/24 dev off
         ip -n far link set off up"
    ));
    let upstream = Upstream::echo();
    let redis = RedisServer::behind(
        &["nsenter", "--net=/run/netns/far"],
        SocketAddr::from((FAR, 6379)),
        &["--protected-mode", "no"],
    );
    let outage = Outage::before(&format!("  redis: redis://{FAR}\n"), &upstream);

    sh(&format!("ip -n far route add blackhole {NEAR}/32"));
    outage.holds(&["timeout"]);
    // Also once the connection is given up, and new ones are not answered.
    outage.holds_on(std::time::Duration::from_secs(4));
    sh(&format!("ip -n far route del blackhole {NEAR}/32"));
    outage.recovers();
    drop(redis);
}
