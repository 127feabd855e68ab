//! The words of `per`.

use hyper::header::HeaderName;

use super::decode::{self, At};
use super::nearest::nearest;
use super::node::{Kind, Node};
use super::report::Findings;
use super::units::{Wrong, number};
use crate::limit::key::{BodyField, Source};

/// A `per` as it was written.
#[derive(Clone, Debug)]
pub(super) struct Per {
    /// All together; each a list of alternatives.
    pub(super) parts: Vec<Vec<Source>>,
    /// For people: "client address", "header X-User-Id".
    pub(super) words: String,
}

const WORDS: [&str; 12] = [
    "ip",
    "header",
    "trusted header",
    "cookie",
    "query",
    "param",
    "path",
    "method",
    "host",
    "route",
    "everyone",
    "body",
];

/// Reads a `per`; `ipv6_prefix` is what makes a client of an IPv6 address.
pub(super) fn per(node: &Node, ipv6_prefix: u8, found: &mut Findings) -> Option<At<Per>> {
    if matches!(node.kind, Kind::Mapping(_)) {
        found.error(node.span, "`per` is words, as `ip` or `header X-User-Id`");
        return None;
    }
    let mut parts: Vec<Vec<Source>> = Vec::new();
    let mut words = Vec::new();
    for item in decode::one_or_many(node) {
        let part = decode::parsed(item, "a key", |text| alternatives(text, ipv6_prefix), found)?;
        if parts.contains(&part.value) {
            found.error(part.span, "this part of the key is given twice");
            return None;
        }
        words.push(
            part.value
                .iter()
                .map(|source| in_words(source, ipv6_prefix))
                .collect::<Vec<_>>()
                .join(" or "),
        );
        parts.push(part.value);
    }
    if parts.is_empty() {
        found
            .error(node.span, "a key has at least one part")
            .help("`everyone` is one counter for all");
        return None;
    }
    if parts.len() > 1
        && parts
            .iter()
            .flatten()
            .any(|source| *source == Source::Everyone)
    {
        found
            .error(node.span, "`everyone` stands alone")
            .help("remove it: the other parts make the key");
        return None;
    }
    Some(At {
        value: Per {
            parts,
            words: words.join(" and "),
        },
        span: node.span,
    })
}

/// Reads `A or B`.
pub(super) fn alternatives(text: &str, ipv6_prefix: u8) -> Result<Vec<Source>, Wrong> {
    text.split(" or ")
        .map(|one| source(one.trim(), ipv6_prefix))
        .collect()
}

fn source(text: &str, ipv6_prefix: u8) -> Result<Source, Wrong> {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        ["ip"] => Ok(Source::Ip {
            v4: 32,
            v6: ipv6_prefix,
        }),
        [ip] if ip.starts_with("ip/") => network(ip, ipv6_prefix),
        ["header", name] => Ok(Source::Header(header(name)?)),
        ["trusted", "header", name] => Ok(Source::TrustedHeader(header(name)?)),
        ["cookie", name] => Ok(Source::Cookie(token(name, "a cookie")?.into())),
        ["query", name] => Ok(Source::Query((*name).into())),
        ["param", name] => Ok(Source::Param((*name).into())),
        ["path"] => Ok(Source::Path),
        ["method"] => Ok(Source::Method),
        ["host"] => Ok(Source::Host),
        ["route"] => Ok(Source::Route),
        ["everyone"] => Ok(Source::Everyone),
        ["body", name] => BodyField::new(name).map(Source::Body).ok_or_else(|| {
            Wrong::new(format!("`{name}` is not the name of a field"))
                .help("dots stand between names, as `login.user`")
        }),
        ["tls", "subject"] => Err(Wrong::later("tls subject")),
        [word @ ("header" | "cookie" | "query" | "param" | "body")] => {
            Err(Wrong::new(format!("`{word}` of which name?")).help(format!("write `{word} NAME`")))
        }
        ["body", ..] => {
            Err(Wrong::new("the name of a field holds no blank").help("several parts are a list"))
        }
        [word @ ("header" | "cookie" | "query" | "param"), ..] => {
            Err(Wrong::new(format!("the name of a {word} holds no blank"))
                .help("several parts are a list"))
        }
        _ => {
            let first = words.first().copied().unwrap_or_default();
            let wrong = Wrong::new(format!("`{text}` is not a key"));
            Err(
                match nearest(text, WORDS)
                    .or_else(|| nearest(first, WORDS))
                    .filter(|word| *word != first)
                {
                    Some(word) => wrong.meant(Some(word)),
                    None => wrong.help(format!("a key is {}", WORDS.join(", "))),
                },
            )
        }
    }
}

