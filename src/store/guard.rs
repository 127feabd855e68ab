//! Keeps requests away from a store that does not answer: one breaker for each server, and what operators are told of all
//! of them together.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::telemetry::Events;

/// So many failures in a row open the breaker.
const FAILURES: u32 = 5;

/// How often a server is tried while its breaker is open.
const PROBE_EVERY: Duration = Duration::from_millis(250);

/// What operators are told of the servers of a store together: the store is up while every one of them answers, and its
/// breaker is open while that of any is.
#[derive(Debug)]
pub struct Health {
    tally: Mutex<Tally>,
    /// Servers that do not answer, for who cannot wait.
    down: AtomicUsize,
    events: Events,
}

/// How many servers there are, by what is known of them.
#[derive(Debug, Default)]
struct Tally {
    servers: usize,
    up: usize,
    open: usize,
}

/// What was last told of one server; nothing before it first answered or failed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Told {
    up: bool,
    down: bool,
    open: bool,
}

/// The state of one server as the whole process sees it: read by every request, moved by the pumps.
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
    told: Mutex<Told>,
    health: Arc<Health>,
}

impl Health {
    /// Of a store with no server yet.
    #[must_use]
    pub fn new(events: Events) -> Arc<Self> {
        Arc::new(Self {
            tally: Mutex::default(),
            down: AtomicUsize::new(0),
            events,
        })
    }

    /// Says whether decisions are being made without the store. While any server is away, some are.
    pub fn fell_back(&self, fallback: Fallback) {
        match fallback {
            Fallback::Active => self.events.store_fallback(true),
            Fallback::Inactive if self.down.load(Ordering::Relaxed) == 0 => {
                self.events.store_fallback(false);
            }
            Fallback::Inactive => {}
        }
    }

    /// Says that not even one server is known.
    pub fn lost(&self) {
        self.events.store_up(false);
    }

    fn change(&self, servers: isize, from: Told, to: Told) {
        let shift = |count: usize, from: bool, to: bool| {
            count.saturating_add(usize::from(to)) - usize::from(from && count > 0)
        };
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        tally.servers = tally.servers.saturating_add_signed(servers);
        tally.up = shift(tally.up, from.up, to.up);
        tally.open = shift(tally.open, from.open, to.open);
        let down = shift(self.down.load(Ordering::Relaxed), from.down, to.down);
        self.down.store(down, Ordering::Relaxed);
        // Told under the lock, so that the last word is the latest.
        if down > 0 {
            self.events.store_up(false);
        } else if tally.up > 0 && tally.up == tally.servers {
            self.events.store_up(true);
        }
        self.events.store_breaker(tally.open > 0);
    }
}

impl Guard {
    /// A closed breaker over a server that has no connection yet.
    #[must_use]
    pub fn new(health: &Arc<Health>) -> Arc<Self> {
        health.change(1, Told::default(), Told::default());
        Arc::new(Self {
            failures: AtomicU32::new(0),
            open: AtomicBool::new(false),
            probe_at: AtomicU64::new(0),
            since: Instant::now(),
            links: AtomicUsize::new(0),
            told: Mutex::default(),
            health: Arc::clone(health),
        })
    }

    /// Whether requests are kept away.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether it answers, as far as is known.
    #[must_use]
    pub fn is_up(&self) -> bool {
        !self.is_open() && self.links.load(Ordering::Relaxed) > 0
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
        }
        // Also the first failure: a store that was never there is not up.
        self.report();
    }

    /// A call was answered in time. Closes nothing: only a try does, so that one good connection of many does not
    /// throw the requests of the others against a server that keeps them waiting.
    pub fn succeeded(&self) {
        if !self.is_open() && self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// Whether this pump is the one to try the server now.
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

    /// A try was answered in time: requests go to the server again.
    pub fn recovered(&self) {
        self.failures.store(0, Ordering::Relaxed);
        self.open.store(false, Ordering::Relaxed);
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

    fn report(&self) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let up = self.is_up();
        let now = Told {
            up,
            down: !up,
            open: self.is_open(),
        };
        self.health.change(0, *told, now);
        *told = now;
    }

    fn now(&self) -> u64 {
        micros(self.since.elapsed())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        self.health.change(-1, told, Told::default());
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
