//! What is counted together: for a limit, a route, an upstream, a listener, a worker, the process.

use std::sync::{PoisonError, RwLock};

use hyper::Method;

use super::cells::{Codes, Counter, Gauge, Histogram};
use super::events::{Decided, DecisionSource};
use super::metrics;
use super::quiet::Quiet;
use super::series::{Cells, Family};
use super::sums::Sums;

/// Every cell of the process.
#[derive(Debug, Default)]
pub(super) struct Groups {
    pub(super) limits: Family<LimitCells>,
    pub(super) routes: Family<RouteCells>,
    pub(super) upstreams: Family<UpstreamCells>,
    pub(super) listeners: Family<ListenerCells>,
    /// Has one name, the empty one.
    pub(super) workers: Family<WorkerCells>,
    pub(super) process: ProcessCells,
}

impl Groups {
    pub(super) fn report(&self, sums: &mut Sums) {
        self.limits.report(sums);
        self.routes.report(sums);
        self.upstreams.report(sums);
        self.listeners.report(sums);
        self.workers.report(sums);
        self.process.report(sums);
    }
}

/// One limit. Aligned, so that two workers never write to one line of the processor's cache.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct LimitCells {
    /// By [`Decided::ALL`].
    decisions: [Counter; Decided::ALL.len()],
    /// By [`DecisionSource::ALL`].
    sources: [Counter; DecisionSource::ALL.len()],
    pub(super) used: Histogram,
    pub(super) delay: Histogram,
    pub(super) key_missing: Counter,
}

impl Default for LimitCells {
    fn default() -> Self {
        Self {
            decisions: Default::default(),
            sources: Default::default(),
            used: Histogram::new(&metrics::SHARES),
            delay: Histogram::new(&metrics::WAITS),
            key_missing: Counter::default(),
        }
    }
}

impl LimitCells {
    pub(super) fn decided(&self, decided: Decided) {
        if let Some(cell) = self.decisions.get(decided as usize) {
            cell.add(1);
        }
    }

    pub(super) fn source(&self, source: DecisionSource) {
        if let Some(cell) = self.sources.get(source as usize) {
            cell.add(1);
        }
    }
}

impl Cells for LimitCells {
    fn report(&self, name: &str, sums: &mut Sums) {
        for (decided, cell) in Decided::ALL.iter().zip(&self.decisions) {
            sums.add(&metrics::DECISIONS, &[name, decided.label()], cell.get());
        }
        for (source, cell) in DecisionSource::ALL.iter().zip(&self.sources) {
            sums.add(
                &metrics::DECISION_SOURCE,
                &[name, source.label()],
                cell.get(),
            );
        }
        sums.add_histogram(&metrics::LIMIT_USED, &[name], &self.used);
        sums.add_histogram(&metrics::DELAY, &[name], &self.delay);
        sums.add(&metrics::KEY_MISSING, &[name], self.key_missing.get());
    }
}

/// The values of the label `method`.
const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "other",
];

/// One route.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct RouteCells {
    /// By [`METHODS`].
    codes: [Codes; METHODS.len()],
    pub(super) duration: Histogram,
}

impl Default for RouteCells {
    fn default() -> Self {
        Self {
            codes: Default::default(),
            duration: Histogram::new(&metrics::LATENCIES),
        }
    }
}

impl RouteCells {
    pub(super) fn answered(&self, method: &Method, code: u16) {
        let known = METHODS.iter().position(|known| *known == method.as_str());
        if let Some(codes) = self.codes.get(known.unwrap_or(METHODS.len() - 1)) {
            codes.add(code);
        }
    }
}

impl Cells for RouteCells {
    fn report(&self, name: &str, sums: &mut Sums) {
        for (method, codes) in METHODS.iter().zip(&self.codes) {
            codes.each(|code, count| sums.add(&metrics::REQUESTS, &[name, method, code], count));
        }
        sums.add_histogram(&metrics::REQUEST_DURATION, &[name], &self.duration);
    }
}

/// One upstream.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct UpstreamCells {
    pub(super) codes: Codes,
    pub(super) duration: Histogram,
    pub(super) in_flight: Gauge,
}

impl Default for UpstreamCells {
    fn default() -> Self {
        Self {
            codes: Codes::default(),
            duration: Histogram::new(&metrics::LATENCIES),
            in_flight: Gauge::default(),
        }
    }
}

impl Cells for UpstreamCells {
    fn report(&self, name: &str, sums: &mut Sums) {
        self.codes
            .each(|code, count| sums.add(&metrics::UPSTREAM_REQUESTS, &[name, code], count));
        sums.add_histogram(&metrics::UPSTREAM_DURATION, &[name], &self.duration);
        sums.add(&metrics::UPSTREAM_IN_FLIGHT, &[name], self.in_flight.get());
    }
}

/// One address that clients connect to.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct ListenerCells {
    pub(super) open: Gauge,
    pub(super) total: Counter,
}

