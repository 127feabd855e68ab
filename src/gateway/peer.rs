//! The other end of a client's connection.

use std::net::SocketAddr;

/// The other end of a client's connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// What it speaks with us.
    pub scheme: Scheme,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scheme {
    /// It is not.
    #[default]
    Http,
    /// It is.
    Https,
}

impl Scheme {
    /// As `X-Forwarded-Proto` says it.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}
