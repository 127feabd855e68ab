//! `paths`.

use super::super::decode::{self, Fields, Shape};
use super::super::node::Node;
use super::super::report::Findings;
use crate::route::{Case, EncodedSlash, Parameters, PathRules, TrailingSlash};

/// How paths are normalised.
pub(super) fn paths(node: &Node, found: &mut Findings) -> PathRules {
    const PATHS: Shape = Shape {
        what: "`paths`",
        known: &["case", "trailing_slash", "parameters", "encoded_slash"],
        later: &[],
    };
    let Some(fields) = Fields::open(node, &PATHS, found) else {
        return PathRules::default();
    };
    let mut rules = PathRules::default();
    if let Some(node) = fields.get("case") {
        let words = [("exact", Case::Exact), ("fold", Case::Fold)];
        rules.case = decode::word(node, "a rule for case", &words, &[], found)
            .map(|at| at.value)
            .unwrap_or_default();
    }
    if let Some(node) = fields.get("trailing_slash") {
        let words = [
            ("exact", TrailingSlash::Exact),
            ("strip", TrailingSlash::Strip),
        ];
        let rule = decode::word(node, "a rule for the last slash", &words, &[], found);
        rules.trailing_slash = rule.map(|at| at.value).unwrap_or_default();
    }
    if let Some(node) = fields.get("parameters") {
        let words = [("keep", Parameters::Keep), ("strip", Parameters::Strip)];
        let rule = decode::word(node, "a rule for parameters", &words, &[], found);
        rules.parameters = rule.map(|at| at.value).unwrap_or_default();
    }
    if let Some(node) = fields.get("encoded_slash") {
        let words = [
            ("keep", EncodedSlash::Keep),
            ("reject", EncodedSlash::Reject),
            ("decode", EncodedSlash::Decode),
        ];
        let rule = decode::word(node, "a rule for `%2F`", &words, &[], found);
        rules.encoded_slash = rule.map(|at| at.value).unwrap_or_default();
    }
    rules
}
