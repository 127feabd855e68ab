//! Who sends a request: the peer, or the client that a trusted proxy names.

mod forwarded;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use ipnet::IpNet;

use crate::request::{Client, PeerTrust, covers};

/// How the client's address is found (`trusted_proxies` and `clients`).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClientRules {
    /// Peers that may name the client; empty: nobody, whatever the other rules say.
    pub trusted: Vec<IpNet>,
    /// Which field names the client.
    pub address_from: AddressFrom,
    /// How many proxies stand in front, the peer among them: that entry of the field, counted from the right and from 1,
    /// is the client. None: the first from the right that is not in `trusted`.
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
    Header(HeaderName),
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

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Entries of a forwarding field that are looked at, from the right; real chains have a handful.
const MAX_ENTRIES: usize = 32;

/// Bytes of a forwarding field that are looked at, from the right.
const MAX_BYTES: usize = 2048;

impl ClientRules {
    /// Who a request with these fields comes from.
    ///
    /// Only a trusted peer is believed, and of what it says only what trusted proxies wrote: entries are read from the
    /// right, over all lines of the field, at most 32 and 2 KiB of them. At one that is no address the walk stops, and
    /// the last good one, which a trusted proxy vouched for, is the client.
    #[must_use]
    pub fn identify(&self, peer: SocketAddr, headers: &HeaderMap) -> Client {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        if !self.trusts(peer.ip()) {
            return Client {
                peer,
                trust: PeerTrust::Untrusted,
                address: peer.ip(),
            };
        }
        let named = match &self.address_from {
            AddressFrom::XForwardedFor => self.walk(entries(headers)),
            AddressFrom::Forwarded => self.walk(forwarded::entries(headers)),
            AddressFrom::Header(name) => single(headers, name),
        };
        Client {
            peer,
            trust: PeerTrust::Trusted,
            address: named.unwrap_or(peer.ip()),
        }
    }

    /// The one `X-Forwarded-For` that the upstream sees: the peer alone where it is not trusted, else the chain that it
    /// sent with the peer at its end. Where the client is named by another field, the chain is that client and the peer.
    #[must_use]
    pub fn forwarded_for(&self, client: &Client, headers: &HeaderMap) -> HeaderValue {
        let mut chain: Vec<u8> = Vec::new();
        match (client.trust, &self.address_from) {
            (PeerTrust::Untrusted, _) => {}
            (PeerTrust::Trusted, AddressFrom::XForwardedFor) => {
                for line in headers.get_all(X_FORWARDED_FOR) {
                    let line = line.as_bytes().trim_ascii();
                    if !line.is_empty() {
                        chain.extend_from_slice(line);
                        chain.extend_from_slice(b", ");
                    }
                }
            }
            (PeerTrust::Trusted, _) if client.address != client.peer.ip() => {
                chain.extend_from_slice(format!("{}, ", client.address).as_bytes());
            }
            (PeerTrust::Trusted, _) => {}
        }
        chain.extend_from_slice(client.peer.ip().to_string().as_bytes());
        // What was a field's value still is one.
        HeaderValue::from_bytes(&chain).unwrap_or(HeaderValue::from_static("unknown"))
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|net| covers(net, address))
    }

    /// The client of a chain whose entries come from the right; none where not even the last is an address.
    fn walk(&self, entries: impl Iterator<Item = Option<IpAddr>>) -> Option<IpAddr> {
        let mut client = None;
        for (before, entry) in entries.enumerate() {
            let Some(address) = entry else { break };
            client = Some(address);
            let found = match self.trusted_hops {
                Some(hops) => before + 1 >= hops,
                None => !self.trusts(address),
            };
            if found {
                break;
            }
        }
        client
    }
}

/// The entries of `X-Forwarded-For` from the right; none in place of one that is no address.
fn entries(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    bounded(
        headers
            .get_all(X_FORWARDED_FOR)
            .iter()
            .rev()
            .flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')),
    )
    .map(<[u8]>::trim_ascii)
    .filter(|entry| !entry.is_empty())
    .map(address)
}

/// As many entries as are looked at.
fn bounded<'h>(entries: impl Iterator<Item = &'h [u8]>) -> impl Iterator<Item = &'h [u8]> {
    let mut left = MAX_BYTES;
    entries.take(MAX_ENTRIES).map_while(move |entry| {
        left = left.checked_sub(entry.len() + 1)?;
        Some(entry)
    })
}

/// The address of a field that has exactly one line with exactly one.
fn single(headers: &HeaderMap, name: &HeaderName) -> Option<IpAddr> {
    let mut lines = headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => address(line.as_bytes().trim_ascii()),
        _ => None,
    }
}

/// Reads `1.2.3.4`, `1.2.3.4:567`, `v6`, `[v6]`, `[v6]:567`; a zone is dropped, an IPv4-mapped address unwrapped.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    if let Some(rest) = text.strip_prefix('[') {
        let (inside, port) = rest.split_once(']')?;
        if !port.is_empty() && !port.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        return v6(inside);
    }
    if let Some((host, port)) = text.split_once(':')
        && let Ok(address) = host.parse()
    {
        return is_port(port).then_some(IpAddr::V4(address));
    }
    text.parse().map(IpAddr::V4).ok().or_else(|| v6(text))
}

fn v6(text: &str) -> Option<IpAddr> {
    let text = match text.split_once('%') {
        Some((_, "")) => return None,
        Some((address, _zone)) => address,
        None => text,
    };
    text.parse()
        .map(|address: Ipv6Addr| IpAddr::V6(address).to_canonical())
        .ok()
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}
