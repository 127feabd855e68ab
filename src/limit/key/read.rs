//! The value that a source has in a request.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::header::{AUTHORIZATION, COOKIE, HeaderName};
use ipnet::IpNet;
use percent_encoding::percent_decode;

use super::{Source, body};
use crate::request::{Facts, PeerTrust, fold_value};

/// What a request says where a source looks.
pub(super) enum Reading<'f> {
    /// Nothing, or nothing but blanks.
    Missing,
    /// More than one value under a name that has one.
    Twice,
    /// This.
    Value(Cow<'f, [u8]>),
}

impl<'f> From<Cow<'f, [u8]>> for Reading<'f> {
    fn from(value: Cow<'f, [u8]>) -> Self {
        if value.is_empty() {
            Self::Missing
        } else {
            Self::Value(value)
        }
    }
}

impl<'f> From<&'f str> for Reading<'f> {
    fn from(value: &'f str) -> Self {
        Cow::Borrowed(value.as_bytes()).into()
    }
}

/// Reads a source; `params` is what the limit's own `when` captured.
pub(super) fn read<'f>(
    source: &Source,
    facts: &'f Facts<'_>,
    params: &'f [(&str, Cow<'_, str>)],
) -> Reading<'f> {
    match source {
        Source::Ip { v4, v6 } => text(Cow::Owned(network(facts.client.address, *v4, *v6))),
        Source::Header(name) => header(name, facts),
        Source::TrustedHeader(_) if facts.client.trust == PeerTrust::Untrusted => Reading::Missing,
        Source::TrustedHeader(name) => header(name, facts),
        Source::Cookie(name) => cookie(name, facts),
        Source::Query(name) => query(name, facts),
        Source::Param(name) => {
            let captured = |pairs: &'f [(&str, Cow<'_, str>)]| {
                pairs
                    .iter()
                    .find(|(known, _)| **known == **name)
                    .map(|(_, value)| &**value)
            };
            match captured(params) {
                Some(value) => value.into(),
                // A route captures from the exact reading, whose spellings are many.
                None => captured(facts.route_params)
                    .map_or(Reading::Missing, |value| text(fold_value(value))),
            }
        }
        Source::Body(field) => body::read(field, facts),
        Source::Path => facts.target.wide.as_str().into(),
        Source::Method => method(facts.head.method.as_str()).into(),
        Source::Host => facts.host_name().into(),
        Source::Route => facts.route.map_or(Reading::Missing, Reading::from),
        Source::Everyone => "everyone".into(),
    }
}

fn text(value: Cow<'_, str>) -> Reading<'_> {
    match value {
        Cow::Borrowed(value) => value.into(),
        Cow::Owned(value) => Cow::<[u8]>::Owned(value.into_bytes()).into(),
    }
}

/// `203.0.113.9`, `203.0.113.0/24`, `2001:db8:1:2::/64`. Unwrapping comes before masking, or all IPv4 clients would be one.
fn network(address: IpAddr, v4: u8, v6: u8) -> String {
    let address = address.to_canonical();
    let (prefix, whole) = match address {
        IpAddr::V4(_) => (v4, 32),
        IpAddr::V6(_) => (v6, 128),
    };
    match IpNet::new(address, prefix) {
        Ok(net) if prefix < whole => net.trunc().to_string(),
        _ => address.to_string(),
    }
}

fn header<'f>(name: &HeaderName, facts: &'f Facts<'_>) -> Reading<'f> {
    let mut lines = facts.head.headers.get_all(name).iter();
    match (lines.next(), lines.next()) {
        (None, _) => Reading::Missing,
        (Some(_), Some(_)) => Reading::Twice,
        (Some(line), None) => {
            let value = line.as_bytes().trim_ascii();
            if *name == AUTHORIZATION {
                credentials(value).into()
            } else {
                Cow::Borrowed(value).into()
            }
        }
    }
}

/// Credentials in the one spelling that counts (RFC 9110 section 11.4); of Basic the user name (RFC 7617), and nothing
/// where that is empty.
fn credentials(value: &[u8]) -> Cow<'_, [u8]> {
    let mut words = value.splitn(2, u8::is_ascii_whitespace);
    let (Some(scheme), Some(rest)) = (words.next(), words.next()) else {
        return Cow::Borrowed(value);
    };
    let rest = rest.trim_ascii();
    let mut counted = scheme.to_ascii_lowercase();
    if counted == b"basic" {
        let decoded = base64(rest);
        let user = decoded
            .split(|byte| *byte == b':')
            .next()
            .unwrap_or_default();
        if user.is_empty() {
            return Cow::Borrowed(&[]);
        }
        counted.push(b' ');
        counted.extend_from_slice(user);
    } else {
        counted.push(b' ');
        counted.extend_from_slice(rest);
    }
    Cow::Owned(counted)
}

