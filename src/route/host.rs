//! The host that a request is for, and patterns over it.

use hyper::http::request::Parts;

/// A host in a matcher: `example.com`, or `.example.com` for any subdomain. Compared without case, port and final dot.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum HostPattern {
    /// This host.
    Exact(Box<str>),
    /// Any host that ends with this text, which begins with a dot.
    Subdomains(Box<str>),
}

impl HostPattern {
    /// Reads `example.com` or `.example.com`.
    ///
    /// # Errors
    /// What is wrong with it, in words for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self::Exact(text.into()))
    }
}

/// Why a request has no host that it could be judged by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidHost(pub &'static str);

/// The one host that a request is for (RFC 9112 section 3.2): of an absolute target its authority, else the one `Host` field.
///
/// # Errors
/// None, several, or one that is not a host.
pub fn effective_host(_head: &Parts) -> Result<String, InvalidHost> {
    Err(InvalidHost("stub"))
}
