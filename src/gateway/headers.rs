//! Header fields on their way through (RFC 9110 section 7.6): what belongs to one connection stays on it, what tells who
//! the client is comes from the gateway.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Version};
use smallvec::SmallVec;

use super::body::Trailers;
use super::names::{self, Kind};
use super::request_id::X_REQUEST_ID;
use crate::identify::ClientRules;
use crate::request::{Client, PeerTrust};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The upstream may believe it: what clients send under this name is dropped, as all that begins with `sluice-`.
const SLUICE_OVER_LIMIT: HeaderName = HeaderName::from_static("sluice-over-limit");
/// How every gateway calls itself in `Proxy-Status`.
pub(super) const PSEUDONYM: &str = "sluice";
/// How this process calls itself in `Via`: another gateway in front of it or behind it is no loop.
static OWN_NAME: LazyLock<String> = LazyLock::new(|| {
    let number = RandomState::new().hash_one(std::process::id());
    format!("{PSEUDONYM}-{number:016x}")
});
static VIA_1_0: LazyLock<HeaderValue> = LazyLock::new(|| via_after("1.0"));
static VIA_1_1: LazyLock<HeaderValue> = LazyLock::new(|| via_after("1.1"));
static VIA_2: LazyLock<HeaderValue> = LazyLock::new(|| via_after("2"));

/// What a request's head is rewritten with.
#[derive(Debug)]
pub(super) struct Rewrite<'r> {
    pub(super) client: &'r Client,
    pub(super) rules: &'r ClientRules,
    /// Fields that limits count by: `Connection` cannot name them.
    pub(super) counted: &'r [HeaderName],
    /// `http` or `https`.
    pub(super) scheme: &'static str,
    /// The host as the client wrote it.
    pub(super) host: &'r HeaderValue,
    /// How long the body is: told by the body, not by the client's fields.
    pub(super) framing: Framing,
    /// Names the request in the logs of everyone that it passes.
    pub(super) request_id: &'r HeaderValue,
    /// The limits that it is over and that let it pass.
    pub(super) over: Option<&'r HeaderValue>,
    /// A limit reads the answer's trailers, whether or not the client takes them.
    pub(super) reads_trailers: bool,
}

/// How a message's body is delimited (RFC 9112 section 6).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Framing {
    /// There is no body, and none is announced.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// The fields that the upstream gets, built anew, so that nothing is forwarded by oversight.
pub(super) fn request(head: &Parts, rewrite: &Rewrite<'_>) -> HeaderMap {
    let trust = rewrite.client.trust;
    let listed = listed(&head.headers, rewrite.counted);
    let mut fields = HeaderMap::with_capacity(head.headers.len() + 8);
    fields.insert(header::HOST, rewrite.host.clone());
    for (name, value) in &head.headers {
        let passes = match names::kind(name) {
            Kind::EndToEnd => !listed.contains(name),
            Kind::Forwarding => trust == PeerTrust::Trusted,
            Kind::Connection | Kind::Own => false,
        };
        if passes {
            fields.append(name.clone(), value.clone());
        }
    }
    if let (PeerTrust::Untrusted, crate::identify::AddressFrom::Header(name)) =
        (trust, &rewrite.rules.address_from)
    {
        fields.remove(name);
    }
    fields.insert(
        X_FORWARDED_FOR,
        rewrite.rules.forwarded_for(rewrite.client, &head.headers),
    );
    fields
        .entry(X_FORWARDED_HOST)
        .or_insert_with(|| rewrite.host.clone());
    fields
        .entry(X_FORWARDED_PROTO)
        .or_insert_with(|| HeaderValue::from_static(rewrite.scheme));
    fields.insert(X_REQUEST_ID, rewrite.request_id.clone());
    if let Some(over) = rewrite.over {
        fields.insert(SLUICE_OVER_LIMIT, over.clone());
    }
    fields.append(header::VIA, via(head.version));
    if rewrite.reads_trailers || takes_trailers(&head.headers) {
        fields.insert(header::TE, HeaderValue::from_static("trailers"));
    }
    rewrite.framing.announce(&mut fields);
    fields
}

