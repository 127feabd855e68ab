//! `reply`: what a limit answers.

use std::borrow::Cow;

use hyper::header::{HeaderName, HeaderValue, LOCATION};
use hyper::{StatusCode, Uri};

use super::super::decode::{self, At, Fields, Shape};
use super::super::key::{header, titled};
use super::super::node::{Kind, Node};
use super::super::report::Findings;
use super::super::units::Wrong;
use crate::policy::{Escape, Reply, ReplyBody, Slot, Template};

const REPLY: Shape = Shape {
    what: "`reply`",
    known: &["status", "content_type", "headers", "body", "redirect"],
    later: &[],
};

/// The longest body, in bytes.
const LONGEST: usize = 64 * 1024;
const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// A permanent redirect would outlive the rejection.
const REDIRECTS: [u16; 3] = [302, 303, 307];

/// A reply; what is left out is as without it.
pub(super) fn reply(node: &Node, found: &mut Findings) -> Option<Reply> {
    let fields = Fields::open(node, &REPLY, found)?;
    let location = fields.get("redirect").and_then(|node| {
        let at = decode::parsed(node, "`redirect`", location, found)?;
        Some(at.value)
    });
    let redirects = fields.get("redirect").is_some();
    let status = fields
        .get("status")
        .and_then(|node| status(node, redirects, found))
        .unwrap_or(if redirects {
            StatusCode::FOUND
        } else {
            StatusCode::TOO_MANY_REQUESTS
        });
    let mut extra: Vec<_> = location
        .map(|value| (LOCATION, value))
        .into_iter()
        .collect();
    if let Some(node) = fields.get("headers") {
        headers(node, &mut extra, found);
    }
    Some(Reply {
        status,
        fields: extra,
        body: body(&fields, status, found),
    })
}

fn status(node: &Node, redirects: bool, found: &mut Findings) -> Option<StatusCode> {
    let number = decode::number(node, "`status`", 200, 599, found)?.value;
    let status = StatusCode::from_u16(u16::try_from(number).ok()?).ok()?;
    if redirects && !REDIRECTS.contains(&status.as_u16()) {
        found
            .error(node.span, format!("a redirect is not answered {number}"))
            .help("302, the default, or 303 or 307: a permanent one would outlive the rejection");
        return None;
    }
    if !redirects && status.is_redirection() {
        found
            .error(
                node.span,
                format!("{number} redirects, and nothing says where to"),
            )
            .help("as `redirect: https://www.example.com/slow-down`");
        return None;
    }
    if status.is_success() {
        found
            .warn(node.span, format!("clients take {number} for a success"))
            .help("429 and 503 are understood as a rejection");
    }
    Some(status)
}

/// A URL, or a path of this host.
fn location(text: &str) -> Result<HeaderValue, Wrong> {
    if Slot::ALL.iter().any(|(mark, _)| text.contains(mark)) {
        return Err(Wrong::new("only the body is filled in").help("`redirect` is sent as it is"));
    }
    let wrong = || {
        Wrong::new(format!("`{text}` is not where a client can be sent"))
            .help("a URL, as `https://www.example.com/slow-down`, or a path, as `/slow-down`")
    };
    // The fragment is the client's; the rest is a URI as any.
    let uri: Uri = text
        .split('#')
        .next()
        .unwrap_or_default()
        .parse()
        .map_err(|_invalid| wrong())?;
    let path = text.starts_with('/') && !text.starts_with("//");
    let url = matches!(uri.scheme_str(), Some("http" | "https"))
        && uri.host().is_some_and(|host| !host.is_empty());
    if !path && !url {
        return Err(wrong());
    }
    HeaderValue::from_str(text).map_err(|_invalid| wrong())
}

/// Fields that frame the answer or belong to the connection, and fields that the gateway writes.
fn refused(name: &HeaderName) -> Option<&'static str> {
    match name.as_str() {
        "content-length"
        | "transfer-encoding"
        | "content-encoding"
        | "connection"
        | "keep-alive"
        | "proxy-connection"
        | "te"
        | "trailer"
        | "upgrade"
        | "proxy-authenticate"
        | "proxy-authorization"
        | "http2-settings" => {
            Some("it says how the answer is sent, and that is the gateway's to say")
        }
        "content-type" => Some("write `content_type`"),
        "location" => Some("write `redirect`"),
        "retry-after" | "x-request-id" | "ratelimit" | "ratelimit-policy" => {
            Some("the gateway sends it where it is right")
        }
        name if name.starts_with("x-ratelimit-") => {
            Some("`headers: {legacy: delta}` at the top adds these")
        }
        name if name.starts_with("access-control-") => Some("`cors` at the top adds these"),
        _ => None,
    }
}

