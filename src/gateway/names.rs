//! What each header field's name means to a gateway.

use hyper::header::{self, HeaderName};

/// Fields of one connection, whether `Connection` names them or not (RFC 9110 section 7.6.1), but for framing and trailers.
pub(super) const HOP_BY_HOP: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::TE,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("http2-settings"),
];

/// What becomes of a field of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// It is for the upstream.
    EndToEnd,
    /// It is for this connection, or the gateway writes it itself.
    Connection,
    /// It tells who the client is: believed from trusted proxies only.
    Forwarding,
    /// It is the gateway's word, or looks like it to an API that reads `_` or `.` as `-`.
    Own,
}

/// What `name` is in a request.
pub(super) fn kind(name: &HeaderName) -> Kind {
    match name.as_str() {
        "connection"
        | "keep-alive"
        | "proxy-connection"
        | "te"
        | "trailer"
        | "transfer-encoding"
        | "upgrade"
        | "proxy-authenticate"
        | "proxy-authorization"
        | "http2-settings"
        | "host"
        | "content-length"
        | "expect" => Kind::Connection,
        // Rewritten from all its lines.
        "x-forwarded-for" => Kind::Connection,
        text if names_client(text) => Kind::Forwarding,
        text if text.starts_with("sluice-") => Kind::Own,
        text if text.contains(['_', '.']) && is_alias(text) => Kind::Own,
        _ => Kind::EndToEnd,
    }
}

/// Whether a name tells an API who the client is or how it came here.
fn names_client(text: &str) -> bool {
    text.starts_with("x-forwarded-")
        || matches!(
            text,
            "forwarded"
                | "x-real-ip"
                | "true-client-ip"
                | "cf-connecting-ip"
                | "fastly-client-ip"
                | "x-client-ip"
        )
}

/// Whether a gateway interface that reads `_` and `.` as `-` would take this for a field that is not the client's to say.
fn is_alias(text: &str) -> bool {
    let plain = text.replace(['_', '.'], "-");
    names_client(&plain)
        || plain.starts_with("sluice-")
        || matches!(
            &*plain,
            "transfer-encoding" | "content-length" | "host" | "connection"
        )
}

/// Fields that `Connection` cannot take away: who asks, for what, with which body.
pub(super) fn is_guarded(name: &HeaderName) -> bool {
    let text = name.as_str();
    matches!(
        text,
        "host" | "authorization" | "cookie" | "set-cookie" | "via"
    ) || text.starts_with("content-")
        || text.starts_with("sluice-")
        || names_client(text)
}

/// Fields that mean something in a head only: framing, routing, authentication, limits (RFC 9110 section 6.5.1).
pub(super) fn is_unfit_trailer(name: &HeaderName) -> bool {
    let text = name.as_str();
    is_guarded(name)
        || HOP_BY_HOP.contains(name)
        || text.starts_with("ratelimit")
        || text.starts_with("x-ratelimit")
        || matches!(
            text,
            "transfer-encoding"
                | "trailer"
                | "retry-after"
                | "www-authenticate"
                | "location"
                | "date"
        )
}
