//! Every metric of the process: names, helps, labels and buckets, and how they are shown to Prometheus.
//!
//! To add one: a constant here and in [`METRICS`], a cell in `groups.rs`, and the event that moves it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prometheus::core::{Collector, Desc};
use prometheus::proto;

use super::cells::{Buckets, Histogram};
use super::groups::Groups;
use super::series::Numbers;

/// What a metric is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It moves both ways.
    Gauge,
    /// It counts by size.
    Histogram,
}

/// A metric's definition.
#[derive(Debug)]
pub struct Metric {
    /// What it is.
    pub kind: Kind,
    /// Its name, as dashboards know it.
    pub name: &'static str,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, for people.
    pub help: &'static str,
}

const fn metric(
    kind: Kind,
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        kind,
        name,
        labels,
        help,
    }
}

use Kind::{Counter as C, Gauge as G, Histogram as H};

/// Every metric of the process.
pub static METRICS: [&Metric; 26] = [
    &REQUESTS,
    &REQUEST_DURATION,
    &DECISIONS,
    &DECISION_SOURCE,
    &LIMIT_USED,
    &DELAY,
    &KEY_MISSING,
    &STORE_DURATION,
    &STORE_BATCH,
    &STORE_UP,
    &STORE_BREAKER,
    &STORE_FALLBACK,
    &STORE_ERRORS,
    &KEYS,
    &KEYS_MAX,
    &UPSTREAM_REQUESTS,
    &UPSTREAM_DURATION,
    &UPSTREAM_IN_FLIGHT,
    &CONNECTIONS,
    &CONNECTIONS_TOTAL,
    &REFUSED_CONNECTIONS,
    &SETTLEMENTS_DROPPED,
    &LOG_DROPPED,
    &RELOADS,
    &LAST_SUCCESS,
    &BUILD_INFO,
];

pub(super) static REQUESTS: Metric = metric(
    C,
    "sluice_requests_total",
    &["route", "method", "code"],
    "Requests that were answered.",
);
pub(super) static REQUEST_DURATION: Metric = metric(
    H,
    "sluice_request_duration_seconds",
    &["route"],
    "From the head of a request to the end of its answer.",
);
pub(super) static DECISIONS: Metric = metric(
    C,
    "sluice_decisions_total",
    &["limit", "decision"],
    "How requests fared with each limit that they met.",
);
pub(super) static DECISION_SOURCE: Metric = metric(
    C,
    "sluice_decision_source_total",
    &["limit", "source"],
    "Who decided: the store, this process while the store was away, or nobody.",
);
pub(super) static LIMIT_USED: Metric = metric(
    H,
    "sluice_limit_used_ratio",
    &["limit"],
    "The share of a key's quota that was used after a decision.",
);
pub(super) static DELAY: Metric = metric(
    H,
    "sluice_delay_seconds",
    &["limit"],
    "How long delayed requests wait their turn in a queue.",
);
pub(super) static KEY_MISSING: Metric = metric(
    C,
    "sluice_key_missing_total",
    &["limit"],
    "Requests that carried nothing of a limit's key.",
);
pub(super) static STORE_DURATION: Metric = metric(
    H,
    "sluice_store_duration_seconds",
    &[],
    "How long a call to the store took.",
);
pub(super) static STORE_BATCH: Metric = metric(
    H,
    "sluice_store_batch_size",
    &[],
    "How many requests travelled in one call to the store.",
);
pub(super) static STORE_UP: Metric = metric(
    G,
    "sluice_store_up",
    &[],
    "Whether the store answers: 1 or 0.",
);
pub(super) static STORE_BREAKER: Metric = metric(
    G,
    "sluice_store_breaker_open",
    &[],
    "Whether the store is not being asked because it failed too often: 1 or 0.",
);
pub(super) static STORE_FALLBACK: Metric = metric(
    G,
    "sluice_store_fallback",
    &[],
    "Whether decisions are being made without the store: 1 or 0.",
);
pub(super) static STORE_ERRORS: Metric = metric(
    C,
    "sluice_store_errors_total",
    &["kind"],
    "Calls to the store that failed.",
);
pub(super) static KEYS: Metric = metric(
    G,
    "sluice_keys",
    &[],
    "Keys that this process counts in memory.",
);
pub(super) static KEYS_MAX: Metric = metric(
    G,
    "sluice_keys_max",
    &[],
    "How many keys this process may count in memory.",
);
pub(super) static UPSTREAM_REQUESTS: Metric = metric(
    C,
    "sluice_upstream_requests_total",
    &["upstream", "code"],
    "Requests that went to an upstream; without an answer of its own, the code is the gateway's.",
);
pub(super) static UPSTREAM_DURATION: Metric = metric(
    H,
    "sluice_upstream_duration_seconds",
    &["upstream"],
    "From sending a request to the head of the upstream's answer.",
);
pub(super) static UPSTREAM_IN_FLIGHT: Metric = metric(
    G,
    "sluice_upstream_in_flight",
    &["upstream"],
    "Requests that are with an upstream now.",
);
pub(super) static CONNECTIONS: Metric = metric(
    G,
    "sluice_connections",
    &["listener"],
    "Clients that are connected now.",
);
pub(super) static CONNECTIONS_TOTAL: Metric = metric(
    C,
    "sluice_connections_total",
    &["listener"],
    "Clients that have connected.",
);
pub(super) static REFUSED_CONNECTIONS: Metric = metric(
    C,
    "sluice_refused_connections_total",
    &["reason"],
    "Connections that were closed before they made a request.",
);
pub(super) static SETTLEMENTS_DROPPED: Metric = metric(
    C,
    "sluice_settlements_dropped_total",
    &[],
    "Charges that should have been given back and stayed, because the queue was full.",
);
pub(super) static LOG_DROPPED: Metric = metric(
    C,
    "sluice_log_dropped_total",
    &[],
    "Lines of the access log that were dropped because the queue was full or nobody took them.",
);
pub(super) static RELOADS: Metric = metric(
    C,
    "sluice_config_reloads_total",
    &["result"],
    "Reloads of the configuration.",
);
pub(super) static LAST_SUCCESS: Metric = metric(
    G,
    "sluice_config_last_success_timestamp_seconds",
    &[],
    "When the configuration in force was loaded, in seconds since the Unix epoch.",
);
pub(super) static BUILD_INFO: Metric = metric(
    G,
    "sluice_build_info",
    &["version"],
    "Always 1; the label says which version runs.",
);

