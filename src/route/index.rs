//! Many matchers, found without trying them all: by host, then by path, and only then by what else they ask.

#[cfg(test)]
mod tests;
mod trie;

use std::borrow::Cow;
use std::collections::BTreeMap;

use smallvec::SmallVec;

use self::trie::Trie;
use super::path::segments;
use super::{HostPattern, Matcher, PathPattern, Width};
use crate::request::{Facts, Params, Target, fold_value};

/// An ordered index over host and path.
#[derive(Clone, Debug, PartialEq)]
pub struct Index {
    width: Width,
    /// By the number of the entry.
    matchers: Vec<(usize, Matcher)>,
    /// In the order of `matchers`; one for each path of a matcher.
    rows: Vec<Row>,
    any_host: Paths,
    hosts: BTreeMap<Box<str>, Paths>,
    /// By a suffix that begins with a dot.
    subdomains: BTreeMap<Box<str>, Paths>,
}

/// A matcher with one of its paths.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    /// Index into `Index::matchers`.
    matcher: usize,
    /// None: every path, and `*`.
    path: Option<PathPattern>,
}

/// Rows of one host, by path.
#[derive(Clone, Debug, Default, PartialEq)]
struct Paths {
    every: Vec<usize>,
    trie: Trie,
}

/// Numbers of rows.
type Rows = SmallVec<[usize; 16]>;

/// An entry whose matcher holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit<'r> {
    /// The number that the entry was given.
    pub entry: usize,
    /// What its path pattern captured: from the exact reading, or in a wide index from the wide one.
    pub params: Params<'r>,
}

impl Index {
    /// An index over pairs of an entry's number and one of its matchers; entries with several matchers come several times.
    #[must_use]
    pub fn new(width: Width, matchers: impl IntoIterator<Item = (usize, Matcher)>) -> Self {
        let mut matchers: Vec<_> = matchers.into_iter().collect();
        matchers.sort_by_key(|(entry, _)| *entry);
        let mut index = Self {
            width,
            matchers: Vec::new(),
            rows: Vec::new(),
            any_host: Paths::default(),
            hosts: BTreeMap::new(),
            subdomains: BTreeMap::new(),
        };
        for (number, (_, matcher)) in matchers.iter().enumerate() {
            if matcher.paths.is_empty() {
                index.insert(
                    &matcher.hosts,
                    Row {
                        matcher: number,
                        path: None,
                    },
                );
            }
            for path in &matcher.paths {
                let path = match width {
                    Width::Exact => path.clone(),
                    Width::Wide => path.wide(),
                };
                index.insert(
                    &matcher.hosts,
                    Row {
                        matcher: number,
                        path: Some(path),
                    },
                );
            }
        }
        index.matchers = matchers;
        index
    }

    fn insert(&mut self, hosts: &[HostPattern], row: Row) {
        let number = self.rows.len();
        if hosts.is_empty() {
            self.any_host.insert(&row, number);
        }
        for host in hosts {
            let (map, text) = match host {
                HostPattern::Exact(host) => (&mut self.hosts, host),
                HostPattern::Subdomains(suffix) => (&mut self.subdomains, suffix),
            };
            map.entry(text.clone()).or_default().insert(&row, number);
        }
        self.rows.push(row);
    }

    /// Whether there is no entry.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The matching entry with the smallest number.
    #[must_use]
    pub fn first<'r>(&'r self, facts: &Facts<'r>) -> Option<Hit<'r>> {
        self.candidates(facts)
            .iter()
            .find_map(|row| self.hit(*row, facts))
    }

    /// Every matching entry once, by number. Where several of an entry's matchers hold, the first of them captures.
    #[must_use]
    pub fn all<'r>(&'r self, facts: &Facts<'r>) -> SmallVec<[Hit<'r>; 4]> {
        let mut hits: SmallVec<[Hit<'r>; 4]> = SmallVec::new();
        for row in self.candidates(facts) {
            let entry = self.entry(row);
            if hits.last().is_none_or(|last| Some(last.entry) != entry) {
                hits.extend(self.hit(row, facts));
            }
        }
        hits
    }

    fn entry(&self, row: usize) -> Option<usize> {
        let row = self.rows.get(row)?;
        self.matchers.get(row.matcher).map(|(entry, _)| *entry)
    }

    /// The rows whose host and path match, in order and each once.
    fn candidates(&self, facts: &Facts<'_>) -> Rows {
        let mut found = Rows::new();
        if self.is_empty() {
            return found;
        }
        let host = facts.host_name();
        self.any_host.find(self.width, facts.target, &mut found);
        if let Some(paths) = self.hosts.get(host) {
            paths.find(self.width, facts.target, &mut found);
        }
        if !self.subdomains.is_empty() {
            for (dot, _) in host.match_indices('.').filter(|(dot, _)| *dot > 0) {
                if let Some(paths) = self.subdomains.get(&host[dot..]) {
                    paths.find(self.width, facts.target, &mut found);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The hit of a row whose host and path match, if the rest of its matcher holds too.
    fn hit<'r>(&'r self, row: usize, facts: &Facts<'r>) -> Option<Hit<'r>> {
        let row = self.rows.get(row)?;
        let (entry, matcher) = self.matchers.get(row.matcher)?;
        if !matcher.matches_rest(self.width, facts) {
            return None;
        }
        let params = match &row.path {
            Some(path) if path.params().next().is_some() => self.capture(path, facts.target),
            _ => Params::new(),
        };
        Some(Hit {
            entry: *entry,
            params,
        })
    }

    fn capture<'r>(&self, path: &'r PathPattern, target: &'r Target) -> Params<'r> {
        let reading = match self.width {
            Width::Exact => &target.exact,
            Width::Wide => &target.wide,
        };
        let plain: SmallVec<[Cow<'r, str>; 16]> = segments(reading).map(Cow::Borrowed).collect();
        path.capture(&plain)
            .or_else(|| path.capture(&as_sent(target).collect::<SmallVec<[_; 16]>>()))
            .unwrap_or_default()
    }
}

impl Paths {
    fn insert(&mut self, row: &Row, number: usize) {
        match &row.path {
            Some(path) => self.trie.insert(path, number),
            None => self.every.push(number),
        }
    }

    fn find(&self, width: Width, target: &Target, found: &mut Rows) {
        found.extend_from_slice(&self.every);
        if self.trie.is_empty() || target.exact == "*" {
            return;
        }
        match width {
            Width::Exact => self.trie.walk(segments(&target.exact), found),
            Width::Wide => {
                self.trie.walk(segments(&target.wide), found);
                // To an origin that keeps `a%2Fb` or `...` as one segment, `/*` is about it: it must not slip through.
                if target.exact != target.wide && !as_sent(target).eq(segments(&target.wide)) {
                    self.trie.walk(as_sent(target), found);
                }
            }
        }
    }
}

/// The segments of the exact reading, each folded on its own.
fn as_sent(target: &Target) -> impl Iterator<Item = Cow<'_, str>> {
    segments(&target.exact)
        .filter(|segment| !segment.is_empty())
        .map(fold_value)
}
