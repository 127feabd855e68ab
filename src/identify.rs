//! Who sends a request: the peer, or the client that a trusted proxy names.

use ipnet::IpNet;

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