/// Microseconds: how long clients and upstreams take.
pub(super) static LATENCIES: Buckets = Buckets {
    bounds: &[
        1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ],
    per_one: 1_000_000,
};
/// Microseconds: how long the store takes; its deadline is 25 ms unless told otherwise.
pub(super) static STORE_CALLS: Buckets = Buckets {
    bounds: &[
        50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000,
    ],
    per_one: 1_000_000,
};
/// Microseconds: how long a queue makes wait; at most 10 s unless told otherwise.
pub(super) static WAITS: Buckets = Buckets {
    bounds: &[
        1_000, 5_000, 10_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
        10_000_000, 30_000_000, 60_000_000,
    ],
    per_one: 1_000_000,
};
/// Thousandths of a quota.
pub(super) static SHARES: Buckets = Buckets {
    bounds: &[100, 250, 500, 750, 900, 950, 999, 1_000],
    per_one: 1_000,
};
/// Requests a call; at most 64 travel together.
pub(super) static BATCHES: Buckets = Buckets {
    bounds: &[1, 2, 4, 8, 16, 32, 64],
    per_one: 1,
};

/// All metrics of the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Registry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    groups: Arc<Groups>,
    workers: Numbers,
    shown: prometheus::Registry,
}

impl Registry {
    /// An empty registry. A process starts only under a good configuration, so this moment counts as its loading.
    #[must_use]
    pub fn new() -> Self {
        let groups = Arc::new(Groups::default());
        groups.process.last_success.set(unix_seconds());
        let shown = prometheus::Registry::new();
        if let Err(error) = Scrape::describe().and_then(|descs| {
            shown.register(Box::new(Scrape {
                groups: Arc::clone(&groups),
                descs,
            }))
        }) {
            tracing::error!(%error, "metrics cannot be shown");
        }
        Self(Arc::new(Inner {
            groups,
            workers: Numbers::default(),
            shown,
        }))
    }

