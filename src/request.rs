//! The facts of one request, gathered before it is judged. Nothing is written here later.

mod fold;
mod opening;

pub use opening::{Extent, Opening};

pub(crate) use fold::{bare_segment, fold_segment, fold_value};

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use hyper::Method;
use hyper::header::{ACCESS_CONTROL_REQUEST_METHOD, ORIGIN};
use hyper::http::request::Parts;
use ipnet::IpNet;
use smallvec::SmallVec;

/// Whether the peer of the connection may tell us the client's address, plan or cost.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PeerTrust {
    /// Listed in `trusted_proxies`: its forwarding fields are read, and appended to.
    Trusted,
    /// Anyone else: its forwarding fields are replaced.
    Untrusted,
}

/// Who the request comes from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Client {
    /// The other end of the connection, IPv4-mapped addresses unwrapped.
    pub peer: SocketAddr,
    /// Whether the peer is a trusted proxy.
    pub trust: PeerTrust,
    /// The client that limits count: the peer, or whom a trusted proxy names. IPv4-mapped addresses are unwrapped.
    pub address: IpAddr,
}

/// A request's path in the two readings that decide about it, and its query.
///
/// `exact` is what routes and exemptions compare, and what is forwarded. `wide` is what an API that does not care about
/// case, slashes, parameters or encoding may make of it, and what limits compare and count by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Target {
    /// The normalised path; starts with `/` (or is `*`).
    pub exact: String,
    /// The folded path; starts with `/` (or is `*`) and, but for the root, does not end with it.
    pub wide: String,
    /// What follows the first `?`, as sent.
    pub query: Option<String>,
}

/// Values captured by `{name}` in a path pattern, in the order of the pattern.
pub type Params<'r> = SmallVec<[(&'r str, Cow<'r, str>); 4]>;

/// What is known about a request before it is judged.
#[derive(Clone, Debug)]
pub struct Facts<'r> {
    /// Method, target, version and header fields as they arrived.
    pub head: &'r Parts,
    /// Who it comes from.
    pub client: Client,
    /// The effective host: lower-case, without a default port or a final dot (RFC 9110 section 7.2).
    pub host: &'r str,
    /// The path and query.
    pub target: &'r Target,
    /// The name of the route that it takes; none while the route is still being looked for.
    pub route: Option<&'r str>,
    /// What the route's pattern captured.
    pub route_params: &'r [(&'r str, Cow<'r, str>)],
    /// The beginning of the body; none where no limit counts by it.
    pub body: Option<&'r Opening>,
}

impl Facts<'_> {
    /// The host without its port: what matchers compare and keys count, or else every port would be a host of its own.
    #[must_use]
    pub fn host_name(&self) -> &str {
        match self.host.rfind([':', ']']) {
            Some(at) if self.host[at..].starts_with(':') => &self.host[..at],
            _ => self.host,
        }
    }

    /// Whether it is a CORS preflight (Fetch, section 3.3.2).
    #[must_use]
    pub fn is_preflight(&self) -> bool {
        self.head.method == Method::OPTIONS
            && self.head.headers.contains_key(ORIGIN)
            && self
                .head
                .headers
                .contains_key(ACCESS_CONTROL_REQUEST_METHOD)
    }
}

/// Whether `net` contains `address`, which is in its canonical form (IPv4-mapped addresses unwrapped); a network that
/// is itself written in the mapped form means the IPv4 one.
#[must_use]
pub fn covers(net: &IpNet, address: IpAddr) -> bool {
    const MAPPED: u8 = 96;
    match (net, address) {
        (IpNet::V6(net), IpAddr::V4(address)) => {
            net.prefix_len() >= MAPPED && net.contains(&address.to_ipv6_mapped())
        }
        _ => net.contains(&address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_compared_with_canonical_addresses() {
        let covers =
            |net: &str, address: &str| covers(&net.parse().unwrap(), address.parse().unwrap());
        assert!(covers("10.0.0.0/8", "10.1.2.3"));
        assert!(covers("::ffff:10.0.0.0/104", "10.1.2.3"));
        assert!(!covers("::ffff:10.0.0.0/104", "11.1.2.3"));
        assert!(
            !covers("::/0", "10.1.2.3"),
            "every IPv6 address is no IPv4 address"
        );
        assert!(covers("2001:db8::/32", "2001:db8::1"));
        assert!(!covers("0.0.0.0/0", "2001:db8::1"));
    }
}
