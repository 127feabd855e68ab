//! What the configuration means: plain data, compiled once, never changed. A reload makes a new one.
//!
//! No field here is text that still needs reading, a name that still needs resolving, or an option that means "use the
//! default". A request meets it through [`Policy::route_index`], [`Policy::skip`] and [`Policy::limit_index`].

mod answers;
mod choice;
mod cors;
mod cost;
mod fields;
mod limit;
mod overrides;
mod reply;
mod store;
mod then;
mod upstream;

pub use answers::{Answers, Count};
pub use choice::{Allowance, Choice, Grant, Plans};
pub use cors::{Cors, Credentials, Origins};
pub use cost::{AnswerCost, CostPlace, CostRule, MatchedCost, RequestCost, cost_in, cost_of};
pub use fields::{HeaderFields, LegacyReset, RateLimitDialect};
pub use limit::{Amount, IfDown, Limit, LimitMode, Preflight};
pub use overrides::{Overrides, Term, sha256};
pub use reply::{Escape, Reply, ReplyBody, Slot, Template};
pub use store::{
    RedisAddress, RedisSpec, SentinelNode, SentinelSpec, StoreSpec, TlsIdentity, TlsSpec,
};
pub use then::{BLOCK, Begins, Then};
pub use upstream::{HostRule, Route, ServerSpec, UpstreamSpec, UpstreamTimeouts};

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use crate::identify::ClientRules;
use crate::request::Facts;
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
    /// The part of `limit_index` with the limits whose key is in the body.
    pub body_index: Index,
    /// The switch over every limit.
    pub mode: Mode,
    /// How paths are normalised.
    pub paths: PathRules,
    /// In which fields clients are told about their limits.
    pub headers: HeaderFields,
    /// Which pages may read what the gateway answers by itself; none: no page of another origin.
    pub cors: Option<Cors>,
    /// How the gateway stops.
    pub drain: Drain,
    /// What is written of each request; none: nothing.
    pub access_log: Option<AccessLog>,
}

impl Policy {
    /// Whether a limit that the request meets takes its key from the body, which is to be read first then.
    #[must_use]
    pub fn counts_by_body(&self, facts: &Facts<'_>) -> bool {
        if self.body_index.is_empty() {
            return false;
        }
        let hits = self.body_index.all(facts);
        let mut limits = hits.iter().filter_map(|hit| self.limits.get(hit.entry));
        limits.any(|limit| limit.applies(facts)) && self.skip.first(facts).is_none()
    }
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
