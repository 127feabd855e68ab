//! What the configuration means: plain data, compiled once, never changed. A reload makes a new one.
//!
//! No field here is text that still needs reading, a name that still needs resolving, or an option that means "use the
//! default". A request meets it through [`Policy::route_index`], [`Policy::skip`] and [`Policy::limit_index`].

mod answers;

pub use answers::{Answers, Count};

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::identify::ClientRules;
use crate::limit::{Cost, KeySpec, Meter};
use crate::route::{Index, PathRules};

/// A `gateway.yaml`, compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Where clients connect.
    pub listen: Vec<SocketAddr>,
    /// Where operators connect.
    pub admin: SocketAddr,
    /// How many threads serve.
    pub workers: NonZeroUsize,
    /// Where the state of the limits lives.
    pub store: StoreSpec,
    /// Keys the hash of credentials; none: a random one, shared through the store.
    pub secret: Option<Secret>,
    /// How the client's address is found.
    pub clients: ClientRules,
    /// Every upstream, in the order of the file.
    pub upstreams: Vec<Arc<UpstreamSpec>>,
    /// Every route, in the order of the file.
    pub routes: Vec<Route>,
    /// Which requests take which route: entries are indexes into `routes`; compares exactly.
    pub route_index: Index,
    /// Requests that are never limited; compares exactly.
    pub skip: Index,
    /// Every limit, in the order of the file.
    pub limits: Vec<Limit>,
    /// Which requests meet which limit: entries are indexes into `limits`; compares widely.
    pub limit_index: Index,
    /// The switch over every limit.
    pub mode: Mode,
    /// How paths are normalised.
    pub paths: PathRules,
    /// In which fields clients are told about their limits.
    pub headers: HeaderFields,
    /// How the gateway stops.
    pub drain: Drain,
    /// What is written of each request; none: nothing.
    pub access_log: Option<AccessLog>,
}

/// The switch over every limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Mode {
    /// It rejects.
    #[default]
    Enforce,
    /// It counts and reports, and never rejects.
    Shadow,
}

/// What becomes of a request that is over a limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LimitMode {
    /// It is rejected.
    #[default]
    Enforce,
    /// It passes; it is only counted and reported.
    Shadow,
    /// It passes, and the upstream is told the limit's name.
    Tag,
}

/// In which fields clients are told about their limits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HeaderFields {
    /// `RateLimit-Policy` and `RateLimit`.
    pub ratelimit: RateLimitDialect,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub legacy: LegacyReset,
    /// The most by which a rejected client is told to wait longer than it must; default 0.
    pub retry_jitter: Duration,
}

/// How `RateLimit-Policy` and `RateLimit` are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RateLimitDialect {
    /// As draft-ietf-httpapi-ratelimit-headers-11 says.
    #[default]
    Draft11,
    /// Not at all.
    Off,
}

/// What `X-RateLimit-Reset` says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LegacyReset {
    /// None of the three fields is sent.
    #[default]
    Off,
    /// Seconds from now.
    Delta,
    /// Seconds since the Unix epoch.
    Epoch,
}

/// A named rule: which requests, per which key, how much.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Unique, `[a-z0-9][a-z0-9_-]{0,31}`.
    pub name: Arc<str>,
    /// Requests that it does not count, from its `except` and `skip`; compares exactly.
    pub except: Index,
    /// Whose counter is charged.
    pub per: KeySpec,
    /// `per` in words, for people: "client address", "header X-User-Id".
    pub per_words: Arc<str>,
    /// What is allowed; all of them hold. Empty: `unlimited`.
    pub amounts: Vec<Amount>,
    /// What a request costs.
    pub cost: Cost,
    /// Which requests it counts in the end.
    pub count: Count,
    /// Whether it rejects.
    pub mode: LimitMode,
    /// What CORS preflights are to it.
    pub preflight: Preflight,
    /// What it does while the store is away.
    pub if_down: IfDown,
}

/// One amount of a limit, with the counter that holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// The algorithm with its amounts.
    pub meter: Meter,
    /// The same for one gateway on its own, while the store is away.
    pub local: Meter,
    /// CODE of the key: algorithm and window, as `sw60s`.
    pub code: Arc<str>,
    /// The name that clients see: the limit's, with the window where a limit has several (`per-user-1s`).
    pub shown_as: Arc<str>,
    /// The quota of a window: `q` of `RateLimit-Policy`.
    pub quota: u64,
    /// The window: `w` of `RateLimit-Policy`, in whole seconds, at least 1.
    pub window: Duration,
    /// The most that may pass at once, where that is not the quota.
    pub burst: Option<u64>,
    /// In words, as in "at most 100 per minute".
    pub words: Arc<str>,
}

/// What CORS preflights are to a limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Preflight {
    /// Requests as any other.
    #[default]
    Count,
    /// It does not apply to them: browsers send them without the fields that say who asks.
    Free,
}

/// What a limit does when the store cannot answer in time.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IfDown {
    /// It lets pass.
    Allow,
    /// It answers 503.
    Deny,
    /// It counts in this process.
    #[default]
    Local,
}

/// Which requests go to which upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its name; left out, the text of its `match`.
    pub name: Arc<str>,
    /// The upstream that answers: an index into [`Policy::upstreams`].
    pub upstream: usize,
    /// The upstream's timeouts, with what the route says in their place.
    pub timeouts: UpstreamTimeouts,
}

/// One or more servers that answer alike.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct UpstreamSpec {
    /// Unique among upstreams.
    pub name: Arc<str>,
    /// At least one.
    pub servers: Vec<ServerSpec>,
    /// What `Host` the servers see.
    pub host: HostRule,
    /// How long each step may take.
    pub timeouts: UpstreamTimeouts,
}

/// One server of an upstream.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ServerSpec {
    /// A name or an address; an IPv6 address without brackets.
    pub host: Arc<str>,
    /// Its port.
    pub port: u16,
}

/// What `Host` an upstream sees.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub enum HostRule {
    /// The client's.
    #[default]
    Keep,
    /// The server's own name and port.
    Upstream,
    /// This one.
    Fixed(Arc<str>),
}

/// How long an upstream may take; every wait has one.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct UpstreamTimeouts {
    /// To connect; default 2 s.
    pub connect: Duration,
    /// From the request to the head of its answer; default 60 s.
    pub response: Duration,
    /// Between two pieces of a body, either way, and for an idle connection; default 60 s.
    pub idle: Duration,
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            response: Duration::from_secs(60),
            idle: Duration::from_secs(60),
        }
    }
}

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

/// How the gateway stops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Drain {
    /// How long it keeps serving after the stop signal, so that load balancers notice; default 0.
    pub wait: Duration,
    /// How long it then takes at most to finish what is under way; default 30 s.
    pub grace: Duration,
}

/// What is written of each request.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// The share of allowed requests that are written, in thousandths; rejected ones always are.
    pub sample_allowed: u32,
    /// Query parameters whose values are masked.
    pub mask_query: Vec<String>,
}

/// A value that never appears in a log, a page or an error.
#[derive(Clone, Eq, Hash, PartialEq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Keeps `text`.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}
