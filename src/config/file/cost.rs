//! `cost`: what a request costs a limit.

use std::sync::Arc;

use super::super::decode::{self, At};
use super::super::key::{header, titled};
use super::super::matcher::{self, Place, Typed};
use super::super::nearest::nearest;
use super::super::node::{Kind, Node};
use super::super::report::Findings;
use super::super::units::{Wrong, number};
use crate::limit::Cost;
use crate::policy::{AnswerCost, CostPlace, CostRule, RequestCost};

/// A cost, as it was typed.
#[derive(Clone, Debug)]
pub(in crate::config) enum CostDecl {
    /// A number or a sentence.
    Rule(CostRule),
    /// Matchers, each with what it costs.
    Kinds {
        kinds: Vec<(Typed, Cost)>,
        otherwise: Cost,
    },
}

const FORMS: &str = "a cost is a number, `request header NAME, at most N, else M`, `response header NAME, at most N`, \
                     `response trailer NAME, at most N`, `response json NAME.NAME, at most N`, or a mapping of matchers to \
                     numbers";
const MOST: u64 = u32::MAX as u64;
const OTHERWISE: &str = "otherwise";

/// Reads a `cost`.
pub(super) fn cost(node: &Node, found: &mut Findings) -> Option<At<CostDecl>> {
    let value = match &node.kind {
        Kind::Mapping(entries) => kinds(node, entries, found)?,
        Kind::Sequence(_) => {
            found.error(node.span, "a cost is not a list").help(FORMS);
            return None;
        }
        Kind::Scalar { .. } => {
            let text = decode::text(node, "a cost", found)?;
            CostDecl::Rule(found.take(node.span, rule(text))?)
        }
    };
    Some(At {
        value,
        span: node.span,
    })
}

/// `{POST /search: 10, otherwise: 1}`.
fn kinds(node: &Node, entries: &[(Node, Node)], found: &mut Findings) -> Option<CostDecl> {
    let mut kinds = Vec::new();
    let mut otherwise = Cost::ONE;
    let mut whole = true;
    for (key, value) in entries {
        let cost = decode::parsed(value, "a cost", units, found).map(|at| at.value);
        whole &= cost.is_some();
        if key.text() == Some(OTHERWISE) {
            otherwise = cost.unwrap_or(otherwise);
            continue;
        }
        if let Some(word) = key.text().and_then(|word| nearest(word, [OTHERWISE])) {
            let title = format!("`{}` is not a matcher", key.text().unwrap_or_default());
            found.error(key.span, title).meant(Some(word));
            whole = false;
            continue;
        }
        let typed = matcher::list(key, Place::Elsewhere, found);
        whole &= !typed.is_empty();
        kinds.extend(typed.into_iter().zip(cost));
    }
    if entries.is_empty() {
        found
            .error(node.span, "an empty mapping costs nothing")
            .help("leave `cost` out: each request costs 1");
        whole = false;
    }
    whole.then_some(CostDecl::Kinds { kinds, otherwise })
}

/// A number or a sentence.
fn rule(text: &str) -> Result<CostRule, Wrong> {
    if text.starts_with(|first: char| first.is_ascii_digit() || matches!(first, '-' | '+')) {
        return units(text).map(CostRule::Fixed);
    }
    let pieces: Vec<&str> = text.split(',').map(str::trim).collect();
    let (source, bounds) = pieces.split_first().unwrap_or((&"", &[]));
    let words: Vec<&str> = source.split_whitespace().collect();
    match words.as_slice() {
        ["request", "header", name] => {
            let (most, otherwise) = request_bounds(text, bounds)?;
            Ok(CostRule::Request(RequestCost {
                name: header(name)?,
                most,
                otherwise,
            }))
        }
        ["response", place @ ("header" | "trailer" | "json"), name] => {
            let most = answer_bound(text, bounds)?;
            let place = match *place {
                "header" => CostPlace::Header(header(name)?),
                "trailer" => CostPlace::Trailer(header(name)?),
                _ => CostPlace::Json(path(name)?),
            };
            Ok(CostRule::Answer(Arc::new(AnswerCost { most, place })))
        }
        _ => Err(not_a_cost(text, &words)),
    }
}

fn not_a_cost(text: &str, words: &[&str]) -> Wrong {
    let wrong = Wrong::new(format!("`{text}` is not a cost")).help(FORMS);
    let (first, second) = (
        words.first().copied().unwrap_or_default(),
        words.get(1).copied().unwrap_or_default(),
    );
    let sides = ["request", "response"];
    let meant = nearest(first, sides).filter(|word| *word != first);
    let places = match first {
        "request" => &["header"][..],
        "response" => &["header", "trailer", "json"],
        _ => &[],
    };
    let place = nearest(second, places.iter().copied()).filter(|word| *word != second);
    match meant.or(place) {
        Some(word) => Wrong::new(format!("`{text}` is not a cost")).meant(Some(word)),
        None => wrong,
    }
}

