//! Keeps requests away from a store that does not answer: one breaker a process, and what operators are told of it.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::telemetry::Events;

/// So many failures in a row open the breaker.
const FAILURES: u32 = 5;

/// How often a store is tried while the breaker is open.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// The state of the store as the whole process sees it: read by every request, moved by the pumps.
///
/// A failure is a refused call, or a deadline that went by without the answer to a call. While the breaker is open no
/// request waits; every 250 ms one pump of the process tries a call, and the first that is answered in time closes it.
#[derive(Debug)]
pub struct Guard {
    failures: AtomicU32,
    open: AtomicBool,
    /// When the next try is due: microseconds since `since`.
    probe_at: AtomicU64,
    since: Instant,
    /// Connections that stand.
    links: AtomicUsize,
    events: Events,
}

impl Guard {
    /// A closed breaker over a store that has no connection yet.
    #[must_use]
    pub fn new(events: Events) -> Self {
        Self {
            failures: AtomicU32::new(0),
            open: AtomicBool::new(false),
            probe_at: AtomicU64::new(0),
            since: Instant::now(),
            links: AtomicUsize::new(0),
            events,
        }
    }

    /// Whether requests are kept away.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// A call failed, or a deadline went by without its answer.
    pub fn failed(&self) {
        let failures = self
            .failures
            .fetch_add(1, Ordering::Relaxed)
            .saturating_add(1);
        if failures >= FAILURES && !self.open.swap(true, Ordering::Relaxed) {
            self.probe_at.store(
                self.now().saturating_add(micros(PROBE_EVERY)),
                Ordering::Relaxed,
            );
            self.events.store_breaker(true);
        }
        // Also the first failure: a store that was never there is not up.
        self.report();
    }

    /// A call was answered in time. Closes nothing: only a try does, so that one good connection of many does not
    /// throw the requests of the others against a store that keeps them waiting.
    pub fn succeeded(&self) {
        if !self.is_open() && self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this pump is the one to try the store now.
    #[must_use]
    pub fn claim_probe(&self) -> bool {
        let now = self.now();
        let due = self.probe_at.load(Ordering::Relaxed);
        let next = now.saturating_add(micros(PROBE_EVERY));
        self.is_open()
            && due <= now
            && self
                .probe_at
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// A try was answered in time: requests go to the store again.
    pub fn recovered(&self) {
        self.failures.store(0, Ordering::Relaxed);
        if self.open.swap(false, Ordering::Relaxed) {
            self.events.store_breaker(false);
        }
        self.report();
    }

    /// A connection stands and was answered on.
    pub fn linked(&self) {
        self.links.fetch_add(1, Ordering::Relaxed);
        self.recovered();
    }

    /// A connection is gone.
    pub fn unlinked(&self) {
        self.links.fetch_sub(1, Ordering::Relaxed);
        self.report();
    }

    /// Says whether decisions are being made without the store.
    pub fn fell_back(&self, fallback: Fallback) {
        self.events.store_fallback(fallback == Fallback::Active);
    }

    fn report(&self) {
        self.events
            .store_up(!self.is_open() && self.links.load(Ordering::Relaxed) > 0);
    }

    fn now(&self) -> u64 {
        micros(self.since.elapsed())
    }
}

/// Who decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fallback {
    /// This process: the store is away.
    Active,
    /// The store.
    Inactive,
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
