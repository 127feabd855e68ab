//! One matcher, as a person writes it.

use hyper::Method;
use hyper::header::{HeaderName, HeaderValue};
use ipnet::IpNet;

use super::{HostPattern, PathPattern};

/// A set of conditions; all that are given hold, and of each list any one value.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Matcher {
    /// Empty: any.
    pub hosts: Vec<HostPattern>,
    /// Empty: any.
    pub paths: Vec<PathPattern>,
    /// Empty: any; `GET` also means `HEAD`.
    pub methods: MethodSet,
    /// All of them hold.
    pub headers: Vec<HeaderMatcher>,
    /// Networks of the client; empty: any.
    pub from: Vec<IpNet>,
    /// Names of routes; empty: any.
    pub routes: Vec<std::sync::Arc<str>>,
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
}

/// A condition on one header field.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HeaderMatcher {
    /// Its name.
    pub name: HeaderName,
    /// Any of these.
    pub tests: Vec<HeaderTest>,
}

/// What a header field must be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum HeaderTest {
    /// There, whatever its value.
    Present,
    /// Exactly this, in any of its lines.
    Is(HeaderValue),
}
