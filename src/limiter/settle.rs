//! The proof that a request may go upstream, and its settlement.

use smallvec::SmallVec;

use super::{Met, Shown};
use crate::limit::{ChargeId, Receipt};
use crate::policy::Answers;
use crate::store::{Origin, Store};
use crate::time::Micros;

/// A receipt, and the store that gave it and takes it back.
pub(super) type Spent = (Origin, Receipt);

/// Charges that only some answers make good; every other charge stays whatever the answer.
pub(super) type Counted = SmallVec<[(ChargeId, Answers); 1]>;

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
    pub(super) fn new(delay: Micros, shown: Vec<Shown>, met: Met, settlement: Settlement) -> Self {
        Self {
            delay,
            shown,
            met,
            settlement,
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
pub(super) struct Settlement {
    spent: SmallVec<[Spent; 4]>,
    counted: Counted,
    store: Store,
}

impl Settlement {
    pub(super) fn new(spent: SmallVec<[Spent; 4]>, counted: Counted, store: &Store) -> Self {
        Self {
            spent,
            counted,
            store: store.clone(),
        }
    }

    /// The receipts are taken out, so that whatever comes later finds nothing to settle.
    fn settle(&mut self, outcome: Outcome) {
        let spent = std::mem::take(&mut self.spent);
        for (origin, receipt) in spent {
            let given_back = match outcome {
                Outcome::NotSent => true,
                Outcome::Answered(status) => self
                    .answers_to(&receipt)
                    .is_some_and(|answers| !answers.contains(status)),
                // Once the first byte went upstream, a charge stays.
                Outcome::Unknown => false,
            };
            if given_back {
                self.store.give_back(origin, &[receipt]);
            }
        }
    }

    /// The answers that make a charge good, where not every one does.
    fn answers_to(&self, receipt: &Receipt) -> Option<&Answers> {
        let mut counted = self.counted.iter();
        counted.find_map(|(id, answers)| (*id == receipt.id).then_some(answers))
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        self.settle(Outcome::Unknown);
    }
}
