//! Many matchers, found without trying them all.

use super::{Matcher, Width};
use crate::request::{Facts, Params};

/// An ordered index over host and path.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    width: Width,
}

/// An entry whose matcher holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit<'r> {
    /// The number that the entry was given.
    pub entry: usize,
    /// What its path pattern captured.
    pub params: Params<'r>,
}

impl Index {
    /// An index over pairs of an entry's number and one of its matchers; entries with several matchers come several times.
    #[must_use]
    pub fn new(width: Width, _matchers: impl IntoIterator<Item = (usize, Matcher)>) -> Self {
        Self { width }
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        true
    }

    /// The matching entry with the smallest number.
    #[must_use]
    pub fn first<'r>(&'r self, _facts: &Facts<'r>) -> Option<Hit<'r>> {
        None
    }

    /// Every matching entry once, by number.
    #[must_use]
    pub fn all<'r>(&'r self, _facts: &Facts<'r>) -> smallvec::SmallVec<[Hit<'r>; 4]> {
        smallvec::SmallVec::new()
    }
}