fn headers(node: &Node, extra: &mut Vec<(HeaderName, HeaderValue)>, found: &mut Findings) {
    let Kind::Mapping(entries) = &node.kind else {
        found
            .error(node.span, "`headers` is a mapping of names to values")
            .help("as `{X-Docs: \"https://www.example.com/limits\"}`");
        return;
    };
    for (key, value) in entries {
        let Some(At { value: name, span }) = decode::parsed(key, "a header", header, found) else {
            continue;
        };
        if let Some(why) = refused(&name) {
            found
                .error(span, format!("`{}` cannot be set here", titled(&name)))
                .help(why);
            continue;
        }
        for line in decode::one_or_many(value) {
            let read = |text: &str| {
                HeaderValue::from_str(text).map_err(|_invalid| {
                    Wrong::new("this is not the value of a header")
                        .help("one line of visible ASCII")
                })
            };
            let line = decode::parsed(line, "a header's value", read, found);
            extra.extend(line.map(|line| (name.clone(), line.value)));
        }
    }
}

fn body(fields: &Fields<'_>, status: StatusCode, found: &mut Findings) -> ReplyBody {
    let silent = matches!(status, StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT);
    let without = if silent || status.is_redirection() {
        ReplyBody::Empty
    } else {
        ReplyBody::Problem
    };
    let Some(node) = fields.get("body") else {
        if let Some(node) = fields.get("content_type") {
            found
                .error(node.span, "there is no `body` of this type")
                .help("left out, the body is a problem, `application/problem+json`");
        }
        return without;
    };
    let content_type = fields
        .get("content_type")
        .map_or(Some((PLAIN, Escape::Plain)), |node| {
            let at = decode::parsed(node, "a media type", media_type, found)?;
            Some(at.value)
        });
    let text = decode::text(node, "the body", found);
    let (Some((content_type, escape)), Some(text)) = (content_type, text) else {
        return without;
    };
    if silent {
        found.error(
            node.span,
            format!("an answer of {} has no body", status.as_u16()),
        );
        return without;
    }
    if text.len() > LONGEST {
        found.error(
            node.span,
            format!("the body is {} bytes long, more than {LONGEST}", text.len()),
        );
        return without;
    }
    let template = Template::new(text, escape);
    check(node, text, &template, escape, found);
    if text.is_empty() {
        return ReplyBody::Empty;
    }
    ReplyBody::Own {
        content_type,
        text: template,
    }
}

/// `type/subtype`, with parameters or without (RFC 9110 section 8.3.1), and how its texts are escaped.
fn media_type(text: &str) -> Result<(HeaderValue, Escape), Wrong> {
    let wrong = || {
        Wrong::new(format!("`{text}` is not a media type"))
            .help("as `application/json` or `text/html; charset=utf-8`")
    };
    let essence = text
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    let token = |word: &str| HeaderName::from_bytes(word.as_bytes()).is_ok();
    let (kind, subtype) = essence.split_once('/').ok_or_else(wrong)?;
    if !token(kind) || !token(subtype) {
        return Err(wrong());
    }
    let value = HeaderValue::from_str(text).map_err(|_invalid| wrong())?;
    Ok((value, Escape::of(&essence)))
}

/// Warns of what cannot have been meant.
fn check(node: &Node, text: &str, template: &Template, escape: Escape, found: &mut Findings) {
    for (at, _) in text.match_indices('<') {
        let name = text[at + 1..].split('>').next().unwrap_or_default();
        let meant = format!("<{}>", name.to_ascii_lowercase().replace('-', "_"));
        let slots = Slot::ALL.map(|(mark, _)| mark);
        if slots.contains(&meant.as_str()) && !slots.contains(&format!("<{name}>").as_str()) {
            found
                .warn(node.span, format!("`<{name}>` is not filled in"))
                .meant(Some(&meant));
        }
    }
    if escape == Escape::Json {
        let sample = template.fill(|slot| {
            Some(Cow::Borrowed(match slot {
                Slot::Limit | Slot::RequestId => "word",
                Slot::RetryAfter | Slot::Reset => "12",
            }))
        });
        if let Err(error) = serde_json::from_str::<serde::de::IgnoredAny>(&sample) {
            found
                .warn(node.span, "with its places filled in, the body is not JSON")
                .help(format!("{error}; names stand in quotes, as `\"<limit>\"`"));
        }
    }
}
