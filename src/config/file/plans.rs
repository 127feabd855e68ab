//! `plan` and `plans`: where a request's plan comes from, and what each plan allows.

use super::super::decode::{self, At};
use super::super::key;
use super::super::node::{Kind, Node};
use super::super::report::{Findings, Span};
use super::super::trap;
use super::super::units::Wrong;
use super::amounts::{Allow, allow};
use crate::limit::key::Source;

/// Where a request's plan comes from.
#[derive(Clone, Debug)]
pub(in crate::config) struct PlanSource {
    /// The first that is there counts.
    pub(in crate::config) sources: Vec<Source>,
    /// For people.
    pub(in crate::config) words: String,
}

/// The plans of a limit.
#[derive(Clone, Debug)]
pub(in crate::config) struct PlansDecl {
    pub(in crate::config) span: Span,
    /// None: what the top of the file says.
    pub(in crate::config) from: Option<At<PlanSource>>,
    /// Each with its name, in the order of the file.
    pub(in crate::config) listed: Vec<(At<String>, Allow)>,
}

/// Where a plan comes from: the words of `per` that say who asks.
pub(super) fn source(node: &Node, ipv6_prefix: u8, found: &mut Findings) -> Option<At<PlanSource>> {
    let read = |text: &str| {
        let sources = key::alternatives(text, ipv6_prefix)?;
        let names_a_plan = |source: &Source| {
            !matches!(
                source,
                Source::Ip { .. }
                    | Source::Path
                    | Source::Method
                    | Source::Everyone
                    | Source::Body(_)
            )
        };
        if !sources.iter().all(names_a_plan) {
            return Err(Wrong::new(format!("`{text}` does not name a plan"))
                .help("as `trusted header X-Plan`, which only `trusted_proxies` can set"));
        }
        let words: Vec<String> = sources
            .iter()
            .map(|source| key::in_words(source, ipv6_prefix))
            .collect();
        Ok(PlanSource {
            words: words.join(" or "),
            sources,
        })
    };
    decode::parsed(node, "where a plan comes from", read, found)
}

/// `{free: 100 per minute, pro: 1000 per minute}`.
pub(super) fn plans(node: &Node, ipv6_prefix: u8, found: &mut Findings) -> Option<PlansDecl> {
    let Kind::Mapping(entries) = &node.kind else {
        found
            .error(node.span, "`plans` is a mapping of plans to amounts")
            .help("as `plans: {free: 100 per minute, pro: 1000 per minute}`");
        return None;
    };
    let mut decl = PlansDecl {
        span: node.span,
        from: None,
        listed: Vec::new(),
    };
    let mut whole = true;
    for (key, value) in entries {
        match key.text().map(str::trim) {
            Some("from") => {
                decl.from = source(value, ipv6_prefix, found);
                whole &= decl.from.is_some();
            }
            Some(name) if trap::cut_by_comma(name) => {
                found.error(key.span, trap::COMMA);
                whole = false;
            }
            Some(name) if !name.is_empty() => {
                let name = At {
                    value: name.to_owned(),
                    span: key.span,
                };
                match plan(name, value, &decl.listed, found) {
                    Some(plan) => decl.listed.push(plan),
                    None => whole = false,
                }
            }
            Some(_) | None => {
                found.error(key.span, "the name of a plan is a word");
                whole = false;
            }
        }
    }
    if decl.listed.is_empty() && whole {
        found
            .error(node.span, "no plan is listed")
            .help("as `plans: {free: 100 per minute, pro: 1000 per minute}`");
        whole = false;
    }
    whole.then_some(decl)
}

fn plan(
    name: At<String>,
    value: &Node,
    listed: &[(At<String>, Allow)],
    found: &mut Findings,
) -> Option<(At<String>, Allow)> {
    let first = listed.iter().find(|(other, _)| other.value == name.value);
    if let Some((first, _)) = first {
        found
            .error(
                name.span,
                format!("the plan `{}` is listed twice", name.value),
            )
            .also(first.span, "first here");
        return None;
    }
    Some((name, allow(value, found)?))
}