/// Whether this is what follows `Basic` in a request: a user with a password, encoded (RFC 7617).
#[must_use]
pub fn is_basic_login(text: &[u8]) -> bool {
    let decoded = base64(text);
    text.len().is_multiple_of(4)
        && decoded.contains(&b':')
        && decoded
            .iter()
            .all(|byte| byte.is_ascii_graphic() || *byte == b' ')
}

/// As the most lenient servers decode: both alphabets, and what is in neither is passed over.
fn base64(text: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sextet = |byte: &u8| {
        let byte = match byte {
            b'-' => b'+',
            b'_' => b'/',
            byte => *byte,
        };
        ALPHABET
            .iter()
            .position(|letter| *letter == byte)
            .and_then(|at| u32::try_from(at).ok())
    };
    let sextets: Vec<u32> = text.iter().filter_map(sextet).collect();
    let mut decoded = Vec::with_capacity(text.len());
    for four in sextets.chunks(4) {
        let bits = (0..4).fold(0_u32, |bits, at| {
            bits.wrapping_shl(6) | four.get(at).copied().unwrap_or(0)
        });
        decoded.extend(
            bits.to_be_bytes()
                .into_iter()
                .skip(1)
                .take(four.len().saturating_sub(1)),
        );
    }
    decoded
}

/// RFC 6265 section 5.4, over all lines.
fn cookie<'f>(name: &str, facts: &'f Facts<'_>) -> Reading<'f> {
    let pairs = facts
        .head
        .headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
    let values = pairs.filter_map(|pair| {
        let (known, value) = split_pair(pair);
        let value = value?.trim_ascii();
        let unquoted = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""))
            .unwrap_or(value);
        (known.trim_ascii() == name.as_bytes()).then(|| percent_decode(unquoted).into())
    });
    only(values)
}

/// `application/x-www-form-urlencoded`, names decoded too.
fn query<'f>(name: &str, facts: &'f Facts<'_>) -> Reading<'f> {
    let pairs = facts
        .target
        .query
        .as_deref()
        .unwrap_or_default()
        .as_bytes()
        .split(|byte| *byte == b'&');
    let values = pairs.filter_map(|pair| {
        let (known, value) = split_pair(pair);
        (*form_decoded(known) == *name.as_bytes()).then(|| form_decoded(value.unwrap_or_default()))
    });
    only(values)
}

/// What stands before and after the first `=`.
pub(super) fn split_pair(pair: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut sides = pair.splitn(2, |byte| *byte == b'=');
    (sides.next().unwrap_or_default(), sides.next())
}

pub(super) fn form_decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'+') {
        return percent_decode(text).into();
    }
    let blanks: Vec<u8> = text
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    Cow::Owned(percent_decode(&blanks).collect())
}

fn only<'f>(mut values: impl Iterator<Item = Cow<'f, [u8]>>) -> Reading<'f> {
    match (values.next(), values.next()) {
        (None, _) => Reading::Missing,
        (Some(_), Some(_)) => Reading::Twice,
        (Some(value), None) => value.into(),
    }
}

/// The methods of RFC 9110 and RFC 5789; letter case does not count, as some origins do not care.
#[must_use]
pub fn method(sent: &str) -> &'static str {
    const KNOWN: [&str; 9] = [
        "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
    ];
    KNOWN
        .into_iter()
        .find(|known| known.eq_ignore_ascii_case(sent))
        .unwrap_or("other")
}
