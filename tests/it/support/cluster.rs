//! A Redis Cluster of the tests' own: three masters and three replicas on free ports, shared by the tests that run
//! together, ended with the last of them.

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::redis::command_to as command;
use super::{eventually, folder_in_memory};

/// After so long without a sign of life the cluster takes a node for failed.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);

/// Six nodes.
#[derive(Debug)]
pub(crate) struct RedisCluster {
    nodes: Vec<Node>,
    /// Held by who moves slots.
    moving: Mutex<()>,
    _dir: tempfile::TempDir,
}

#[derive(Debug)]
struct Node {
    child: Child,
    address: SocketAddr,
}

impl RedisCluster {
    /// The cluster that tests share. What it counts is told apart by `prefix`.
    pub(crate) fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<RedisCluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Self::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    pub(crate) fn start() -> Self {
        // Two ports a node, all held until all are known. They are free now and taken a moment later.
        let held: Vec<_> = (0..12)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<_> = held.iter().map(|l| l.local_addr().unwrap()).collect();
        drop(held);
        let dir = folder_in_memory();
        let nodes = ports
            .chunks_exact(2)
            .map(|pair| Node {
                child: spawn(dir.path(), pair[0], pair[1]),
                address: pair[0],
            })
            .collect();
        let cluster = Self {
            nodes,
            moving: Mutex::default(),
            _dir: dir,
        };
        for node in &cluster.nodes {
            eventually("a node answers", Duration::from_secs(20), || {
                (command(node.address, &["PING"]).ok()? == ["PONG"]).then_some(())
            });
        }
        let addresses: Vec<_> = cluster
            .nodes
            .iter()
            .map(|node| node.address.to_string())
            .collect();
        let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
        cluster.cli(
            &[
                &["create"],
                &addresses[..],
                &["--cluster-replicas", "1", "--cluster-yes"],
            ]
            .concat(),
        );
        cluster.wait();
        cluster
    }

