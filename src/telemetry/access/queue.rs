//! The bounded queue between requests and the writer.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{AccessEntry, Flushed};
use crate::telemetry::{Registry, lock};

/// The end that requests write to; the writer ends when it is dropped.
#[derive(Debug)]
pub(super) struct Producer(Arc<Queue>);

/// Whether an entry found room.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pushed {
    Queued,
    Full,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes who waits in [`Producer::flush`].
    done: Condvar,
    most: usize,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<AccessEntry>,
    /// How many entries were ever queued, and how many of them the writer is through with.
    queued: u64,
    written: u64,
    closed: bool,
    /// The writer sleeps, so that a push has to wake it.
    idle: bool,
}

/// Starts the thread that writes to `out`.
pub(super) fn start(
    out: impl Write + Send + 'static,
    most: usize,
    registry: Registry,
) -> std::io::Result<Producer> {
    let queue = Arc::new(Queue {
        state: Mutex::default(),
        work: Condvar::new(),
        done: Condvar::new(),
        most,
    });
    let producer = Producer(Arc::clone(&queue));
    std::thread::Builder::new()
        .name("access-log".into())
        .spawn(move || queue.drain(out, &registry))?;
    Ok(producer)
}

impl Producer {
    pub(super) fn push(&self, entry: AccessEntry) -> Pushed {
        let mut state = lock(&self.0.state);
        if state.waiting.len() >= self.0.most {
            return Pushed::Full;
        }
        state.waiting.push(entry);
        state.queued += 1;
        if std::mem::take(&mut state.idle) {
            drop(state);
            self.0.work.notify_one();
        }
        Pushed::Queued
    }

    pub(super) fn flush(&self, within: Duration) -> Flushed {
        let deadline = Instant::now() + within;
        let mut state = lock(&self.0.state);
        let goal = state.queued;
        while state.written < goal {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Flushed::TimedOut;
            }
            state = self
                .0
                .done
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        Flushed::All
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        lock(&self.0.state).closed = true;
        self.0.work.notify_one();
    }
}

impl Queue {
    /// Writes until the producer is gone and nothing waits.
    fn drain(&self, mut out: impl Write, registry: &Registry) {
        let mut batch = Vec::new();
        let mut text = String::new();
        while self.take(&mut batch) {
            let lines = u64::try_from(batch.len()).unwrap_or(u64::MAX);
            text.clear();
            batch
                .drain(..)
                .for_each(|entry| entry.write_line(&mut text));
            // Nobody may be reading any more: requests go on, and the lines count as dropped.
            if out
                .write_all(text.as_bytes())
                .and_then(|()| out.flush())
                .is_err()
            {
                registry.groups().process.log_dropped.add(lines);
            }
            lock(&self.state).written += lines;
            self.done.notify_all();
        }
    }

    /// Waits for entries and moves all of them to `batch`; false when there will be none.
    fn take(&self, batch: &mut Vec<AccessEntry>) -> bool {
        let mut state = lock(&self.state);
        while state.waiting.is_empty() {
            if state.closed {
                return false;
            }
            state.idle = true;
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.idle = false;
        std::mem::swap(&mut state.waiting, batch);
        true
    }
}
