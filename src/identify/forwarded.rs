//! The field `Forwarded` (RFC 7239), read with its quotes.

use std::borrow::Cow;
use std::net::IpAddr;

use hyper::HeaderMap;
use hyper::header::FORWARDED;
use smallvec::SmallVec;

use super::{address, bounded};

/// The `for` of the elements of `Forwarded` from the right; none in place of one that names no address.
///
/// Lines are read one by one, so that a quote that a client leaves open cannot swallow what a proxy wrote after it; in
/// the same line, an open quote makes the line unreadable.
pub(super) fn entries(headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
    let elements = headers.get_all(FORWARDED).iter().rev().flat_map(|line| {
        match split(line.as_bytes(), b',') {
            Some(elements) => elements,
            None => SmallVec::from_slice(&[UNREADABLE]),
        }
        .into_iter()
        .rev()
    });
    bounded(elements)
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
        .map(address_of)
}

/// Stands for a line that cannot be split: no element, and no address.
const UNREADABLE: &[u8] = b"\"";

/// The pieces of `text` between separators outside quotes; none where a quote stays open.
fn split(text: &[u8], separator: u8) -> Option<SmallVec<[&[u8]; 8]>> {
    let mut pieces = SmallVec::new();
    let mut start = 0;
    let mut quoted = Quoted::No;
    for (at, byte) in text.iter().enumerate() {
        quoted = match (quoted, *byte) {
            (Quoted::No, b'"') | (Quoted::Escaped, _) => Quoted::Yes,
            (Quoted::Yes, b'"') => Quoted::No,
            (Quoted::Yes, b'\\') => Quoted::Escaped,
            (Quoted::No, byte) if byte == separator => {
                pieces.push(&text[start..at]);
                start = at + 1;
                Quoted::No
            }
            (quoted, _) => quoted,
        };
    }
    pieces.push(&text[start..]);
    matches!(quoted, Quoted::No).then_some(pieces)
}

/// Where a reader of quoted text is.
#[derive(Clone, Copy)]
enum Quoted {
    No,
    Yes,
    Escaped,
}

/// The address of the one `for` of an element; none if any of its pairs is malformed.
fn address_of(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    for pair in split(element, b';')? {
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..equals], &pair[equals + 1..]);
        if !is_token(name) {
            return None;
        }
        let value = unquote(value)?;
        if name.eq_ignore_ascii_case(b"for") && found.replace(value).is_some() {
            return None;
        }
    }
    let node = found?;
    // An IPv6 address stands in brackets (RFC 7239 section 6).
    let bare_v6 = !node.starts_with(b"[") && node.iter().filter(|byte| **byte == b':').count() > 1;
    if bare_v6 { None } else { address(&node) }
}

/// The text of a token or quoted string (RFC 9110 section 5.6).
fn unquote(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some(inside) = value.strip_prefix(b"\"") else {
        return is_token(value).then_some(Cow::Borrowed(value));
    };
    let inside = inside.strip_suffix(b"\"")?;
    if !inside.iter().any(|byte| matches!(byte, b'\\' | b'"')) {
        return Some(Cow::Borrowed(inside));
    }
    let mut text = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => text.push(*bytes.next()?),
            b'"' => return None,
            byte => text.push(*byte),
        }
    }
    Some(Cow::Owned(text))
}

/// RFC 9110 section 5.6.2.
fn is_token(text: &[u8]) -> bool {
    !text.is_empty()
        && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte))
}