/// `at most N, else M`.
fn request_bounds(text: &str, bounds: &[&str]) -> Result<(Cost, Cost), Wrong> {
    let [most, otherwise] = bounds else {
        return Err(Wrong::new(format!(
            "`{text}` does not say what a request costs at most, and what it costs where the header does not say"
        ))
        .help("as `request header NAME, at most 50, else 1`"));
    };
    let (most, otherwise) = (at_most(most)?, behind("else", otherwise)?);
    if otherwise > most {
        return Err(Wrong::new(format!(
            "at most {}, and {} where the header does not say",
            most.get(),
            otherwise.get()
        ))
        .help("what stands after `else` is not above what stands after `at most`"));
    }
    Ok((most, otherwise))
}

/// `at most N`.
fn answer_bound(text: &str, bounds: &[&str]) -> Result<Cost, Wrong> {
    match bounds {
        [most] => at_most(most),
        [] => Err(Wrong::new(format!(
            "`{text}` does not say what is charged until the answer says what it cost"
        ))
        .help(format!("as `{text}, at most 200`"))),
        _ => Err(Wrong::new(format!(
            "`{text}` says more than where the cost stands and what it is at most"
        ))
        .help("an answer that does not say what it cost is charged what stands after `at most`")),
    }
}

fn at_most(text: &str) -> Result<Cost, Wrong> {
    behind("at most", text)
}

/// The number behind a word.
fn behind(word: &str, text: &str) -> Result<Cost, Wrong> {
    match text.strip_prefix(word).filter(|rest| rest.starts_with(' ')) {
        Some(rest) => units(rest.trim()),
        None => {
            Err(Wrong::new(format!("`{text}` stands where `{word} N` is expected")).help(FORMS))
        }
    }
}

/// A cost from 1 to 2^32 - 1.
fn units(text: &str) -> Result<Cost, Wrong> {
    let units = number(text)?;
    match u32::try_from(units) {
        Ok(0) => Err(Wrong::new("a cost of 0 would count nothing")
            .help("a cost is at least 1; `except` takes requests out of a limit")),
        Ok(units) => Ok(Cost::new(units)),
        Err(_) => Err(Wrong::new(format!("a cost is 1 to {MOST}, not {units}"))),
    }
}

/// `usage.total_tokens`.
fn path(text: &str) -> Result<Vec<String>, Wrong> {
    let names: Vec<String> = text.split('.').map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err(Wrong::new(format!("`{text}` is not a path of names"))
            .help("the names of the members from the outermost to the number, with dots: `usage.total_tokens`"));
    }
    Ok(names)
}

impl CostDecl {
    /// For people; none: every request costs 1.
    pub(in crate::config) fn words(&self) -> Option<String> {
        let rule = match self {
            Self::Kinds { kinds, otherwise } => {
                let kinds = kinds
                    .iter()
                    .map(|(typed, cost)| format!("{} costs {}", typed.words, cost.get()));
                let kinds = kinds.collect::<Vec<_>>().join(", ");
                return Some(format!("{kinds}, any other request {}", otherwise.get()));
            }
            Self::Rule(rule) => rule,
        };
        match rule {
            CostRule::Fixed(cost) if *cost == Cost::ONE => None,
            CostRule::Fixed(cost) => Some(format!("a request costs {}", cost.get())),
            CostRule::Request(request) => Some(format!(
                "a request costs what a trusted proxy says in {}, at most {}, and {} where none does",
                titled(&request.name),
                request.most.get(),
                request.otherwise.get()
            )),
            CostRule::Answer(answer) => {
                let place = match &answer.place {
                    CostPlace::Header(name) => format!("in its header {}", titled(name)),
                    CostPlace::Trailer(name) => format!("in its trailer {}", titled(name)),
                    CostPlace::Json(path) => format!("in its JSON at {}", path.join(".")),
                };
                Some(format!(
                    "a request is charged {} until the answer says {place} what it cost",
                    answer.most.get()
                ))
            }
            CostRule::Matched(_) => None,
        }
    }

    /// Whether the answer says it.
    pub(in crate::config) fn is_of_answer(&self) -> bool {
        matches!(self, Self::Rule(CostRule::Answer(_)))
    }
}