    /// The text of `/metrics` (Prometheus exposition format 0.0.4).
    #[must_use]
    pub fn encode(&self) -> String {
        let mut text = String::new();
        if let Err(error) =
            prometheus::TextEncoder::new().encode_utf8(&self.0.shown.gather(), &mut text)
        {
            tracing::error!(%error, "metrics cannot be written");
        }
        text
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.0.groups
    }

    pub(super) fn workers(&self) -> &Numbers {
        &self.0.workers
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::new()
    }
}

/// Now, in whole seconds since the Unix epoch.
pub(super) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

/// One series at a scrape, summed over the workers.
#[derive(Debug)]
enum Sum {
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

    fn series(
        &mut self,
        metric: &'static Metric,
        labels: &[&str],
    ) -> std::collections::btree_map::Entry<'_, Vec<String>, Sum> {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self.0.entry(metric.name).or_default().entry(labels)
    }
}

/// Sums the cells of all workers when Prometheus asks.
struct Scrape {
    groups: Arc<Groups>,
    descs: Vec<Desc>,
}

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        self.descs.iter().collect()
    }

    fn collect(&self) -> Vec<proto::MetricFamily> {
        let mut sums = Sums::default();
        self.groups.report(&mut sums);
        METRICS
            .iter()
            .map(|metric| metric.family(sums.0.remove(metric.name).unwrap_or_default()))
            .collect()
    }
}

impl Metric {
    fn family(&self, series: BTreeMap<Vec<String>, Sum>) -> proto::MetricFamily {
        let mut family = proto::MetricFamily::default();
        family.set_name(self.name.to_owned());
        family.set_help(self.help.to_owned());
        family.set_field_type(match self.kind {
            Kind::Counter => proto::MetricType::COUNTER,
            Kind::Gauge => proto::MetricType::GAUGE,
            Kind::Histogram => proto::MetricType::HISTOGRAM,
        });
        family.set_metric(
            series
                .iter()
                .map(|(labels, sum)| self.shown(labels, sum))
                .collect(),
        );
        family
    }

    fn shown(&self, labels: &[String], sum: &Sum) -> proto::Metric {
        let pair = |(name, value): (&&str, &String)| {
            let mut pair = proto::LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value(value.clone());
            pair
        };
        let mut shown =
            proto::Metric::from_label(self.labels.iter().zip(labels).map(pair).collect());
        match (self.kind, sum) {
            (Kind::Gauge, Sum::Number(number)) => {
                let mut gauge = proto::Gauge::default();
                gauge.set_value(number.cast_signed() as f64);
                shown.set_gauge(gauge);
            }
            (_, Sum::Number(number)) => {
                let mut counter = proto::Counter::default();
                counter.set_value(*number as f64);
                shown.set_counter(counter);
            }
            (
                _,
                Sum::Histogram {
                    buckets,
                    counts,
                    sum,
                },
            ) => shown.set_histogram(histogram(buckets, counts, *sum)),
        }
        shown
    }
}

fn histogram(buckets: &Buckets, counts: &[u64], sum: u64) -> proto::Histogram {
    let in_ones = |units: u64| units as f64 / buckets.per_one as f64;
    let mut so_far = 0;
    let mut shown = Vec::with_capacity(buckets.bounds.len());
    for (bound, count) in buckets.bounds.iter().zip(counts) {
        so_far += count;
        let mut bucket = proto::Bucket::default();
        bucket.set_upper_bound(in_ones(*bound));
        bucket.set_cumulative_count(so_far);
        shown.push(bucket);
    }
    let mut histogram = proto::Histogram::default();
    histogram.set_bucket(shown);
    histogram.set_sample_count(counts.iter().sum());
    histogram.set_sample_sum(in_ones(sum));
    histogram
}

impl Scrape {
    fn describe() -> prometheus::Result<Vec<Desc>> {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let desc = |metric: &&Metric| {
            Desc::new(
                metric.name.to_owned(),
                metric.help.to_owned(),
                names(metric.labels),
                HashMap::new(),
            )
        };
        METRICS.iter().map(desc).collect()
    }
}

#[cfg(test)]
mod tests;
