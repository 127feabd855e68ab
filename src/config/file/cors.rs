//! `cors`.

use hyper::header::HeaderValue;

use super::super::decode::{self, Fields, Shape};
use super::super::node::Node;
use super::super::report::Findings;
use super::super::units::Wrong;
use crate::policy::{Cors, Credentials, Origins};

const CORS: Shape = Shape {
    what: "`cors`",
    known: &["origins", "credentials"],
    later: &[],
};
const FORM: &str = "as `https://app.example.com`, or `*` alone for every page";

pub(super) fn cors(node: &Node, found: &mut Findings) -> Option<Cors> {
    let fields = Fields::open(node, &CORS, found)?;
    let words = [
        ("true", Credentials::Include),
        ("on", Credentials::Include),
        ("false", Credentials::Omit),
        ("off", Credentials::Omit),
    ];
    let credentials = fields
        .get("credentials")
        .and_then(|node| decode::word(node, "on or off", &words, &[], found));
    let Some(node) = fields.get("origins") else {
        found
            .error(fields.span, "`cors` needs its `origins`: whose pages?")
            .help(FORM);
        return None;
    };
    let items = decode::one_or_many(node);
    if items.is_empty() {
        found.error(node.span, "`origins` is empty").help(FORM);
    }
    let mut origins: Vec<HeaderValue> = Vec::new();
    let mut any = false;
    for item in items {
        if item.text() == Some("*") {
            any = true;
            if items.len() > 1 {
                found
                    .error(item.span, "`*` stands alone")
                    .help("it is every origin; leave it out, or the others");
            }
            continue;
        }
        let Some(origin) = decode::parsed(item, "an origin", origin, found) else {
            continue;
        };
        if origins.contains(&origin.value) {
            found.error(item.span, "this origin is given twice");
        }
        origins.push(origin.value);
    }
    if let (true, Some(credentials)) = (any, &credentials)
        && credentials.value == Credentials::Include
    {
        found
            .error(credentials.span, "`*` and credentials exclude each other")
            .help("browsers refuse the two together: name the origins that may send credentials");
    }
    Some(Cors {
        origins: if any {
            Origins::Any
        } else {
            Origins::Listed(origins)
        },
        credentials: credentials.map(|at| at.value).unwrap_or_default(),
    })
}

/// `scheme://host[:port]`, as browsers write it (Fetch, section 3.2): in lower case, without a default port.
fn origin(text: &str) -> Result<HeaderValue, Wrong> {
    let lower = text.to_ascii_lowercase();
    if lower == "null" {
        return Err(
            Wrong::new("`null` is the origin of any page that hides where it is from")
                .help("name the origins of the pages"),
        );
    }
    let wrong = |why: &str| Wrong::new(format!("`{text}` is not an origin: {why}"));
    let Some((scheme, authority)) = lower.split_once("://") else {
        return Err(wrong("a scheme is missing").help(FORM));
    };
    if authority.contains('*') {
        return Err(wrong("`*` stands for every origin, not for a part of one")
            .help("name each origin in full"));
    }
    if let Some((host, _)) = authority.split_once(['/', '?', '#']) {
        return Err(wrong("it ends before the path").help(format!("write `{scheme}://{host}`")));
    }
    let mut letters = scheme.bytes();
    let scheme_is_sound = letters.next().is_some_and(|byte| byte.is_ascii_lowercase())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    if !scheme_is_sound {
        return Err(wrong("the scheme is not one").help(FORM));
    }
    let (host, port) =
        host_and_port(authority).ok_or_else(|| wrong("its host or port is not one").help(FORM))?;
    let default = matches!((scheme, port), ("http", Some(80)) | ("https", Some(443)));
    let port = port
        .filter(|_| !default)
        .map_or_else(String::new, |port| format!(":{port}"));
    HeaderValue::try_from(format!("{scheme}://{host}{port}"))
        .map_err(|_invalid| wrong("its host is not one").help(FORM))
}

/// A name (RFC 1123, or of an extension), an IPv4 address, or an IPv6 address in brackets in the spelling of browsers.
fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']')?;
        let address: std::net::Ipv6Addr = address.parse().ok()?;
        let port = match port {
            "" => None,
            port => Some(self::port(port.strip_prefix(':')?)?),
        };
        return Some((format!("[{address}]"), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(self::port(port)?)),
        None => (authority, None),
    };
    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    (!host.is_empty() && host.bytes().all(sound)).then(|| (host.to_owned(), port))
}

fn port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}
