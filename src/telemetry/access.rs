//! The access log: one JSON line a request on standard output.
//!
//! A request never waits for its line: entries go to a bounded queue that a thread of its own empties, and what finds the
//! queue full is dropped and counted. Credentials never enter an entry.

mod entry;
mod query;
mod queue;

pub use entry::AccessEntry;
pub use query::masked;

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use self::queue::{Producer, Pushed};
use super::{Decided, Registry, lock};

/// How many lines wait at most.
const WAITING: usize = 8192;

/// Where access lines go: a bounded queue with a writer of its own. Cheap to clone, one for the process.
///
/// What still waits when the last clone is dropped is written if the process lives long enough; call
/// [`AccessSink::flush`] before it ends.
#[derive(Clone, Debug)]
pub struct AccessSink(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: Producer,
    registry: Registry,
    /// How many allowed requests [`AccessSink::wants`] was asked about.
    allowed: AtomicU64,
}

impl AccessSink {
    /// A sink that writes to standard output; `registry` counts what it drops.
    ///
    /// # Errors
    /// When the writer's thread cannot be started.
    pub fn stdout(registry: &Registry) -> std::io::Result<Self> {
        Self::to(std::io::stdout(), WAITING, registry)
    }

    /// A sink that writes to `out` and lets at most `waiting` lines wait.
    ///
    /// # Errors
    /// When the writer's thread cannot be started.
    pub fn to(
        out: impl Write + Send + 'static,
        waiting: usize,
        registry: &Registry,
    ) -> std::io::Result<Self> {
        let queue = queue::start(out, waiting, registry.clone())?;
        Ok(Self(Arc::new(Inner {
            queue,
            registry: registry.clone(),
            allowed: AtomicU64::new(0),
        })))
    }

    /// A sink for tests, and the lines that were written to it.
    ///
    /// # Errors
    /// When the writer's thread cannot be started.
    pub fn collecting(registry: &Registry) -> std::io::Result<(Self, Lines)> {
        let lines = Lines::default();
        let sink = Self::to(lines.clone(), WAITING, registry)?;
        Ok((sink, lines))
    }

    /// Whether a request that fared so gets a line, where `sample_allowed` thousandths of the allowed requests do. What
    /// was allowed is taken at even distances; everything else always gets its line. Ask once a request.
    #[must_use]
    pub fn wants(&self, decision: Decided, sample_allowed: u32) -> bool {
        match decision {
            Decided::Allowed | Decided::Delayed | Decided::CandidateRejected | Decided::Skipped => {
                match sample_allowed {
                    0 => false,
                    1000.. => true,
                    share => {
                        let so_far = |count: u64| count.wrapping_mul(share.into()) / 1000;
                        let before = self.0.allowed.fetch_add(1, Relaxed);
                        so_far(before + 1) > so_far(before)
                    }
                }
            }
            Decided::Rejected
            | Decided::Blocked
            | Decided::Never
            | Decided::Tagged
            | Decided::ShadowRejected
            | Decided::StoreDown => true,
        }
    }

    /// Queues the line of `entry`, or drops and counts it where the queue is full. Never waits.
    pub fn write(&self, entry: AccessEntry) {
        if self.0.queue.push(entry) == Pushed::Full {
            self.0.registry.groups().process.log_dropped.add(1);
        }
    }

    /// Waits until every line that was queued before is written, at most for `within`. Blocks the thread: for shutdown.
    pub fn flush(&self, within: Duration) -> Flushed {
        self.0.queue.flush(within)
    }
}

/// How a flush ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Flushed {
    /// Everything is written.
    All,
    /// Time was up: whoever reads standard output does not keep up.
    TimedOut,
}

/// The lines that a sink for tests wrote.
#[derive(Clone, Debug, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    /// Every line so far, after a [`AccessSink::flush`] all of them.
    #[must_use]
    pub fn all(&self) -> Vec<String> {
        String::from_utf8_lossy(&lock(&self.0))
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
