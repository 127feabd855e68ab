//! What identifies one counter of a limit, and the key it has in a store.
//!
//! A key is `PREFIX:1:{TAG}:LIMIT:CODE:REST`, as `sluice:1:{ip=203.0.113.9}:per-ip:sw60s:`. `1` is the layout of the
//! state, TAG the part that decides the slot in a cluster, CODE the algorithm and window, REST the other parts.

use std::sync::Arc;

use hyper::header::HeaderName;

/// The name of one counter, as it stands in Redis.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(Arc<str>);

impl Key {
    /// The key with this text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where one part of a key comes from (`configuration.md`, Keys).
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Source {
    /// `ip`, `ip/24`, `ip/24/56`: the client's network.
    Ip {
        /// Leading bits of an IPv4 address that count, 0 to 32.
        v4: u8,
        /// Leading bits of an IPv6 address that count, 0 to 128.
        v6: u8,
    },
    /// `header NAME`.
    Header(HeaderName),
    /// `trusted header NAME`: missing unless the peer is a trusted proxy.
    TrustedHeader(HeaderName),
    /// `cookie NAME`.
    Cookie(Box<str>),
    /// `query NAME`.
    Query(Box<str>),
    /// `param NAME`: captured by the limit's `when`, else by the route.
    Param(Box<str>),
    /// `path`, in its wide reading.
    Path,
    /// `method`; unknown ones are `other`.
    Method,
    /// `host`.
    Host,
    /// `route`: the name of the route.
    Route,
    /// `everyone`: one counter for all.
    Everyone,
}

/// What happens when every part of a key is absent or empty.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum IfMissing {
    /// Count by the client's address.
    #[default]
    Ip,
    /// The limit does not apply.
    Skip,
    /// One counter for all such requests.
    Share,
    /// Answer 400.
    Reject,
}

/// The compiled `per` of a limit.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeySpec {
    /// All together; each is a list of alternatives, of which the first that is present counts (`A or B`).
    pub parts: Vec<Vec<Source>>,
    /// When none is present.
    pub if_missing: IfMissing,
    /// The network that [`IfMissing::Ip`] counts by: always a [`Source::Ip`].
    pub fallback: Source,
}
