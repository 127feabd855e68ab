//! The facts of one request, gathered before it is judged. Nothing is written here later.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use hyper::http::request::Parts;
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
}
