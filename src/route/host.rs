//! The host that a request is for, and patterns over it.

#[cfg(test)]
mod tests;

use std::net::Ipv6Addr;

use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{Uri, Version};

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
        if let Some(domain) = text.strip_prefix("*.") {
            return Err(format!("`{text}`: any subdomain is `.{domain}`"));
        }
        if text.contains("://") {
            return Err(format!("`{text}`: a host has no scheme and no path"));
        }
        let domain = text.strip_prefix('.');
        let (name, port) =
            split(domain.unwrap_or(text)).map_err(|wrong| format!("`{text}`: {}", wrong.0))?;
        if port.is_some() {
            return Err(format!(
                "`{text}`: hosts are compared without the port; leave it out"
            ));
        }
        match domain {
            Some(_) if name.starts_with('[') => {
                Err(format!("`{text}`: an address has no subdomains"))
            }
            Some(_) => Ok(Self::Subdomains(format!(".{name}").into())),
            None => Ok(Self::Exact(name.into())),
        }
    }

    /// Whether a host without port is meant by it.
    #[must_use]
    pub fn matches(&self, host_name: &str) -> bool {
        match self {
            Self::Exact(host) => **host == *host_name,
            Self::Subdomains(suffix) => {
                host_name.len() > suffix.len() && host_name.ends_with(&**suffix)
            }
        }
    }
}

/// Why a request has no host that it could be judged by; answered 400.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidHost(pub &'static str);

/// The one host that a request is for (RFC 9112 section 3.2): of an absolute target its authority, else the one `Host`
/// field. Lower-case, an IPv6 address in its shortest form, without a final dot and without the ports 80 and 443.
///
/// # Errors
/// None, several, one that is not a host, or in HTTP/2 a `Host` that differs from `:authority`.
pub fn effective_host(head: &Parts) -> Result<String, InvalidHost> {
    let mut fields = head.headers.get_all(HOST).iter();
    let field = match (fields.next(), fields.next()) {
        (Some(_), Some(_)) => return Err(InvalidHost("the request has several Host fields")),
        (Some(value), None) => Some(normalise(value.to_str().map_err(|_not_ascii| NOT_A_HOST)?)?),
        (None, _) => None,
    };
    let authority = authority(&head.uri)?;
    match (authority, field) {
        (Some(authority), Some(field)) if head.version >= Version::HTTP_2 && authority != field => {
            Err(InvalidHost("the request names two hosts"))
        }
        (Some(_), None) if head.version == Version::HTTP_11 => Err(MISSING),
        (Some(host), _) | (None, Some(host)) => Ok(host),
        (None, None) => Err(MISSING),
    }
}

const MISSING: InvalidHost = InvalidHost("the request has no Host field");
const NOT_A_HOST: InvalidHost = InvalidHost("not the name of a host");

fn authority(uri: &Uri) -> Result<Option<String>, InvalidHost> {
    let Some(authority) = uri.authority() else {
        return Ok(None);
    };
    match uri.scheme_str() {
        None | Some("http" | "https") => normalise(authority.as_str()).map(Some),
        Some(_) => Err(InvalidHost("the request target is neither http nor https")),
    }
}

fn normalise(text: &str) -> Result<String, InvalidHost> {
    let (mut name, port) = split(text)?;
    if let Some(port) = port
        && !matches!(port, 80 | 443)
    {
        name.push_str(&format!(":{port}"));
    }
    Ok(name)
}

/// The name, normalised, and the port of `HOST[:PORT]`.
fn split(text: &str) -> Result<(String, Option<u16>), InvalidHost> {
    if text.is_empty() {
        return Err(InvalidHost("the host is empty"));
    }
    if text.len() > 255 {
        return Err(InvalidHost("the host is longer than 255 bytes"));
    }
    if text.contains('@') {
        return Err(InvalidHost("a host has no user name"));
    }
    let (name, port) = if let Some(rest) = text.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or(NOT_A_HOST)?;
        let address: Ipv6Addr = address.parse().map_err(|_not_an_address| NOT_A_HOST)?;
        (format!("[{address}]"), port)
    } else {
        let end = text.find(':').unwrap_or(text.len());
        let (name, port) = text.split_at(end);
        (normalise_name(name)?, port)
    };
    match port.strip_prefix(':') {
        None if port.is_empty() => Ok((name, None)),
        Some("") => Ok((name, None)),
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let port = digits
                .parse()
                .map_err(|_too_large| InvalidHost("the port of the host is no port"))?;
            Ok((name, Some(port)))
        }
        _ => Err(NOT_A_HOST),
    }
}

fn normalise_name(name: &str) -> Result<String, InvalidHost> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let named = name.bytes().any(|byte| byte.is_ascii_alphanumeric());
    if !named || !name.bytes().all(is_host) || name.split('.').any(str::is_empty) {
        return Err(NOT_A_HOST);
    }
    Ok(name.to_ascii_lowercase())
}
