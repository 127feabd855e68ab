//! One matcher, as a person writes it.

use std::sync::Arc;

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use ipnet::IpNet;

use super::{HostPattern, PathPattern, Width};
use crate::request::{Facts, covers};

/// A set of conditions; all that are given hold, and of each list any one value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Matcher {
    /// Empty: any.
    pub hosts: Vec<HostPattern>,
    /// Empty: any, and `*` too.
    pub paths: Vec<PathPattern>,
    /// Empty: any; `GET` also means `HEAD`.
    pub methods: MethodSet,
    /// All of them hold.
    pub headers: Vec<HeaderMatcher>,
    /// Networks of the client; empty: any.
    pub from: Vec<IpNet>,
    /// Names of routes; empty: any.
    pub routes: Vec<Arc<str>>,
}

impl Matcher {
    /// Whether all conditions but those on host and path hold.
    #[must_use]
    pub fn matches_rest(&self, width: Width, facts: &Facts<'_>) -> bool {
        self.methods.contains(width, &facts.head.method)
            && (self.from.is_empty()
                || self
                    .from
                    .iter()
                    .any(|net| covers(net, facts.client.address)))
            && (self.routes.is_empty()
                || facts
                    .route
                    .is_some_and(|route| self.routes.iter().any(|name| **name == *route)))
            && self.headers.iter().all(|header| header.matches(facts))
    }
}

/// Methods that match; empty: any.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MethodSet(Vec<Method>);

impl MethodSet {
    /// These methods; none: any.
    #[must_use]
    pub const fn new(methods: Vec<Method>) -> Self {
        Self(methods)
    }

    /// Whether `method` is meant. Methods are compared with their case (RFC 9110 section 9.1), but widely without: some
    /// origins take `post` for `POST`.
    #[must_use]
    pub fn contains(&self, width: Width, method: &Method) -> bool {
        let same = |one: &Method, other: &Method| match width {
            Width::Exact => one == other,
            Width::Wide => one.as_str().eq_ignore_ascii_case(other.as_str()),
        };
        self.0.is_empty()
            || self.0.iter().any(|meant| {
                same(meant, method) || (same(meant, &Method::GET) && same(method, &Method::HEAD))
            })
    }
}

/// A condition on one header field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeaderMatcher {
    /// Its name.
    pub name: HeaderName,
    /// Any of these.
    pub tests: Vec<HeaderTest>,
}

impl HeaderMatcher {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        let values = facts.head.headers.get_all(&self.name);
        self.tests.iter().any(|test| match test {
            HeaderTest::Present => values.iter().next().is_some(),
            HeaderTest::Is(wanted) => values.iter().any(|value| value == wanted),
        })
    }
}

/// What a header field must be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HeaderTest {
    /// There, whatever its value.
    Present,
    /// Exactly this, in any of its lines.
    Is(HeaderValue),
}
