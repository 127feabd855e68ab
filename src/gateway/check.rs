//! What no request may be, whatever its route: decided before anything is read from its body.

use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use super::headers;
use super::respond::Rejection;

/// The longest request target, in bytes.
const TARGET_BYTES: usize = 8 * 1024;

/// Refuses what the gateway cannot forward, or not without guessing what was meant.
pub(super) fn request(head: &Parts) -> Result<(), Rejection> {
    framing(head)?;
    if head.method == Method::CONNECT || head.method == Method::TRACE {
        return Err(Rejection::Method);
    }
    let target = head
        .uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    if target
        + head
            .uri
            .authority()
            .map_or(0, |authority| authority.as_str().len())
        > TARGET_BYTES
    {
        return Err(Rejection::TargetTooLong);
    }
    if head
        .uri
        .scheme_str()
        .is_some_and(|scheme| !["http", "https"].contains(&scheme))
    {
        return Err(Rejection::Malformed(
            "the scheme of the target is neither http nor https",
        ));
    }
    if head.uri.path() == "*" && head.method != Method::OPTIONS {
        return Err(Rejection::Malformed("only OPTIONS may ask for *"));
    }
    if head.version > Version::HTTP_10
        && head
            .headers
            .get_all(header::EXPECT)
            .iter()
            .any(|value| !is_continue(value))
    {
        return Err(Rejection::Expectation);
    }
    if headers::came_before(&head.headers) {
        return Err(Rejection::Loop);
    }
    Ok(())
}

/// hyper reads a body as chunked whenever the last coding is; what it would leave undecoded, or take twice, is refused
/// (RFC 9112 section 6.3).
fn framing(head: &Parts) -> Result<(), Rejection> {
    let mut codings = head.headers.get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => Ok(()),
        (Some(coding), None)
            if head.version == Version::HTTP_11
                && coding.as_bytes().eq_ignore_ascii_case(b"chunked") =>
        {
            Ok(())
        }
        _ => Err(Rejection::Framing),
    }
}

fn is_continue(value: &HeaderValue) -> bool {
    value
        .as_bytes()
        .trim_ascii()
        .eq_ignore_ascii_case(b"100-continue")
}
