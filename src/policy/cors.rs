//! Which pages may read what the gateway answers by itself.

use hyper::header::HeaderValue;

/// Which pages may read what the gateway answers by itself (Fetch, section 3.3).
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Cors {
    /// Where the pages are from.
    pub origins: Origins,
    /// Whether they may when they send credentials.
    pub credentials: Credentials,
}

/// A set of origins.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origins {
    /// Every one; never together with credentials.
    Any,
    /// These, as browsers write them: in lower case, without a default port.
    Listed(Vec<HeaderValue>),
}

/// Whether answers to requests with credentials may be read.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Credentials {
    /// They may not.
    #[default]
    Omit,
    /// They may.
    Include,
}