impl Framing {
    /// What a body of this size needs. A request that usually has a body says so when it has none.
    pub(super) fn of(method: &Method, body: &impl hyper::body::Body) -> Self {
        let has_body_usually = [Method::POST, Method::PUT, Method::PATCH].contains(method);
        match body.size_hint().exact() {
            Some(0) if !has_body_usually => Self::None,
            Some(bytes) => Self::Length(bytes),
            None => Self::Chunked,
        }
    }

    fn announce(self, fields: &mut HeaderMap) {
        match self {
            Self::None => {}
            Self::Length(bytes) => {
                fields.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
            }
            // Said by us, because hyper writes no body for a GET of unknown length otherwise.
            Self::Chunked => {
                fields.insert(
                    header::TRANSFER_ENCODING,
                    HeaderValue::from_static("chunked"),
                );
            }
        }
    }
}

/// Takes from an upstream's answer what belongs to its connection. The body announces its own length.
pub(super) fn response(
    status: StatusCode,
    fields: &mut HeaderMap,
    method: &Method,
    trailers: Trailers,
) {
    if fields.contains_key(header::CONNECTION) {
        for name in listed(fields, &[]) {
            fields.remove(name);
        }
    }
    for name in &names::HOP_BY_HOP {
        fields.remove(name);
    }
    let says_length = *method == Method::HEAD || status == StatusCode::NOT_MODIFIED;
    let framed_twice = fields.remove(header::TRANSFER_ENCODING).is_some();
    if !says_length || framed_twice {
        fields.remove(header::CONTENT_LENGTH);
    }
    if trailers == Trailers::Drop {
        fields.remove(header::TRAILER);
    }
}

/// The trailers of an answer without those that only a head may carry (RFC 9110 section 6.5.1).
pub(super) fn trailers(mut fields: HeaderMap) -> HeaderMap {
    let unfit: SmallVec<[HeaderName; 4]> = fields
        .keys()
        .filter(|name| names::is_unfit_trailer(name))
        .cloned()
        .collect();
    for name in unfit {
        fields.remove(name);
    }
    fields
}

/// Whether the request says `TE: trailers`.
pub(super) fn takes_trailers(fields: &HeaderMap) -> bool {
    tokens(fields, header::TE).any(|token| {
        let coding = token.split(|&byte| byte == b';').next().unwrap_or_default();
        coding.trim_ascii().eq_ignore_ascii_case(b"trailers")
    })
}

/// Whether the request has passed this process already.
pub(super) fn came_before(fields: &HeaderMap) -> bool {
    tokens(fields, header::VIA).any(|entry| {
        let mut words = entry
            .split(u8::is_ascii_whitespace)
            .filter(|word| !word.is_empty());
        words
            .nth(1)
            .is_some_and(|by| by.eq_ignore_ascii_case(OWN_NAME.as_bytes()))
    })
}

/// The elements of a comma-separated field, of all its lines, without blanks and empty ones.
pub(super) fn tokens(fields: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &[u8]> {
    let lines = fields.get_all(name).into_iter();
    let elements = lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b','));
    elements
        .map(<[u8]>::trim_ascii)
        .filter(|token| !token.is_empty())
}

/// What `Connection` names, in all its lines, but for what no neighbour may take away.
fn listed(fields: &HeaderMap, counted: &[HeaderName]) -> SmallVec<[HeaderName; 4]> {
    tokens(fields, header::CONNECTION)
        .filter_map(|token| HeaderName::from_bytes(token).ok())
        .filter(|name| !names::is_guarded(name) && !counted.contains(name))
        .collect()
}

fn via(version: Version) -> HeaderValue {
    match version {
        Version::HTTP_10 => VIA_1_0.clone(),
        Version::HTTP_2 => VIA_2.clone(),
        _ => VIA_1_1.clone(),
    }
}

/// What a request that came over this version of HTTP gets (RFC 9110 section 7.6.3).
fn via_after(version: &str) -> HeaderValue {
    HeaderValue::try_from(format!("{version} {}", *OWN_NAME))
        .unwrap_or(HeaderValue::from_static(PSEUDONYM))
}