/// `ip/24`, `ip/24/56`.
fn network(text: &str, ipv6_prefix: u8) -> Result<Source, Wrong> {
    let mut bits = text.split('/').skip(1);
    let v4 = prefix(bits.next().unwrap_or_default(), 32)?;
    let v6 = bits
        .next()
        .map_or(Ok(ipv6_prefix), |text| prefix(text, 128))?;
    match bits.next() {
        None => Ok(Source::Ip { v4, v6 }),
        Some(_) => {
            Err(Wrong::new(format!("`{text}` is not a key")).help("write `ip/24` or `ip/24/56`"))
        }
    }
}

fn prefix(text: &str, most: u8) -> Result<u8, Wrong> {
    let bits = number(text)?;
    match u8::try_from(bits) {
        Ok(bits) if (1..=most).contains(&bits) => Ok(bits),
        Ok(_) | Err(_) => {
            Err(Wrong::new(format!("a prefix of {bits} bits")).help(format!("it is 1 to {most}")))
        }
    }
}

/// The name of a header field (RFC 9110 section 5.1).
pub(super) fn header(name: &str) -> Result<HeaderName, Wrong> {
    HeaderName::from_bytes(name.as_bytes()).ok().ok_or_else(|| {
        Wrong::new(format!("`{name}` is not the name of a header")).help("letters, digits and `-`")
    })
}

/// A name without blanks, commas and the like (RFC 9110 section 5.6.2).
fn token<'t>(name: &'t str, what: &str) -> Result<&'t str, Wrong> {
    match HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) => Ok(name),
        Err(_) => Err(Wrong::new(format!("`{name}` is not the name of {what}"))),
    }
}

pub(super) fn in_words(source: &Source, ipv6_prefix: u8) -> String {
    match source {
        Source::Ip { v4: 32, v6 } if *v6 == ipv6_prefix => "client address".into(),
        Source::Ip { v4, v6 } if *v6 == ipv6_prefix => format!("client network /{v4}"),
        Source::Ip { v4, v6 } => format!("client network /{v4} (IPv6 /{v6})"),
        Source::Header(name) => format!("header {}", titled(name)),
        Source::TrustedHeader(name) => format!("trusted header {}", titled(name)),
        Source::Cookie(name) => format!("cookie {name}"),
        Source::Query(name) => format!("query parameter {name}"),
        Source::Param(name) => format!("path parameter {name}"),
        Source::Body(field) => format!("body field {}", field.name()),
        Source::Path => "path".into(),
        Source::Method => "method".into(),
        Source::Host => "host".into(),
        Source::Route => "route".into(),
        Source::Everyone => "everyone".into(),
    }
}

/// A header's name as people write it: `X-User-Id`.
pub(super) fn titled(name: &HeaderName) -> String {
    let mut start = true;
    let letters = name.as_str().chars().map(|c| {
        let letter = if start { c.to_ascii_uppercase() } else { c };
        start = c == '-';
        letter
    });
    letters.collect()
}

#[cfg(test)]
mod tests {
    use super::{Source, alternatives, in_words};

    #[test]
    fn keys_are_words() {
        let words = |text: &str| {
            alternatives(text, 64).map(|list| {
                list.iter()
                    .map(|s| in_words(s, 64))
                    .collect::<Vec<_>>()
                    .join(" or ")
            })
        };
        for (text, want) in [
            ("ip", "client address"),
            ("ip/24", "client network /24"),
            ("ip/24/56", "client network /24 (IPv6 /56)"),
            (
                "header x-user-id or ip",
                "header X-User-Id or client address",
            ),
            ("trusted header X-Plan", "trusted header X-Plan"),
            ("cookie sid", "cookie sid"),
            ("query q", "query parameter q"),
            ("param id", "path parameter id"),
            ("body login.user", "body field login.user"),
            ("everyone", "everyone"),
        ] {
            assert_eq!(words(text).as_deref(), Ok(want), "{text}");
        }
        for text in [
            "",
            "ipp",
            "ip/33",
            "ip/0",
            "ip/24/129",
            "ip/24/56/1",
            "header",
            "header X Y",
            "header a b",
            "header é",
            "body",
            "body a b",
            "body a..b",
            "tls subject",
            "ip or",
            "user",
        ] {
            assert!(words(text).is_err(), "{text}");
        }
        assert_eq!(
            alternatives("ip/24", 56),
            Ok(vec![Source::Ip { v4: 24, v6: 56 }])
        );
    }
}
