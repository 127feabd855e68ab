//! Who sends a request: the peer, or the client that a trusted proxy names.

use std::net::SocketAddr;

use hyper::HeaderMap;
use hyper::header::HeaderValue;
use ipnet::IpNet;

use crate::request::{Client, PeerTrust};

/// How the client's address is found (`trusted_proxies` and `clients`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientRules {
    /// Peers that may name the client.
    pub trusted: Vec<IpNet>,
    /// Which field names the client.
    pub address_from: AddressFrom,
    /// Count this many entries from the right instead of asking who is trusted; none: by `trusted`.
    pub trusted_hops: Option<usize>,
    /// Leading bits of an IPv6 address that make a client; default 64.
    pub ipv6_prefix: u8,
}

/// Which field of a trusted proxy names the client.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum AddressFrom {
    /// `X-Forwarded-For`.
    #[default]
    XForwardedFor,
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// One field with exactly one address.
    Header(hyper::header::HeaderName),
}

impl Default for ClientRules {
    fn default() -> Self {
        Self {
            trusted: Vec::new(),
            address_from: AddressFrom::default(),
            trusted_hops: None,
            ipv6_prefix: 64,
        }
    }
}

impl ClientRules {
    /// Who a request with these fields comes from.
    #[must_use]
    pub fn identify(&self, peer: SocketAddr, _headers: &HeaderMap) -> Client {
        Client { peer, trust: PeerTrust::Untrusted, address: peer.ip() }
    }

    /// The one `X-Forwarded-For` that the upstream sees.
    #[must_use]
    pub fn forwarded_for(&self, _client: &Client, _headers: &HeaderMap) -> HeaderValue {
        HeaderValue::from_static("")
    }
}
