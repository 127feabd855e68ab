//! What identifies one counter of a limit, and the key it has in a store.
//!
//! A key is `PREFIX:1:{TAG}:LIMIT:CODE:REST`, as `sluice:1:{ip=203.0.113.9}:per-ip:sw60s:`. `1` is the layout of the
//! state, TAG the part that decides the slot in a cluster, CODE the algorithm and window, REST the other parts.
//!
//! A part is `WORD=VALUE` (nothing for `everyone`), or `-` where it is missing; parts stand in the order of `per` with commas between them, and
//! `@` where the tag was unless that was first. A value is readable or a hash, and what is readable has none of these
//! marks and never looks like a hash: so two requests have the same key only if they have the same parts.

mod body;
mod derive;
mod hash;
mod read;
#[cfg(test)]
mod tests;

pub use body::BodyField;
pub use derive::{Ambiguous, Derived, Found, Identity, Value, Values, first};
pub use hash::KeyHasher;
pub use read::{is_basic_login, method};

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderName};

/// The name of one counter, as it stands in Redis.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Key(Arc<str>);

impl Key {
    /// The key with this text.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The key of `identity` under the limit `limit`, for the algorithm and window `code`. `prefix` has no braces, or it
    /// would decide the slot.
    #[must_use]
    pub fn of(prefix: &str, identity: &Identity, limit: &str, code: &str) -> Self {
        let Identity { tag, rest, .. } = identity;
        let tag = if tag.is_empty() { limit } else { tag };
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
    /// `header NAME`: the bytes of its one line. Of `Authorization` the scheme counts in lower case, blanks around it do
    /// not count, and of Basic only the user name does.
    Header(HeaderName),
    /// `trusted header NAME`: missing unless the peer is a trusted proxy.
    TrustedHeader(HeaderName),
    /// `cookie NAME` (RFC 6265): its value without quotes, percent-decoded once, as lenient servers read it.
    Cookie(Box<str>),
    /// `query NAME`: its value, decoded once.
    Query(Box<str>),
    /// `param NAME`: captured by the limit's `when`, else by the route; folded as the wide reading of a path.
    Param(Box<str>),
    /// `body FIELD`: of a JSON object or a form, among the first 16 KiB.
    Body(BodyField),
    /// `path`, in its wide reading.
    Path,
    /// `method`; unknown ones are `other`.
    Method,
    /// `host`, without its port.
    Host,
    /// `route`: the name of the route.
    Route,
    /// `everyone`: one counter for all.
    Everyone,
}

impl Source {
    /// Its place in the choice of the tag: the narrowest identity first, so that the limits of one client share a slot.
    fn rank(&self) -> u8 {
        match self {
            Self::Ip { .. } => 0,
            Self::Header(name) if *name == AUTHORIZATION => 1,
            Self::Header(_) | Self::TrustedHeader(_) => 2,
            Self::Cookie(_) => 3,
            Self::Query(_) => 4,
            Self::Body(_) => 5,
            Self::Param(_) => 6,
            Self::Host => 7,
            Self::Path => 8,
            Self::Method => 9,
            Self::Route => 10,
            Self::Everyone => 11,
        }
    }

    /// For people.
    fn words(&self) -> String {
        match self {
            Self::Ip { v4: 32, .. } => "client address".to_owned(),
            Self::Ip { v4, .. } => format!("client network /{v4}"),
            Self::Header(name) | Self::TrustedHeader(name) => {
                format!("header {}", capitalised(name))
            }
            Self::Cookie(name) => format!("cookie {name}"),
            Self::Query(name) => format!("query parameter {name}"),
            Self::Param(name) => format!("path parameter {name}"),
            Self::Body(field) => format!("body field {}", field.name()),
            Self::Path => "path".to_owned(),
            Self::Method => "method".to_owned(),
            Self::Host => "host".to_owned(),
            Self::Route => "route".to_owned(),
            Self::Everyone => "everyone".to_owned(),
        }
    }
}

/// `X-User-Id`, as people write it.
fn capitalised(name: &HeaderName) -> String {
    let mut start = true;
    let spell = |letter: char| {
        let spelled = if start {
            letter.to_ascii_uppercase()
        } else {
            letter
        };
        start = letter == '-';
        spelled
    };
    name.as_str().chars().map(spell).collect()
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
    /// All together, at least one; each is a list of alternatives, of which the first that is present counts (`A or B`).
    pub parts: Vec<Vec<Source>>,
    /// When none is present.
    pub if_missing: IfMissing,
    /// The network that [`IfMissing::Ip`] counts by: always a [`Source::Ip`].
    pub fallback: Source,
}

impl KeySpec {
    /// What it counts by, for people: "client address", "header X-User-Id or client address", "client address and path".
    #[must_use]
    pub fn words(&self) -> String {
        let part = |alternatives: &Vec<Source>| {
            alternatives
                .iter()
                .map(Source::words)
                .collect::<Vec<_>>()
                .join(" or ")
        };
        self.parts
            .iter()
            .map(part)
            .collect::<Vec<_>>()
            .join(" and ")
    }
}