    /// Waits until every slot is served and every replica has what its master has.
    pub(crate) fn wait(&self) {
        eventually("the cluster is whole", Duration::from_secs(60), || {
            let whole = self.nodes.iter().all(|node| {
                let ask =
                    |words: &[&str]| command(node.address, words).unwrap_or_default().concat();
                let replication = ask(&["INFO", "replication"]);
                ask(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
                    && (replication.contains("role:master")
                        || replication.contains("master_link_status:up"))
            });
            (whole && self.masters().len() == 3).then_some(())
        });
    }

    /// `redis-cli --cluster`, which is done when it returns.
    pub(crate) fn cli(&self, words: &[&str]) {
        let output = Command::new("redis-cli")
            .arg("--cluster")
            .args(words)
            .stdin(Stdio::null())
            .output()
            .expect("redis-cli is installed with redis-server");
        assert!(
            output.status.success(),
            "redis-cli --cluster {words:?}:\n{}",
            String::from_utf8_lossy(&output.stdout)
        );
    }

    /// Held while slots are moved: one move must not meet another.
    pub(crate) fn moving(&self) -> MutexGuard<'_, ()> {
        self.moving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The `store` of a gateway that is to count here and nowhere else.
    pub(crate) fn store(&self, prefix: &str) -> String {
        self.store_within(prefix, "5s")
    }

    pub(crate) fn store_within(&self, prefix: &str, deadline: &str) -> String {
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .map(|node| format!("redis://{}", node.address))
            .collect();
        format!(
            "store:\n  cluster: [{}]\n  prefix: {prefix}\n  deadline: {deadline}",
            nodes.join(", ")
        )
    }

    /// The nodes that have slots, as one of them sees it.
    pub(crate) fn masters(&self) -> Vec<SocketAddr> {
        let masters = self.nodes.iter().map(|node| node.address);
        masters
            .filter(|address| {
                let role = command(*address, &["ROLE"]).unwrap_or_default();
                role.first().is_some_and(|role| role == "master") && !slots(*address).is_empty()
            })
            .collect()
    }

    /// One command to one node.
    pub(crate) fn command(&self, node: SocketAddr, words: &[&str]) -> Vec<String> {
        command(node, words).unwrap()
    }

    /// The name of a node.
    pub(crate) fn id(&self, node: SocketAddr) -> String {
        self.command(node, &["CLUSTER", "MYID"]).concat()
    }

    /// The master that serves `slot`.
    pub(crate) fn owner(&self, slot: u16) -> SocketAddr {
        let masters = self.masters();
        let owner = masters
            .iter()
            .find(|node| slots(**node).iter().any(|r| r.contains(&slot)));
        *owner.expect("every slot is served")
    }

    /// The keys that begin with `prefix`, and their nodes.
    pub(crate) fn keys(&self, prefix: &str) -> Vec<(SocketAddr, String)> {
        let pattern = format!("{prefix}:*");
        let keys = |node| {
            self.command(node, &["KEYS", &pattern])
                .into_iter()
                .map(move |key| (node, key))
        };
        self.masters().into_iter().flat_map(keys).collect()
    }

    /// The slot of a key.
    pub(crate) fn slot(&self, key: &str) -> u16 {
        let node = self.masters()[0];
        self.command(node, &["CLUSTER", "KEYSLOT", key])[0]
            .parse()
            .unwrap()
    }

    /// Opens `slot` for moving from `from` to `to`: keys that are not at `from` are made at `to`.
    pub(crate) fn open_slot(&self, slot: u16, from: SocketAddr, to: SocketAddr) {
        let (slot, [source, target]) = (slot.to_string(), [from, to].map(|node| self.id(node)));
        self.command(to, &["CLUSTER", "SETSLOT", &slot, "IMPORTING", &source]);
        self.command(from, &["CLUSTER", "SETSLOT", &slot, "MIGRATING", &target]);
    }

    /// Moves one key of an open slot.
    pub(crate) fn move_key(&self, key: &str, from: SocketAddr, to: SocketAddr) {
        let port = to.port().to_string();
        self.command(from, &["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    }

    /// Moves what is left in an open slot, and gives it to `to`.
    pub(crate) fn close_slot(&self, slot: u16, from: SocketAddr, to: SocketAddr) {
        let (slot, target) = (slot.to_string(), self.id(to));
        loop {
            let keys = self.command(from, &["CLUSTER", "GETKEYSINSLOT", &slot, "100"]);
            if keys.is_empty() {
                break;
            }
            keys.iter().for_each(|key| self.move_key(key, from, to));
        }
        self.command(to, &["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
        self.command(from, &["CLUSTER", "SETSLOT", &slot, "NODE", &target]);
    }

    /// Kills a node as a power cut would.
    pub(crate) fn kill(&mut self, address: SocketAddr) {
        let node = self
            .nodes
            .iter_mut()
            .find(|node| node.address == address)
            .unwrap();
        node.child.kill().unwrap();
        node.child.wait().unwrap();
    }

    /// After so long the cluster should have put another node in the place of a killed one.
    pub(crate) fn failover() -> Duration {
        NODE_TIMEOUT * 2
    }
}

/// The ranges of slots that a node says it serves itself.
fn slots(node: SocketAddr) -> Vec<std::ops::RangeInclusive<u16>> {
    let nodes = command(node, &["CLUSTER", "NODES"])
        .unwrap_or_default()
        .concat();
    let myself = nodes
        .lines()
        .find(|line| line.contains("myself"))
        .unwrap_or_default();
    let ranges = myself
        .split_whitespace()
        .skip(8)
        .filter(|word| !word.starts_with('['));
    ranges
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse().unwrap()..=last.parse().unwrap()
        })
        .collect()
}

fn spawn(dir: &std::path::Path, address: SocketAddr, bus: SocketAddr) -> Child {
    let port = address.port().to_string();
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
        .args(["--loglevel", "warning", "--repl-diskless-sync-delay", "0"])
        .args([
            "--cluster-enabled",
            "yes",
            "--cluster-require-full-coverage",
            "no",
        ])
        .args(["--cluster-replica-validity-factor", "0"])
        .args([
            "--cluster-node-timeout",
            &NODE_TIMEOUT.as_millis().to_string(),
        ])
        .args(["--cluster-port", &bus.port().to_string()])
        .args(["--cluster-config-file", &format!("{port}.conf")])
        .args(["--dir", dir.to_str().unwrap(), "--port", &port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed (tests/run does that)")
}

impl Drop for RedisCluster {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}
