//! The words of `match`, `when`, `except` and `skip`.

use std::sync::Arc;

use hyper::Method;
use hyper::header::HeaderValue;

use super::decode::{self, At, Fields, Shape};
use super::key::{header, titled};
use super::nearest::nearest;
use super::node::{Kind, Node, Style};
use super::report::{Findings, Span};
use super::trap;
use super::units::{Wrong, cidr};
use crate::route::{HeaderMatcher, HeaderTest, HostPattern, Matcher, MethodSet, PathPattern};

/// A matcher as it was written.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    pub(super) matcher: Matcher,
    /// In words; for the text form, the text.
    pub(super) words: String,
    /// What its methods are; empty: any.
    pub(super) methods: Vec<Method>,
    pub(super) span: Span,
}

/// Whether a matcher may name a route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// The `match` of a route: no.
    Route,
    /// Anything else.
    Elsewhere,
}

const MAPPING: Shape = Shape {
    what: "a matcher",
    known: &["host", "path", "method", "header", "from"],
    later: &[],
};
const FORMS: &str = "a matcher is `[METHOD] /path`, `from NETWORK`, `route NAME` or a mapping";

/// One matcher or a list of them. Those that are wrong are left out, and noted.
pub(super) fn list(node: &Node, place: Place, found: &mut Findings) -> Vec<Typed> {
    let items = decode::one_or_many(node);
    if items.is_empty() {
        found
            .error(node.span, "an empty list matches nothing")
            .help("leave the field out");
    }
    items
        .iter()
        .filter_map(|item| one(item, place, found))
        .collect()
}

fn one(node: &Node, place: Place, found: &mut Findings) -> Option<Typed> {
    match &node.kind {
        Kind::Mapping(_) => mapping(node, found),
        Kind::Sequence(_) => {
            found
                .error(node.span, "a matcher is not a list")
                .help(FORMS);
            None
        }
        Kind::Scalar { .. } => {
            let text = decode::text(node, "a matcher", found)?;
            let (matcher, methods) = found.take(node.span, words(text, place))?;
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(Typed {
                matcher,
                words,
                methods,
                span: node.span,
            })
        }
    }
}

/// The text form.
fn words(text: &str, place: Place) -> Result<(Matcher, Vec<Method>), Wrong> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let mut matcher = Matcher::default();
    let mut methods = Vec::new();
    match parts.as_slice() {
        ["from", network] => matcher.from.push(cidr(network)?),
        ["route", name] if place == Place::Elsewhere => matcher.routes.push(Arc::from(*name)),
        ["route", ..] if place == Place::Route => {
            return Err(Wrong::new("a route cannot be chosen by a route"));
        }
        ["from"] | ["route"] => {
            return Err(Wrong::new(format!("`{text}` needs a value")).help(FORMS));
        }
        [path] if path.starts_with('/') => matcher.paths.push(self::path(path)?),
        [list, path] if path.starts_with('/') => {
            methods = list.split(',').map(method).collect::<Result<Vec<_>, _>>()?;
            matcher.paths.push(self::path(path)?);
        }
        [.., path] if path.starts_with('/') && text.contains(',') => {
            return Err(
                Wrong::new("a list of methods holds no blank").help("write `GET,POST /path`")
            );
        }
        [method] if trap::cut_by_comma(method) => return Err(Wrong::new(trap::COMMA)),
        _ if text.contains("*.") => {
            return Err(Wrong::new(format!("`{text}` is not a path")).help(STAR));
        }
        [method, path] if self::method(method).is_ok() => {
            return Err(
                Wrong::new("a path begins with `/`").help(format!("write `{method} /{path}`"))
            );
        }
        [path] if path.starts_with('*') => {
            return Err(Wrong::new("a path begins with `/`").help("write `/**` for all"));
        }
        [first, ..] => {
            let meant = nearest(first, ["from", "route"]).or_else(|| trap::meant_method(first));
            let wrong = Wrong::new(format!("`{text}` is not a matcher"));
            return Err(if meant.is_some() {
                wrong.meant(meant)
            } else {
                wrong.help(FORMS)
            });
        }
        [] => return Err(Wrong::new("a matcher is missing").help(FORMS)),
    }
    matcher.methods = MethodSet::new(methods.clone());
    Ok((matcher, methods))
}

const STAR: &str = "in a path `*` is one whole segment and `**` any number of them";

