//! The answers to a charge.

use crate::time::Micros;

/// What a limit says to one charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It may pass now.
    Allow,
    /// It may pass after waiting its turn in the queue of a leaky bucket.
    Delay {
        /// How long; more than zero.
        by: Micros,
    },
    /// It may not pass.
    Reject(Retry),
}

/// When a rejected charge could pass. The order is that of a whole request: the greatest of its charges' retries holds.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Retry {
    /// At this span from now, if nothing else is spent meanwhile; one tick earlier it would still be rejected.
    After(Micros),
    /// When someone gives a place back; nobody knows when that is (concurrency).
    Unknown,
    /// At no time: this cost is above what the limit holds.
    Never,
}

impl Verdict {
    /// Whether the charge may pass, now or after a delay.
    #[must_use]
    pub const fn passes(self) -> bool {
        !matches!(self, Self::Reject(_))
    }
}

/// What a key has left.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Quota {
    /// Units that could be spent at this instant.
    pub remaining: u64,
    /// How long until nothing of what was spent counts any more; zero for a key that is whole.
    pub reset_after: Micros,
}
