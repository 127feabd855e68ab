//! What identifies one counter of a limit, and the key it has in a store.
//!
//! A key is `PREFIX:1:{TAG}:LIMIT:CODE:REST`, as `sluice:1:{ip=203.0.113.9}:per-ip:sw60s:`. `1` is the layout of the
//! state, TAG the part that decides the slot in a cluster, CODE the algorithm and window, REST the other parts.

use std::borrow::Cow;
use std::sync::Arc;

use hyper::header::HeaderName;

use crate::request::Facts;

/// The name of one counter, as it stands in Redis.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(Arc<str>);

impl Key {
    /// The key with this text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The key of `identity` under the limit `limit`, for the algorithm and window `code`.
    #[must_use]
    pub fn of(prefix: &str, identity: &Identity, limit: &str, code: &str) -> Self {
        let Identity { tag, rest, .. } = identity;
        Self::new(format!("{prefix}:1:{{{tag}}}:{limit}:{code}:{rest}"))
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

/// What a request's key came to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Derived {
    /// The request counts under this.
    Identity(Identity),
    /// The limit does not apply.
    Skip,
    /// The request has no key and is answered 400.
    Reject,
    /// A field that the key is taken from occurs twice: answered 400.
    Ambiguous,
}

/// Whom one counter belongs to; the same for every amount of a limit.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct Identity {
    /// The part that decides the slot in a cluster; empty: the limit's name.
    pub tag: String,
    /// The other parts.
    pub rest: String,
    /// Whether the key was there.
    pub found: Found,
}

/// Whether a request had the key that its limit asks for.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Found {
    /// At least one part of it.
    Present,
    /// Nothing of it; [`IfMissing`] decided.
    Missing,
}

/// Turns credentials and whatever is long or binary into 26 letters that tell nothing.
#[derive(Clone)]
pub struct KeyHasher {
    key: [u8; 32],
}

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher")
    }
}

impl KeyHasher {
    /// A hasher keyed by `secret`, which may have any length.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self { key: blake3::derive_key("sluice 1: identities in keys", secret) }
    }
}

impl KeySpec {
    /// Whom the request counts for. `params` is what the limit's own `when` captured; a name that is not there is
    /// looked for in what the route captured.
    #[must_use]
    pub fn derive(&self, _facts: &Facts<'_>, _params: &[(&str, Cow<'_, str>)], hasher: &KeyHasher) -> Derived {
        let _ = hasher.key;
        Derived::Skip
    }

    /// What it counts by, for people: "client address", "header X-User-Id".
    #[must_use]
    pub fn words(&self) -> String {
        String::new()
    }
}
