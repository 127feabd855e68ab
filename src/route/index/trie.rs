//! A tree over the segments of path patterns, walked once for a path whatever the number of patterns.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::Rows;
use crate::route::path::{PathPattern, Step};

/// Patterns by their segments.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trie {
    /// The first is the root; empty when no pattern is here.
    nodes: Vec<Node>,
}

/// What may follow the segments up to here.
#[derive(Clone, Debug, Default, PartialEq)]
struct Node {
    literals: BTreeMap<Box<str>, usize>,
    one: Option<usize>,
    any: Option<usize>,
    /// A `**` leads here: it stays while further segments pass.
    stays: bool,
    /// Rows whose pattern ends here.
    rows: Vec<usize>,
}

/// Nodes that are reached at once; each at most once.
type Reached = SmallVec<[usize; 16]>;

const ROOT: usize = 0;

impl Trie {
    pub(super) const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub(super) fn insert(&mut self, pattern: &PathPattern, row: usize) {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = ROOT;
        for step in pattern.steps() {
            let new = self.nodes.len();
            let node = &mut self.nodes[at];
            at = match step {
                Step::Literal(text) => *node.literals.entry(text.clone()).or_insert(new),
                Step::One | Step::Param(_) => *node.one.get_or_insert(new),
                Step::Any => *node.any.get_or_insert(new),
            };
            if at == new {
                self.nodes.push(Node {
                    stays: *step == Step::Any,
                    ..Node::default()
                });
            }
        }
        self.nodes[at].rows.push(row);
    }

    /// Adds the rows whose pattern matches these segments. All nodes that a path can reach advance together, so that
    /// patterns with several `**` cost no more than their number.
    pub(super) fn walk(&self, segments: impl Iterator<Item: AsRef<str>>, found: &mut Rows) {
        let mut reached = Reached::new();
        let mut next = Reached::new();
        self.enter(ROOT, &mut reached);
        for segment in segments {
            let segment = segment.as_ref();
            for at in &reached {
                let node = &self.nodes[*at];
                if node.stays {
                    self.enter(*at, &mut next);
                }
                if let Some(child) = node.literals.get(segment) {
                    self.enter(*child, &mut next);
                }
                if let (Some(child), false) = (node.one, segment.is_empty()) {
                    self.enter(child, &mut next);
                }
            }
            std::mem::swap(&mut reached, &mut next);
            next.clear();
            if reached.is_empty() {
                return;
            }
        }
        for at in reached {
            found.extend_from_slice(&self.nodes[at].rows);
        }
    }

    /// Reaches a node, and at once the one behind its `**`, which may take no segment.
    fn enter(&self, at: usize, reached: &mut Reached) {
        let mut at = Some(at);
        while let Some(node) = at.filter(|node| !reached.contains(node)) {
            reached.push(node);
            at = self.nodes[node].any;
        }
    }
}
