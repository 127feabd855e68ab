//! The proof that a request may go upstream, and its settlement.

use smallvec::SmallVec;

use super::{Met, Shown};
use crate::limit::Receipt;
use crate::store::{Origin, Store};
use crate::time::Micros;

/// A receipt, and the store that gave it and takes it back.
pub(super) type Spent = (Origin, Receipt);

/// Proof that a request may go upstream.
///
/// Only the limiter makes one, and forwarding consumes one. It settles exactly once: when told the outcome, or on drop
/// as [`Outcome::Unknown`]. Settling never waits and never fails the request.
#[derive(Debug)]
#[must_use = "an admission that is dropped settles as an unknown outcome"]
pub struct Admission {
    /// How long the request waits before it is forwarded. A client that leaves meanwhile has spent its place.
    pub delay: Micros,
    /// What the client is shown; empty where no enforced limit applies.
    pub shown: Vec<Shown>,
    /// Every limit that matched, those in shadow too, and how the request fared with it.
    pub met: Met,
    settlement: Settlement,
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
    pub(super) fn new(
        delay: Micros,
        shown: Vec<Shown>,
        met: Met,
        spent: SmallVec<[Spent; 4]>,
        store: &Store,
    ) -> Self {
        Self {
            delay,
            shown,
            met,
            settlement: Settlement {
                spent,
                store: store.clone(),
            },
        }
    }

    /// Settles: gives back what the outcome says.
    pub fn settle(self, outcome: Outcome) {
        let Self { mut settlement, .. } = self;
        settlement.settle(outcome);
    }
}

/// What was spent, until it is settled.
#[derive(Debug)]
struct Settlement {
    spent: SmallVec<[Spent; 4]>,
    store: Store,
}

impl Settlement {
    /// The receipts are taken out, so that whatever comes later finds nothing to settle.
    fn settle(&mut self, outcome: Outcome) {
        let spent = std::mem::take(&mut self.spent);
        match outcome {
            Outcome::NotSent => {
                for (origin, receipt) in spent {
                    self.store.give_back(origin, &[receipt]);
                }
            }
            // Once the first byte went upstream, a charge stays.
            Outcome::Answered(_) | Outcome::Unknown => {}
        }
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        self.settle(Outcome::Unknown);
    }
}
