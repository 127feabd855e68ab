//! What the tests stand on: a real gateway process, a real `redis-server`, a scripted upstream, a client that sends bytes.

mod authority;
mod client;
mod cluster;
mod gate;
mod gateway;
mod load;
mod outage;
mod redis;
mod sentinel;
mod upstream;
mod ways;

pub(crate) use authority::Authority;
pub(crate) use client::{Client, Response, code, codes, get, parallel, raw, send};
pub(crate) use cluster::RedisCluster;
pub(crate) use gate::{Gate, held};
pub(crate) use gateway::{Gateway, signal};
pub(crate) use load::Load;
pub(crate) use outage::Outage;
pub(crate) use redis::{RedisServer, free_address};
pub(crate) use sentinel::Watched;
pub(crate) use upstream::Upstream;
pub(crate) use ways::{ALGORITHMS, Way, ways};

use std::time::{Duration, Instant};

/// A folder in memory where the machine has one: sentinels and the nodes of a cluster wait for the disk whenever they learn
/// something, and a busy disk keeps them from replacing anybody.
fn folder_in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Asks until `ask` answers, at most `within`; panics with `what` when it never does.
pub(crate) fn eventually<T>(what: &str, within: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        // The wait between two questions to another process, not a wait for time to pass.
        std::thread::park_timeout(Duration::from_millis(10));
    }
}
