//! The proof that a request may go upstream, and its settlement.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::HeaderMap;
use smallvec::SmallVec;

use super::slots::Slots;
use super::strike::Strike;
use super::unsettled::{Unsettled, correct};
use super::{Met, Shown};
use crate::limit::{ChargeId, Cost, Receipt};
use crate::policy::{AnswerCost, CostPlace, Count, cost_in};
use crate::store::{Origin, Store};
use crate::time::Micros;

/// A receipt, and the store that gave it and takes it back.
pub(super) type Spent = (Origin, Receipt);

/// What the answer decides about a charge; a charge without terms stays as it is, whatever the answer.
#[derive(Debug)]
pub(super) struct Terms {
    /// Which charge.
    pub(super) id: ChargeId,
    /// Which answers make it good.
    pub(super) count: Count,
    /// What it cost in the end, where the answer says that.
    pub(super) due: Option<Due>,
    /// What it counts toward when it stays.
    pub(super) strike: Option<Strike>,
}

impl Terms {
    /// A charge with these terms stays, at `cost`.
    fn stay(&self, store: &Store, origin: Origin, cost: Cost) {
        if let Some(strike) = &self.strike {
            strike.clone().book(store, origin, cost);
        }
    }
}

/// A cost that the answer says.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) cost: Arc<AnswerCost>,
    /// Books what the true cost is above the reserved one.
    pub(super) correction: ChargeId,
}

/// The terms of the charges that have any.
pub(super) type AllTerms = SmallVec<[Terms; 1]>;

/// Proof that a request may go upstream.
///
/// Only the limiter makes one, and forwarding consumes one. It settles exactly once: when told the outcome, or on drop
/// as [`Outcome::Unknown`]; of an answer, what its end decides is handed on as [`Unsettled`]. Settling never waits and
/// never fails the request.
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

/// How a request that was admitted and not answered ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
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

    /// Settles without an answer: gives back what the outcome says.
    pub fn settle(self, outcome: Outcome) {
        let Self { mut settlement, .. } = self;
        settlement.settle(outcome);
    }

    /// Settles by the head of the answer; what must wait for the answer's end is handed on.
    pub fn answered(self, status: StatusCode, head: &HeaderMap) -> Option<Box<Unsettled>> {
        let Self { mut settlement, .. } = self;
        settlement.answered(status, head)
    }

    /// Whether the answer's trailers matter to it.
    #[must_use]
    pub fn wants_trailers(&self) -> bool {
        let mut dues = self
            .settlement
            .terms
            .iter()
            .filter_map(|terms| terms.due.as_ref());
        dues.any(|due| matches!(due.cost.place, CostPlace::Trailer(_)))
    }
}

/// What was spent, until it is settled.
#[derive(Debug)]
pub(super) struct Settlement {
    spent: SmallVec<[Spent; 4]>,
    /// What is held until the end, whatever it is.
    slots: Option<Slots>,
    terms: AllTerms,
    store: Store,
}

impl Settlement {
    pub(super) fn new(
        spent: SmallVec<[Spent; 4]>,
        slots: Option<Slots>,
        terms: AllTerms,
        store: &Store,
    ) -> Self {
        Self {
            spent,
            slots,
            terms,
            store: store.clone(),
        }
    }

    /// The receipts are taken out, so that whatever comes later finds nothing to settle.
    fn settle(&mut self, outcome: Outcome) {
        for (origin, receipt) in std::mem::take(&mut self.spent) {
            match outcome {
                Outcome::NotSent => self.store.give_back(origin, &[receipt]),
                // Once the first byte went upstream, a charge stays.
                Outcome::Unknown => {
                    if let Some(terms) = self.terms.iter().find(|terms| terms.id == receipt.id) {
                        terms.stay(&self.store, origin, receipt.cost);
                    }
                }
            }
        }
    }

    fn answered(&mut self, status: StatusCode, head: &HeaderMap) -> Option<Box<Unsettled>> {
        let mut unsettled = Unsettled::new(self.slots.take(), &self.store);
        for (origin, receipt) in std::mem::take(&mut self.spent) {
            let Some(terms) = self.terms.iter().find(|terms| terms.id == receipt.id) else {
                continue;
            };
            let counts = match &terms.count {
                Count::Every => true,
                Count::Answers(answers) => answers.contains(status),
            };
            match &terms.due {
                _ if !counts => self.store.give_back(origin, &[receipt]),
                Some(due) => match &due.cost.place {
                    CostPlace::Header(name) => {
                        let cost = cost_in(head, name);
                        terms.stay(&self.store, origin, cost.unwrap_or(receipt.cost));
                        if let Some(cost) = cost {
                            correct(&self.store, origin, receipt, cost, due.correction);
                        }
                    }
                    CostPlace::Trailer(_) | CostPlace::Json(_) => {
                        unsettled.wait((origin, receipt), due, terms.strike.as_ref(), head);
                    }
                },
                None => terms.stay(&self.store, origin, receipt.cost),
            }
        }
        unsettled.some()
    }
}

impl Drop for Settlement {
    fn drop(&mut self) {
        self.settle(Outcome::Unknown);
    }
}
