//! The cells that events count in: relaxed atomics, each written by one worker and read at a scrape.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A number that moves both ways. A worker's part of a sum may be negative: it is kept in two's complement, so that parts
/// are summed by wrapping additions.
#[derive(Debug, Default)]
pub(super) struct Gauge(AtomicU64);

impl Gauge {
    pub(super) fn up(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(super) fn down(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// Sets it, and says whether that changed anything. Reads first: what is set on every request stays a shared line.
    pub(super) fn set(&self, value: u64) -> Changed {
        if self.0.load(Relaxed) == value || self.0.swap(value, Relaxed) == value {
            Changed::No
        } else {
            Changed::Yes
        }
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Whether a gauge took another value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Changed {
    Yes,
    No,
}

/// The most upper bounds that a histogram has.
const MOST_BOUNDS: usize = 15;

/// The upper bounds of a histogram, in whole units of which `per_one` make 1.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Ascending, each inclusive; at most [`MOST_BOUNDS`].
    pub(super) bounds: &'static [u64],
    /// How many units make 1 of what the metric is named after (1 000 000 where units are microseconds).
    pub(super) per_one: u64,
}

/// A histogram with fixed buckets.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: &'static Buckets,
    /// One for each bound and one for what lies above them; not cumulative.
    counts: [AtomicU64; MOST_BOUNDS + 1],
    sum: AtomicU64,
}

impl Histogram {
    pub(super) fn new(buckets: &'static Buckets) -> Self {
        Self {
            buckets,
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
        }
    }

    /// Counts `units`.
    pub(super) fn observe(&self, units: u64) {
        let at = self.buckets.bounds.partition_point(|bound| *bound < units);
        if let Some(count) = self.counts.get(at) {
            count.fetch_add(1, Relaxed);
        }
        self.sum.fetch_add(units, Relaxed);
    }

    /// Counts a span, where units are microseconds.
    pub(super) fn observe_span(&self, span: Duration) {
        self.observe(u64::try_from(span.as_micros()).unwrap_or(u64::MAX));
    }

    pub(super) fn buckets(&self) -> &'static Buckets {
        self.buckets
    }

    /// The counts, one for each bound and one more.
    pub(super) fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts
            .iter()
            .take(self.buckets.bounds.len() + 1)
            .map(|count| count.load(Relaxed))
    }

    pub(super) fn sum(&self) -> u64 {
        self.sum.load(Relaxed)
    }
}

/// A counter for each status code, 100 to 599, and one for all others. A class takes room when its first code comes.
#[derive(Debug, Default)]
pub(super) struct Codes {
    classes: [OnceLock<Box<[Counter]>>; 5],
    other: Counter,
}

impl Codes {
    /// Counts an answer with `code`.
    pub(super) fn add(&self, code: u16) {
        self.cell(code).unwrap_or(&self.other).add(1);
    }

    fn cell(&self, code: u16) -> Option<&Counter> {
        let class = usize::from(code / 100).checked_sub(1)?;
        let class = self.classes.get(class)?;
        class
            .get_or_init(|| (0..100).map(|_| Counter::default()).collect())
            .get(usize::from(code % 100))
    }

    /// Every code that was met, with its count.
    pub(super) fn each(&self, mut visit: impl FnMut(&str, u64)) {
        for (class, cells) in self.classes.iter().enumerate() {
            for (rest, cell) in cells.get().into_iter().flatten().enumerate() {
                if cell.get() > 0 {
                    visit(&(100 * (class + 1) + rest).to_string(), cell.get());
                }
            }
        }
        if self.other.get() > 0 {
            visit("other", self.other.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTHS: Buckets = Buckets {
        bounds: &[1, 5, 10],
        per_one: 10,
    };

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let histogram = Histogram::new(&TENTHS);
        for units in [0, 1, 2, 5, 6, 10, 11, 1000] {
            histogram.observe(units);
        }
        assert_eq!(histogram.counts().collect::<Vec<_>>(), [2, 2, 2, 2]);
        assert_eq!(histogram.sum(), 1035);
    }

    #[test]
    fn codes_outside_the_range_are_other() {
        let codes = Codes::default();
        for code in [0, 99, 100, 200, 200, 599, 600, u16::MAX] {
            codes.add(code);
        }
        let mut seen = Vec::new();
        codes.each(|code, count| seen.push((code.to_owned(), count)));
        let expected = [("100", 1), ("200", 2), ("599", 1), ("other", 4)]
            .map(|(code, n)| (code.to_owned(), n));
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_gauge_says_whether_it_changed() {
        let gauge = Gauge::default();
        assert_eq!(gauge.set(1), Changed::Yes);
        assert_eq!(gauge.set(1), Changed::No);
        gauge.down();
        gauge.down();
        assert_eq!(gauge.get(), u64::MAX, "minus one, in two's complement");
    }
}