fn path(text: &str) -> Result<PathPattern, Wrong> {
    let mut partial = text
        .split('/')
        .filter(|segment| segment.contains('*') && !matches!(*segment, "*" | "**"));
    match partial.next() {
        Some(segment) => {
            Err(Wrong::new(format!("`{segment}` is not a segment of a path")).help(STAR))
        }
        None => PathPattern::parse(text).map_err(Wrong::new),
    }
}

fn method(text: &str) -> Result<Method, Wrong> {
    let upper = text.to_ascii_uppercase();
    if upper != text {
        return Err(Wrong::new(format!("`{text}` is not a method")).meant(Some(&upper)));
    }
    if !trap::METHODS.contains(&text)
        && let Some(meant) = trap::meant_method(text)
    {
        return Err(Wrong::new(format!("`{text}` is not a method")).meant(Some(meant)));
    }
    Method::from_bytes(text.as_bytes())
        .ok()
        .ok_or_else(|| Wrong::new(format!("`{text}` is not a method")))
}

/// The mapping form: all that is given holds, and of each list any one.
fn mapping(node: &Node, found: &mut Findings) -> Option<Typed> {
    let fields = Fields::open(node, &MAPPING, found)?;
    let mut said = Vec::new();
    let mut matcher = Matcher {
        hosts: values(&fields, "host", host, &mut said, found),
        paths: values(&fields, "path", path, &mut said, found),
        from: values(&fields, "from", cidr, &mut said, found),
        ..Matcher::default()
    };
    let methods = values(&fields, "method", method, &mut said, found);
    matcher.methods = MethodSet::new(methods.clone());
    if let Some(node) = fields.get("header") {
        matcher.headers = headers(node, &mut said, found);
    }
    if said.is_empty() {
        if let Kind::Mapping(entries) = &node.kind
            && entries.is_empty()
        {
            found
                .error(node.span, "this matcher says nothing")
                .help("`/**` matches every path");
        }
        return None;
    }
    Some(Typed {
        matcher,
        words: said.join(", "),
        methods,
        span: node.span,
    })
}

fn host(text: &str) -> Result<HostPattern, Wrong> {
    HostPattern::parse(text).map_err(Wrong::new)
}

/// The values of one field, each read by `read`.
fn values<T>(
    fields: &Fields<'_>,
    name: &str,
    read: fn(&str) -> Result<T, Wrong>,
    said: &mut Vec<String>,
    found: &mut Findings,
) -> Vec<T> {
    let Some((_, node)) = fields.entry(name) else {
        return Vec::new();
    };
    let items = decode::one_or_many(node);
    if items.is_empty() || node.is_empty() {
        found
            .error(node.span, format!("`{name}` has no value"))
            .help("leave the field out");
        return Vec::new();
    }
    let texts: Vec<&str> = items.iter().filter_map(Node::text).collect();
    said.push(format!("{name} {}", texts.join(" or ")));
    items
        .iter()
        .filter_map(|item| decode::parsed(item, name, read, found))
        .map(|At { value, .. }| value)
        .collect()
}

fn headers(node: &Node, said: &mut Vec<String>, found: &mut Findings) -> Vec<HeaderMatcher> {
    let Kind::Mapping(entries) = &node.kind else {
        found
            .error(node.span, "`header` is a mapping of names to values")
            .help("as `{X-Beta: \"1\", X-Trace: present}`");
        return Vec::new();
    };
    let mut matchers = Vec::new();
    for (key, value) in entries {
        let Some(name) = decode::parsed(key, "a header", header, found) else {
            continue;
        };
        let tests: Vec<HeaderTest> = decode::one_or_many(value)
            .iter()
            .filter_map(|value| header_test(value, found))
            .collect();
        if tests.is_empty() {
            if decode::one_or_many(value).is_empty() {
                found.error(value.span, "an empty list matches nothing");
            }
            continue;
        }
        said.push(format!("header {}", titled(&name.value)));
        matchers.push(HeaderMatcher {
            name: name.value,
            tests,
        });
    }
    matchers
}

fn header_test(node: &Node, found: &mut Findings) -> Option<HeaderTest> {
    if matches!(&node.kind, Kind::Scalar { text, style: Style::Plain } if text == "present") {
        return Some(HeaderTest::Present);
    }
    let text = decode::text(node, "a header's value", found)?;
    match HeaderValue::from_str(text.trim()) {
        Ok(value) => Some(HeaderTest::Is(value)),
        Err(_) => {
            found.error(node.span, "this is not the value of a header");
            None
        }
    }
}
