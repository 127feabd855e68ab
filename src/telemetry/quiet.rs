//! A log line that many events share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// At most one line in this time.
const PAUSE: Duration = Duration::from_secs(10);

/// Says which of many events writes its line, and for how many it speaks.
#[derive(Debug)]
pub(super) struct Quiet {
    start: Instant,
    /// Milliseconds after `start` from which the next line may be written.
    next: AtomicU64,
    unsaid: AtomicU64,
}

impl Default for Quiet {
    fn default() -> Self {
        Self {
            start: Instant::now(),
            next: AtomicU64::new(0),
            unsaid: AtomicU64::new(0),
        }
    }
}

impl Quiet {
    /// One more event; where it is time for a line, how many events it speaks for.
    pub(super) fn note(&self) -> Option<u64> {
        self.note_at(self.start.elapsed())
    }

    fn note_at(&self, since_start: Duration) -> Option<u64> {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        self.unsaid.fetch_add(1, Relaxed);
        let next = self.next.load(Relaxed);
        let due = millis(since_start) >= next
            && self
                .next
                .compare_exchange(next, millis(since_start + PAUSE), Relaxed, Relaxed)
                .is_ok();
        due.then(|| self.unsaid.swap(0, Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_speaks_for_those_before_it() {
        let quiet = Quiet::default();
        let at = |secs| quiet.note_at(Duration::from_secs(secs));
        assert_eq!(at(0), Some(1));
        assert_eq!(at(1), None);
        assert_eq!(at(9), None);
        assert_eq!(at(10), Some(3));
        assert_eq!(at(11), None);
    }
}