impl Cells for ListenerCells {
    fn report(&self, name: &str, sums: &mut Sums) {
        sums.add(&metrics::CONNECTIONS, &[name], self.open.get());
        sums.add(&metrics::CONNECTIONS_TOTAL, &[name], self.total.get());
    }
}

/// What a worker counts without a name.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct WorkerCells {
    pub(super) store_duration: Histogram,
    pub(super) store_batch: Histogram,
    pub(super) settlements_dropped: Counter,
}

impl Default for WorkerCells {
    fn default() -> Self {
        Self {
            store_duration: Histogram::new(&metrics::STORE_CALLS),
            store_batch: Histogram::new(&metrics::BATCHES),
            settlements_dropped: Counter::default(),
        }
    }
}

impl Cells for WorkerCells {
    fn report(&self, _name: &str, sums: &mut Sums) {
        sums.add_histogram(&metrics::STORE_DURATION, &[], &self.store_duration);
        sums.add_histogram(&metrics::STORE_BATCH, &[], &self.store_batch);
        sums.add(
            &metrics::SETTLEMENTS_DROPPED,
            &[],
            self.settlements_dropped.get(),
        );
    }
}

/// What the process has once: states, and counts of what is rare.
#[derive(Debug)]
pub(super) struct ProcessCells {
    pub(super) store_up: Gauge,
    pub(super) store_breaker: Gauge,
    pub(super) store_fallback: Gauge,
    pub(super) store_errors: Tally,
    pub(super) keys: Gauge,
    pub(super) keys_max: Gauge,
    pub(super) refused: Tally,
    pub(super) reloads: Tally,
    /// Seconds since the Unix epoch.
    pub(super) last_success: Gauge,
    pub(super) log_dropped: Counter,
    pub(super) settlement_lines: Quiet,
}

impl Default for ProcessCells {
    fn default() -> Self {
        let cells = Self {
            store_up: Gauge::default(),
            store_breaker: Gauge::default(),
            store_fallback: Gauge::default(),
            store_errors: Tally::of(&["timeout", "unreachable"]),
            keys: Gauge::default(),
            keys_max: Gauge::default(),
            refused: Tally::of(&[]),
            reloads: Tally::of(&["ok", "invalid", "restart_required"]),
            last_success: Gauge::default(),
            log_dropped: Counter::default(),
            settlement_lines: Quiet::default(),
        };
        // A store is up until a call to it fails, so that only a change is worth a line.
        cells.store_up.set(1);
        cells
    }
}

impl ProcessCells {
    fn report(&self, sums: &mut Sums) {
        sums.add(&metrics::STORE_UP, &[], self.store_up.get());
        sums.add(&metrics::STORE_BREAKER, &[], self.store_breaker.get());
        sums.add(&metrics::STORE_FALLBACK, &[], self.store_fallback.get());
        self.store_errors
            .each(|kind, count| sums.add(&metrics::STORE_ERRORS, &[kind], count));
        sums.add(&metrics::KEYS, &[], self.keys.get());
        sums.add(&metrics::KEYS_MAX, &[], self.keys_max.get());
        self.refused
            .each(|reason, count| sums.add(&metrics::REFUSED_CONNECTIONS, &[reason], count));
        self.reloads
            .each(|result, count| sums.add(&metrics::RELOADS, &[result], count));
        sums.add(&metrics::LAST_SUCCESS, &[], self.last_success.get());
        sums.add(&metrics::LOG_DROPPED, &[], self.log_dropped.get());
        sums.add(&metrics::BUILD_INFO, &[env!("CARGO_PKG_VERSION")], 1);
    }
}

/// Counts by a word of the program, for what is rare.
#[derive(Debug)]
pub(super) struct Tally(RwLock<Vec<Word>>);

/// One word, how often it was counted, and who writes its lines.
#[derive(Debug)]
struct Word {
    word: &'static str,
    counter: Counter,
    lines: Quiet,
}

impl Tally {
    /// These words are shown from the start, at 0.
    fn of(words: &[&'static str]) -> Self {
        Self(RwLock::new(
            words.iter().map(|word| Word::new(word)).collect(),
        ))
    }

    /// Counts one more of `word`; where it is time for a line about it, how many it speaks for.
    pub(super) fn add(&self, word: &'static str) -> Option<u64> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.iter().find(|known| known.word == word) {
            return known.add();
        }
        drop(known);
        let mut words = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = words.iter().find(|known| known.word == word) {
            return known.add();
        }
        let new = Word::new(word);
        let line = new.add();
        words.push(new);
        line
    }

    fn each(&self, mut visit: impl FnMut(&str, u64)) {
        for known in &*self.0.read().unwrap_or_else(PoisonError::into_inner) {
            visit(known.word, known.counter.get());
        }
    }
}

impl Word {
    fn new(word: &'static str) -> Self {
        Self {
            word,
            counter: Counter::default(),
            lines: Quiet::default(),
        }
    }

    fn add(&self) -> Option<u64> {
        self.counter.add(1);
        self.lines.note()
    }
}
