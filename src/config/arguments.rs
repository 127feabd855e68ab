//! `--limit '[METHOD] [PATH:] ALLOW per KEY'`, for a gateway without a file.
//!
//! The arguments become the tree that a file would have been, so that they mean the same and are reported the same.

use super::node::{Kind, Node, Style};
use super::report::{Findings, Source, Span};
use super::trap;

/// The tree of `upstream: TO` and a limit for each of `limits`, called `limit-1` and so on.
pub(super) fn tree(to: &str, limits: &[String], found: &mut Findings) -> (Node, Vec<Source>) {
    let mut sources = vec![Source {
        name: "--to".to_owned(),
        text: to.to_owned(),
    }];
    let whole = |source: usize, text: &str| Span {
        source,
        start: 0,
        end: text.len(),
    };
    let mut named = Vec::new();
    for (index, text) in limits.iter().enumerate() {
        let source = index.saturating_add(1);
        sources.push(Source {
            name: "--limit".to_owned(),
            text: text.clone(),
        });
        let span = whole(source, text);
        let Some(fields) = limit(text, span, found) else {
            continue;
        };
        let name = scalar(format!("limit-{source}"), span);
        named.push((
            name,
            Node {
                span,
                kind: Kind::Mapping(fields),
            },
        ));
    }
    let span = whole(0, to);
    let mut top = vec![(scalar("upstream", span), scalar(to, span))];
    if !limits.is_empty() {
        top.push((
            scalar("limits", span),
            Node {
                span,
                kind: Kind::Mapping(named),
            },
        ));
    }
    (
        Node {
            span,
            kind: Kind::Mapping(top),
        },
        sources,
    )
}

/// The fields of one limit.
fn limit(text: &str, span: Span, found: &mut Findings) -> Option<Vec<(Node, Node)>> {
    let Some((rest, key)) = text
        .rsplit_once(" per ")
        .filter(|(rest, _)| rest.contains(" per ") || has_rate(rest))
    else {
        found
            .error(span, "this limit says no key")
            .help("write `100 per minute per ip`");
        return None;
    };
    let (matcher, allow) = split(rest);
    let part = |part: &str| Span {
        start: place(text, part),
        end: place(text, part).saturating_add(part.len()),
        ..span
    };
    let mut fields = Vec::new();
    if !matcher.is_empty() {
        let value = match matcher.contains('/') {
            true => scalar(matcher, part(matcher)),
            false => methods(matcher, part(matcher)),
        };
        fields.push((scalar("when", part(matcher)), value));
    }
    let keys = key
        .split(',')
        .map(str::trim)
        .map(|key| scalar(key, part(key)))
        .collect();
    fields.push((
        scalar("per", part(key)),
        Node {
            span: part(key),
            kind: Kind::Sequence(keys),
        },
    ));
    fields.push((scalar("allow", part(allow)), scalar(allow, part(allow))));
    Some(fields)
}

/// Whether an amount is written without "per".
fn has_rate(text: &str) -> bool {
    let (_, allow) = split(text);
    allow
        .split(',')
        .next()
        .is_some_and(|rate| rate.contains('/'))
        || allow.trim() == "unlimited"
        || allow.trim().ends_with(" concurrent")
}

/// Takes `[METHOD] [PATH:]` off.
fn split(text: &str) -> (&str, &str) {
    if let Some((matcher, allow)) = text.split_once(": ") {
        return (matcher.trim(), allow.trim());
    }
    match text.trim().split_once(' ') {
        Some((first, allow))
            if first
                .split(',')
                .all(|method| trap::METHODS.contains(&method)) =>
        {
            (first, allow.trim())
        }
        _ => ("", text.trim()),
    }
}

/// A matcher of methods alone.
fn methods(text: &str, span: Span) -> Node {
    let list = text.split(',').map(|method| scalar(method, span)).collect();
    let value = Node {
        span,
        kind: Kind::Sequence(list),
    };
    Node {
        span,
        kind: Kind::Mapping(vec![(scalar("method", span), value)]),
    }
}

/// Where `part`, a slice of `text`, begins.
fn place(text: &str, part: &str) -> usize {
    text.match_indices(part)
        .map(|(at, _)| at)
        .find(|at| {
            text.get(*at..)
                .is_some_and(|rest| std::ptr::eq(rest.as_ptr(), part.as_ptr()))
        })
        .unwrap_or(0)
}

fn scalar(text: impl Into<String>, span: Span) -> Node {
    Node {
        span,
        kind: Kind::Scalar {
            text: text.into(),
            style: Style::Plain,
        },
    }
}
