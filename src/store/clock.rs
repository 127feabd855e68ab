//! The clock of the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::time::{Micros, Timestamp};

/// Where the memory store takes the time from.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The monotonic clock, set once by the wall clock, so that a change of the wall clock moves no window.
    System {
        /// When it was set.
        anchor: Instant,
        /// What the wall clock said then.
        epoch: Timestamp,
    },
    /// Microseconds since the epoch, moved by hand: for tests and for replaying the past.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The monotonic clock, anchored to the wall clock now.
    #[must_use]
    pub fn system() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self::System {
            anchor: Instant::now(),
            epoch: Timestamp::default().after(Micros::from(wall)),
        }
    }

    /// The moment.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match self {
            Self::System { anchor, epoch } => epoch.after(Micros::from(anchor.elapsed())),
            Self::Manual(micros) => Timestamp::from_micros(micros.load(Ordering::Relaxed)),
        }
    }
}
