//! Where requests go.

use std::sync::Arc;
use std::time::Duration;

/// Which requests go to which upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Its name; left out, the text of its `match`.
    pub name: Arc<str>,
    /// The upstream that answers: an index into [`Policy::upstreams`](super::Policy::upstreams).
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
