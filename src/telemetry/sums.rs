//! The cells of all workers, summed series by series at a scrape.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use super::cells::{Buckets, Histogram};
use super::metrics::Metric;

/// One series at a scrape, summed over the workers.
#[derive(Debug)]
pub(super) enum Sum {
    Number(u64),
    Histogram {
        buckets: &'static Buckets,
        counts: Vec<u64>,
        sum: u64,
    },
}

/// All series at a scrape: by metric, then by the values of its labels.
#[derive(Debug, Default)]
pub(super) struct Sums(HashMap<&'static str, BTreeMap<Vec<String>, Sum>>);

impl Sums {
    /// Adds a worker's number to a series.
    pub(super) fn add(&mut self, metric: &'static Metric, labels: &[&str], number: u64) {
        match self.series(metric, labels).or_insert(Sum::Number(0)) {
            Sum::Number(sum) => *sum = sum.wrapping_add(number),
            Sum::Histogram { .. } => debug_assert!(false, "{} is a histogram", metric.name),
        }
    }

    /// Adds a worker's histogram to a series.
    pub(super) fn add_histogram(
        &mut self,
        metric: &'static Metric,
        labels: &[&str],
        cells: &Histogram,
    ) {
        let buckets = cells.buckets();
        let empty = || Sum::Histogram {
            buckets,
            counts: vec![0; buckets.bounds.len() + 1],
            sum: 0,
        };
        match self.series(metric, labels).or_insert_with(empty) {
            Sum::Histogram { counts, sum, .. } => {
                counts
                    .iter_mut()
                    .zip(cells.counts())
                    .for_each(|(all, one)| *all = all.wrapping_add(one));
                *sum = sum.wrapping_add(cells.sum());
            }
            Sum::Number(_) => debug_assert!(false, "{} is no histogram", metric.name),
        }
    }

    fn series(&mut self, metric: &'static Metric, labels: &[&str]) -> Entry<'_, Vec<String>, Sum> {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.entry(metric.name).or_default().entry(labels)
    }

    /// The series of a metric, with the values of its labels.
    pub(super) fn take(&mut self, metric: &'static Metric) -> BTreeMap<Vec<String>, Sum> {
        self.0.remove(metric.name).unwrap_or_default()
    }
}
