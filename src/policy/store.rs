//! Where the state of the limits lives.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Secret;

/// Where the state of the limits lives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StoreSpec {
    /// In this process.
    Memory {
        /// How many keys at most.
        max_keys: usize,
    },
    /// In Redis.
    Redis(RedisSpec),
}

/// One Redis, wherever it is at the moment, or a cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RedisSpec {
    /// How it is reached.
    pub address: RedisAddress,
    /// TLS to every server; none: plain.
    pub tls: Option<TlsSpec>,
    /// ACL user.
    pub username: Option<String>,
    /// Password; never shown.
    pub password: Option<Secret>,
    /// Number of the database.
    pub database: i64,
    /// The first part of every key; default `sluice`.
    pub prefix: Arc<str>,
    /// How long a request waits for the store; default 25 ms.
    pub deadline: Duration,
    /// Bound on keys counted in this process while the store is away.
    pub local_max_keys: usize,
    /// How many gateways share the amounts while the store is away; none: as many as were last seen in the store.
    pub instances: Option<NonZeroU32>,
}

/// How a Redis is reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RedisAddress {
    /// `redis://HOST:PORT` or `rediss://HOST:PORT`
    Tcp {
        /// A name or an address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// `unix:///path`
    Unix(PathBuf),
    /// `cluster: [redis://HOST:PORT, ..]`: nodes that say where the others are; at least one.
    Cluster(Vec<NodeAddress>),
    /// `sentinel: {master, nodes}`: servers that know where it is.
    Sentinel(SentinelSpec),
}

/// Sentinels, and which of the masters that they watch is meant.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SentinelSpec {
    /// The name of the master.
    pub master: Arc<str>,
    /// At least one.
    pub nodes: Vec<SentinelNode>,
}

/// One sentinel, and how to log in there; its users are not those of the master.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SentinelNode {
    /// A name or an address; an IPv6 address without brackets.
    pub host: String,
    /// Its port; default 26379.
    pub port: u16,
    /// ACL user.
    pub username: Option<String>,
    /// Password; never shown.
    pub password: Option<Secret>,
}

/// What is trusted, and shown, where a connection has TLS. The files are read for each connection.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TlsSpec {
    /// A PEM file of authorities, in the place of those that browsers trust.
    pub ca: Option<PathBuf>,
    /// What this client shows of itself.
    pub identity: Option<TlsIdentity>,
}

/// A certificate with its key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct TlsIdentity {
    /// A PEM file of the certificate and those between it and its authority.
    pub cert: PathBuf,
    /// A PEM file of its private key.
    pub key: PathBuf,
}

/// Where one node of a cluster is.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct NodeAddress {
    /// A name or an address; an IPv6 address without brackets.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

impl std::fmt::Display for NodeAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
