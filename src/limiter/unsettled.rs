//! What of an admission waits for the end of its answer.

use std::sync::Arc;

use hyper::header::{self, HeaderMap, HeaderValue};
use smallvec::SmallVec;

use super::settle::{Due, Spent};
use super::slots::Slots;
use super::strike::Strike;
use super::usage::{Layout, Usage};
use crate::limit::{Charge, ChargeId, Cost, Receipt, Stake, When};
use crate::policy::{AnswerCost, CostPlace, cost_in};
use crate::store::{Origin, Store};

/// What of an admission waits for the end of its answer.
///
/// It is shown the body and the trailers as they pass, and settles exactly once: when told that the answer is complete,
/// or on drop, when nobody knows what the rest of it would have said.
#[derive(Debug)]
#[must_use = "what is dropped settles as an answer that was cut off"]
pub struct Unsettled {
    charges: SmallVec<[Waiting; 1]>,
    /// What the request holds as long as its answer lasts.
    slots: Option<Slots>,
    readings: SmallVec<[Reading; 1]>,
    store: Store,
}

/// A charge whose cost is not known yet.
#[derive(Debug)]
struct Waiting {
    spent: Spent,
    /// Books what the true cost is above the reserved one.
    correction: ChargeId,
    /// Index into `readings`.
    reading: usize,
    /// What it counts toward when it stays.
    strike: Option<Strike>,
}

/// What one limit reads in the answer.
#[derive(Debug)]
struct Reading {
    cost: Arc<AnswerCost>,
    read: Read,
}

#[derive(Debug)]
enum Read {
    Trailer(Option<Cost>),
    Body(Usage),
}

/// How the answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    Complete,
    CutOff,
}

impl Unsettled {
    pub(super) fn new(slots: Option<Slots>, store: &Store) -> Self {
        Self {
            charges: SmallVec::new(),
            slots,
            readings: SmallVec::new(),
            store: store.clone(),
        }
    }

    /// Something waits; nothing is kept for nothing.
    pub(super) fn some(self) -> Option<Box<Self>> {
        (!self.charges.is_empty() || self.slots.is_some()).then(|| Box::new(self))
    }

    /// Keeps a charge until the answer has said what it cost, if it can say so at all.
    pub(super) fn wait(
        &mut self,
        spent: Spent,
        due: &Due,
        strike: Option<&Strike>,
        head: &HeaderMap,
    ) {
        let known = self.readings.iter();
        let known = known
            .enumerate()
            .find(|(_, reading)| Arc::ptr_eq(&reading.cost, &due.cost));
        let reading = if let Some((known, _)) = known {
            known
        } else {
            let Some(read) = Read::of(&due.cost, head) else {
                if let Some(strike) = strike {
                    strike.clone().book(&self.store, spent.0, spent.1.cost);
                }
                return;
            };
            self.readings.push(Reading {
                cost: Arc::clone(&due.cost),
                read,
            });
            self.readings.len() - 1
        };
        self.charges.push(Waiting {
            spent,
            correction: due.correction,
            reading,
            strike: strike.cloned(),
        });
    }

    /// A piece of the body passes.
    pub fn data(&mut self, bytes: &[u8]) {
        for reading in &mut self.readings {
            if let Read::Body(usage) = &mut reading.read {
                usage.read(bytes);
            }
        }
    }

    /// The trailers pass.
    pub fn trailers(&mut self, fields: &HeaderMap) {
        for Reading { cost, read } in &mut self.readings {
            if let (CostPlace::Trailer(name), Read::Trailer(said)) = (&cost.place, read) {
                *said = cost_in(fields, name);
            }
        }
    }

    /// The answer is complete.
    pub fn complete(mut self) {
        self.settle(End::Complete);
    }

    fn settle(&mut self, end: End) {
        for waiting in std::mem::take(&mut self.charges) {
            let reading = self.readings.get(waiting.reading);
            let cost = reading.and_then(|reading| match &reading.read {
                Read::Trailer(said) => *said,
                Read::Body(usage) => usage.found(),
            });
            let (origin, receipt) = waiting.spent;
            // Leaving early must not make a request cheaper than it is known to be, nor than what was reserved.
            let cost = match end {
                End::Complete => cost,
                End::CutOff => cost.filter(|cost| *cost > receipt.cost),
            };
            if let Some(strike) = waiting.strike {
                strike.book(&self.store, origin, cost.unwrap_or(receipt.cost));
            }
            if let Some(cost) = cost {
                correct(&self.store, origin, receipt, cost, waiting.correction);
            }
        }
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.settle(End::CutOff);
    }
}

impl Read {
    /// How the cost is read in an answer with this head; none: it cannot be.
    fn of(cost: &Arc<AnswerCost>, head: &HeaderMap) -> Option<Self> {
        match &cost.place {
            CostPlace::Header(_) => None,
            CostPlace::Trailer(_) => Some(Self::Trailer(None)),
            CostPlace::Json(_) => {
                let layout = layout(head)?;
                Some(Self::Body(Usage::new(Arc::clone(cost), layout)))
            }
        }
    }
}

/// How the JSON lies in the body; none: it is compressed.
fn layout(head: &HeaderMap) -> Option<Layout> {
    let identity = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if !head.get_all(header::CONTENT_ENCODING).iter().all(identity) {
        return None;
    }
    let kind = head
        .get(header::CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    let kind = kind.split(|&byte| byte == b';').next().unwrap_or_default();
    if kind.trim_ascii().eq_ignore_ascii_case(b"text/event-stream") {
        Some(Layout::Events)
    } else {
        Some(Layout::Plain)
    }
}

/// Makes what was reserved what it truly cost.
pub(super) fn correct(
    store: &Store,
    origin: Origin,
    receipt: Receipt,
    cost: Cost,
    correction: ChargeId,
) {
    let reserved = receipt.cost;
    if cost < reserved {
        store.give_back(origin, &[receipt.part(reserved.less(cost))]);
    } else if cost > reserved {
        let rest = Charge {
            key: receipt.key,
            meter: receipt.meter,
            cost: cost.less(reserved),
            id: correction,
            stake: Stake::Binding,
            limit: 0,
            spent: When::Settled,
        };
        store.spend(origin, &rest);
    }
}
