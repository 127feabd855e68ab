//! From a request to whom it counts for.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::hash::{KeyHasher, readable};
use super::read::{Reading, read};
use super::{IfMissing, KeySpec, Source};
use crate::request::Facts;

/// What a request's key came to.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Derived {
    /// The request counts under this.
    Identity(Identity),
    /// The limit does not apply.
    Skip,
    /// The request has no key and is answered 400.
    Reject,
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

/// What a request says where a key looks, in the one spelling that counts: one for each part, in the order of `per`, none
/// where it is missing.
pub type Values<'r> = SmallVec<[Option<Value<'r>>; 4]>;

/// The value of one part, before it is hashed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Value<'r> {
    /// Which of the part's alternatives was there.
    pub source: &'r Source,
    /// Not empty.
    pub bytes: Cow<'r, [u8]>,
}

/// A field that has one value has several.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Ambiguous;

/// The value of the first of `alternatives` that is there; none where none is. `params` is what the limit's own `when`
/// captured; a name that is not there is looked for in what the route captured. A value that is empty is missing.
///
/// # Errors
/// A field that it is taken from occurs twice.
pub fn first<'r>(
    alternatives: &'r [Source],
    facts: &'r Facts<'_>,
    params: &'r [(&str, Cow<'_, str>)],
) -> Result<Option<Value<'r>>, Ambiguous> {
    for source in alternatives {
        match read(source, facts, params) {
            Reading::Missing => {}
            Reading::Twice => return Err(Ambiguous),
            Reading::Value(bytes) => return Ok(Some(Value { source, bytes })),
        }
    }
    Ok(None)
}

/// A part of a key that is there.
pub(super) struct Part {
    pub(super) rank: u8,
    pub(super) text: String,
}

/// Stands for a part that is not there; no part that is has this text.
const ABSENT: &str = "-";

/// Stands where the tag was taken from.
const TAG: &str = "@";

impl KeySpec {
    /// What the request says of each part, as [`first`] reads it.
    ///
    /// # Errors
    /// A field that a part is taken from occurs twice.
    pub fn read<'r>(
        &'r self,
        facts: &'r Facts<'_>,
        params: &'r [(&str, Cow<'_, str>)],
    ) -> Result<Values<'r>, Ambiguous> {
        self.parts
            .iter()
            .map(|alternatives| first(alternatives, facts, params))
            .collect()
    }

    /// Whom the request counts for, of which these are the `values`.
    #[must_use]
    pub fn derive(&self, values: &Values<'_>, facts: &Facts<'_>, hasher: &KeyHasher) -> Derived {
        let part = |value: &Value<'_>| Part {
            rank: value.source.rank(),
            text: value.source.part(&value.bytes, hasher),
        };
        let parts: SmallVec<[Option<Part>; 4]> = values
            .iter()
            .map(|value| value.as_ref().map(part))
            .collect();
        match identity(&parts) {
            Some(identity) => Derived::Identity(identity),
            None => self.missing(facts, hasher),
        }
    }

    fn missing(&self, facts: &Facts<'_>, hasher: &KeyHasher) -> Derived {
        let (tag, rest) = match self.if_missing {
            IfMissing::Skip => return Derived::Skip,
            IfMissing::Reject => return Derived::Reject,
            IfMissing::Share => (String::new(), ABSENT.to_owned()),
            IfMissing::Ip => match read(&self.fallback, facts, &[]) {
                Reading::Value(value) => (self.fallback.part(&value, hasher), String::new()),
                Reading::Missing | Reading::Twice => return Derived::Reject,
            },
        };
        Derived::Identity(Identity {
            tag,
            rest,
            found: Found::Missing,
        })
    }
}

/// The tag and the rest; none where no part is there.
pub(super) fn identity(parts: &[Option<Part>]) -> Option<Identity> {
    let present = parts
        .iter()
        .enumerate()
        .filter_map(|(at, part)| part.as_ref().map(|part| (at, part)));
    let (tag_at, tag) = present.min_by_key(|(at, part)| (part.rank, *at))?;
    let mut rest = String::new();
    for (at, part) in parts
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != 0 || tag_at != 0)
    {
        if at > usize::from(tag_at == 0) {
            rest.push(',');
        }
        rest.push_str(match part {
            Some(_) if at == tag_at => TAG,
            Some(part) => &part.text,
            None => ABSENT,
        });
    }
    Some(Identity {
        tag: tag.text.clone(),
        rest,
        found: Found::Present,
    })
}

impl Source {
    /// The text of a value in a key; empty for `everyone`.
    fn part(&self, value: &[u8], hasher: &KeyHasher) -> String {
        match self {
            Self::Ip { .. } => format!("ip={}", String::from_utf8_lossy(value)),
            Self::Header(name) => hashed("header", name.as_str(), value, hasher),
            Self::TrustedHeader(name) => hashed("trusted", name.as_str(), value, hasher),
            Self::Cookie(name) => hashed("cookie", name, value, hasher),
            Self::Query(name) => hashed("query", name, value, hasher),
            Self::Body(field) => hashed("body", field.name(), value, hasher),
            Self::Param(name) => match (readable(name.as_bytes()), readable(value)) {
                (Some(name), Some(value)) => format!("param.{name}={value}"),
                _ => hashed("param", name, value, hasher),
            },
            Self::Path => plain("path", value, hasher),
            Self::Method => plain("method", value, hasher),
            Self::Host => plain("host", value, hasher),
            Self::Route => plain("route", value, hasher),
            Self::Everyone => String::new(),
        }
    }
}

fn plain(word: &str, value: &[u8], hasher: &KeyHasher) -> String {
    readable(value).map_or_else(
        || hashed(word, "", value, hasher),
        |value| format!("{word}={value}"),
    )
}

fn hashed(word: &str, name: &str, value: &[u8], hasher: &KeyHasher) -> String {
    format!("{word}={}", hasher.hash(word, name, value))
}
