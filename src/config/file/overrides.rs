//! `overrides`: what single keys get.

use super::super::decode::{self, At, Fields, Shape};
use super::super::key::Per;
use super::super::node::{Kind, Node, Style};
use super::super::report::{Findings, Span};
use super::amounts::{Allow, allow};
use crate::limit::key::Source;

/// What one key gets, as it was typed.
#[derive(Clone, Debug)]
pub(in crate::config) struct OverrideDecl {
    pub(in crate::config) span: Span,
    /// As many as `per` has parts, in its order.
    pub(in crate::config) key: Vec<At<String>>,
    /// None: `skip`.
    pub(in crate::config) allow: Option<Allow>,
}

const OVERRIDE: Shape = Shape {
    what: "an override",
    known: &["key", "allow", "skip"],
    later: &[],
};
const FORM: &str = "as `- {key: acme, allow: 1000 per minute}` or `- {key: acme, skip: true}`";

/// A list of overrides, or the lines of a table. Nothing is read where `per` is not known: its own error says enough.
pub(super) fn overrides(node: &Node, per: Option<&Per>, found: &mut Findings) -> Vec<OverrideDecl> {
    if node.text().is_some() {
        found
            .error(node.span, "`overrides` is a list, or `file:overrides.csv`")
            .help(FORM);
        return Vec::new();
    }
    let mut all = Vec::new();
    for item in decode::one_or_many(node) {
        let row = match &item.kind {
            Kind::Sequence(cells) if cells.iter().all(is_cell) => Some(cells),
            Kind::Sequence(_) | Kind::Scalar { .. } | Kind::Mapping(_) => None,
        };
        all.extend(match (row, per) {
            (Some(cells), Some(per)) => line(item.span, cells, per, found),
            // Which of its cells are the key is not known.
            (Some(_), None) => None,
            (None, _) => entry(item, per, found),
        });
    }
    all
}

fn is_cell(node: &Node) -> bool {
    matches!(
        node.kind,
        Kind::Scalar {
            style: Style::Cell,
            ..
        }
    )
}

/// `KEY[,KEY],AMOUNT[,AMOUNT]` or `KEY[,KEY],skip`.
fn line(span: Span, cells: &[Node], per: &Per, found: &mut Findings) -> Option<OverrideDecl> {
    let parts = per.parts.len();
    let (key, amounts) = cells.split_at_checked(parts).unwrap_or((cells, &[]));
    let key = texts(key, Some(per), found)?;
    let allow = match amounts {
        [] => {
            let what = match parts {
                1 => "a key and an amount".to_owned(),
                parts => format!("a key of {parts} parts and an amount"),
            };
            found
                .error(span, format!("a line is {what}"))
                .help("as `acme,1000 per minute` or `acme,skip`");
            return None;
        }
        [skip] if skip.text() == Some("skip") => None,
        amounts => {
            let node = Node {
                span,
                kind: Kind::Sequence(amounts.to_vec()),
            };
            Some(allow(&node, found)?)
        }
    };
    Some(OverrideDecl { span, key, allow })
}

/// `{key, allow}` or `{key, skip: true}`.
fn entry(node: &Node, per: Option<&Per>, found: &mut Findings) -> Option<OverrideDecl> {
    let fields = Fields::open(node, &OVERRIDE, found)?;
    let key = match fields.get("key") {
        Some(key) => texts(decode::one_or_many(key), per, found).map(|texts| (key.span, texts)),
        None => {
            found
                .error(node.span, "an override needs its `key`")
                .help(FORM);
            None
        }
    };
    let skip = match fields.get("skip") {
        None => false,
        Some(skip) if matches!(skip.text(), Some("true" | "on")) => true,
        Some(skip) => {
            found
                .error(skip.span, "`skip` is `true`, or left out")
                .help(FORM);
            return None;
        }
    };
    let allow = match (fields.get("allow"), skip) {
        (Some(amount), false) => Some(allow(amount, found)?),
        (None, true) => None,
        (Some(amount), true) => {
            found.error(amount.span, "a key that is skipped has no amount");
            return None;
        }
        (None, false) => {
            found
                .error(node.span, "an override needs `allow`, or `skip: true`")
                .help(FORM);
            return None;
        }
    };
    let (span, key) = key?;
    let (typed, parts) = (key.len(), per?.parts.len());
    if typed != parts {
        let parts = match parts {
            1 => "1 part".to_owned(),
            parts => format!("{parts} parts"),
        };
        found
            .error(span, format!("`per` has {parts}, and this key has {typed}"))
            .help("a key of several parts is a list, in the order of `per`");
        return None;
    }
    Some(OverrideDecl { span, key, allow })
}

/// The parts of a key. What may be a credential is kept out of every report.
fn texts(nodes: &[Node], per: Option<&Per>, found: &mut Findings) -> Option<Vec<At<String>>> {
    let mut texts = Vec::new();
    let mut whole = true;
    for (at, node) in nodes.iter().enumerate() {
        let part = per.and_then(|per| per.parts.get(at));
        let harmless = part.is_some_and(|part| part.iter().all(is_harmless));
        let hashed = node.text().is_some_and(|text| text.starts_with("sha256:"));
        if !harmless && !hashed {
            found.hide(node.span);
        }
        match decode::text(node, "a key", found) {
            Some(text) if text.trim().is_empty() => {
                found.error(node.span, "a key is not empty").help(
                    "a request without a key has no override; `if_missing` says what it gets",
                );
                whole = false;
            }
            Some(text) => texts.push(At {
                value: text.to_owned(),
                span: node.span,
            }),
            None => whole = false,
        }
    }
    whole.then_some(texts)
}

/// Whether everybody may see a value from there.
fn is_harmless(source: &Source) -> bool {
    match source {
        Source::Header(_)
        | Source::TrustedHeader(_)
        | Source::Cookie(_)
        | Source::Query(_)
        | Source::Param(_)
        | Source::Body(_) => false,
        Source::Ip { .. }
        | Source::Path
        | Source::Method
        | Source::Host
        | Source::Route
        | Source::Everyone => true,
    }
}
