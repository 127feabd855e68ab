//! Where the state of the limits lives.

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
    /// In one Redis.
    Redis(RedisSpec),
}

/// One Redis.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RedisSpec {
    /// How it is reached.
    pub address: RedisAddress,
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
}

/// How a Redis is reached.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum RedisAddress {
    /// `redis://HOST:PORT`
    Tcp {
        /// A name or an address.
        host: String,
        /// Its port.
        port: u16,
    },
    /// `unix:///path`
    Unix(PathBuf),
}
