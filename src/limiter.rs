//! From the limits that a request meets to an [`Admission`] or a [`Refusal`].
//!
//! Each limit that matches derives a key and asks one charge for each of its amounts; the store answers all of them in one
//! round trip. While it is away each limit does what its `if_down` says (`outage`).

mod beside;
mod meeting;
mod outage;
mod remembered;
mod settle;
mod slots;
mod strike;
#[cfg(test)]
mod tests;
mod unsettled;
mod usage;

pub use settle::{Admission, Outcome};
pub use unsettled::Unsettled;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::limit::key::{Ambiguous, Derived, Found, Identity};
use crate::limit::{Charge, ChargeId, Key, Quota, Retry, Stake, When};
use crate::policy::{Allowance, Count, Grant, IfDown, Limit, LimitMode, Mode, Policy};
use crate::request::Facts;
use crate::route::Hit;
use crate::store::{Origin, Store, random_number};
use crate::telemetry::{Decided, DecisionSource, LimitEvents};
use crate::time::Micros;
use meeting::{Asked, Meeting, Part};
use remembered::Remembered;
use settle::{Due, Settlement, Spent, Terms};
use slots::Leases;
use strike::Strike;

/// One amount of a limit as the client is shown it: indexes into the policy, and what is left.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Shown {
    /// Index into `Policy::limits`.
    pub limit: usize,
    /// Index into `Limit::amounts`.
    pub amount: usize,
    /// What is left.
    pub quota: Quota,
    /// Set where this amount rejected the request, or a block of its limit did.
    pub rejected: Option<Retry>,
    /// What rejected it longest.
    pub cause: Cause,
}

/// What rejects a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Cause {
    /// The amount.
    #[default]
    Amount,
    /// The block that going over the limit led to.
    Block,
}

/// The limits that a request met, as indexes into `Policy::limits`, and how it fared with each: for the access log.
pub type Met = SmallVec<[(usize, Decided); 4]>;

/// Why a request may not pass. The gateway turns it into HTTP; the limiter knows nothing of answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Refusal {
    /// Over a limit.
    Limited {
        /// The longest retry of the request: `Never` over `Unknown` over `After`.
        retry: Retry,
        /// Every enforced amount of the request, those that rejected marked.
        shown: Vec<Shown>,
        /// How the request fared with each limit.
        met: Met,
    },
    /// A limit with `if_missing: reject` found no key.
    Unkeyed {
        /// Index into `Policy::limits`.
        limit: usize,
    },
    /// A field that identifies the client occurs twice.
    AmbiguousKey {
        /// Index into `Policy::limits`.
        limit: usize,
    },
    /// A field that names the client's plan occurs twice.
    AmbiguousPlan {
        /// Index into `Policy::limits`.
        limit: usize,
    },
    /// The store is away, and a limit says `deny`.
    StoreDown {
        /// Index into `Policy::limits`.
        limit: usize,
        /// When asking again makes sense.
        retry: Duration,
    },
}

impl Refusal {
    /// The amount that keeps the request away longest, the first in the file of equals; none where no limit is over.
    #[must_use]
    pub fn decisive(&self) -> Option<&Shown> {
        let Self::Limited { shown, .. } = self else {
            return None;
        };
        let rejecting = shown.iter().filter(|shown| shown.rejected.is_some());
        rejecting.reduce(|first, next| {
            if next.rejected > first.rejected {
                next
            } else {
                first
            }
        })
    }
}

/// Judges the requests of one worker.
#[derive(Debug)]
pub struct Limiter {
    store: Store,
    remembered: Remembered,
    /// What its requests hold at once.
    leases: Arc<Leases>,
    /// The number of the next charge. It begins anywhere, so that no two gateways give the same to one key.
    next: AtomicU64,
}

impl Limiter {
    /// A limiter over one worker's way to the store. Must be called on the worker's runtime.
    ///
    /// # Errors
    /// The system has no randomness to give.
    pub fn new(store: Store) -> io::Result<Self> {
        Ok(Self {
            leases: Leases::new(&store),
            store,
            remembered: Remembered::default(),
            next: AtomicU64::new(random_number()?),
        })
    }

    /// The way to the store.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Judges a request against every limit that it meets: all allow and all spend, or none does. `events` are the cells
    /// of the policy's limits, by index; each limit that matches counts one decision.
    ///
    /// A rejection may be answered from memory: where the store said less than a second ago that a key is out, it is not
    /// asked, and only the limits that are known to be over count a decision.
    ///
    /// Dropped while it waits for the store, it spends nothing.
    ///
    /// # Errors
    /// The request may not pass; nothing was spent.
    pub async fn admit(
        &self,
        policy: &Policy,
        events: &[LimitEvents],
        facts: &Facts<'_>,
    ) -> Result<Admission, Refusal> {
        let hits = policy.limit_index.all(facts);
        let mut meeting = Meeting::new(policy, events);
        if hits.is_empty() {
            return Ok(self.admission(meeting, Micros::ZERO, SmallVec::new()));
        }
        if policy.skip.first(facts).is_some() {
            for hit in &hits {
                meeting.decide(hit.entry, Decided::Skipped);
            }
            return Ok(self.admission(meeting, Micros::ZERO, SmallVec::new()));
        }
        self.store.ready().await;
        for hit in &hits {
            self.meet(&mut meeting, hit, facts)?;
        }
        if meeting.charges.is_empty() {
            return Ok(self.admission(meeting, Micros::ZERO, SmallVec::new()));
        }
        self.recall(&mut meeting)?;
        self.tell_owed(&meeting.charges);
        let sent = Instant::now();
        match self.store.admit(&meeting.charges).await {
            Ok(ruling) => {
                self.remember(&meeting, &ruling, sent);
                let mut spent: SmallVec<[Spent; 4]> = ruling
                    .receipts(&meeting.charges)
                    .map(|receipt| (Origin::Store, receipt))
                    .collect();
                // Of a refused request too: its strike counts here as well.
                self.repeat_locally(&meeting, &mut spent);
                let judged = meeting.weigh(&ruling, DecisionSource::Store)?;
                Ok(self.admission(meeting, judged, spent))
            }
            Err(_away) => self.without_store(meeting),
        }
    }

    /// Adds what one limit asks of the request.
    fn meet(
        &self,
        meeting: &mut Meeting<'_>,
        hit: &Hit<'_>,
        facts: &Facts<'_>,
    ) -> Result<(), Refusal> {
        let index = hit.entry;
        let Some(limit) = meeting.policy.limits.get(index) else {
            return Ok(());
        };
        if !limit.applies(facts) {
            meeting.decide(index, Decided::Skipped);
            return Ok(());
        }
        let Ok(values) = limit.per.read(facts, &hit.params) else {
            return unjudged(meeting, index, Refusal::AmbiguousKey { limit: index });
        };
        let keys = self.store.shared().keys();
        let identity = match limit.per.derive(&values, facts, &keys) {
            Derived::Identity(identity) => identity,
            Derived::Skip => {
                meeting.key_missing(index);
                meeting.decide(index, Decided::Skipped);
                return Ok(());
            }
            Derived::Reject => {
                meeting.key_missing(index);
                return unjudged(meeting, index, Refusal::Unkeyed { limit: index });
            }
        };
        if identity.found == Found::Missing {
            meeting.key_missing(index);
        }
        let chosen = match &limit.choice {
            None => Ok(Grant::Allow(limit.otherwise())),
            Some(choice) => choice.of(&values, facts, &hit.params),
        };
        match chosen {
            Ok(Grant::Allow(allowance)) => self.ask(meeting, index, facts, &identity, allowance),
            Ok(Grant::Skip) => meeting.decide(index, Decided::Skipped),
            Err(Ambiguous) => {
                return unjudged(meeting, index, Refusal::AmbiguousPlan { limit: index });
            }
        }
        Ok(())
    }

    /// Asks a charge for each amount that holds.
    fn ask(
        &self,
        meeting: &mut Meeting<'_>,
        index: usize,
        facts: &Facts<'_>,
        identity: &Identity,
        allowance: Allowance,
    ) {
        let Some(limit) = meeting.limit(index) else {
            return;
        };
        if allowance.run().is_empty() && limit.candidate.is_none() {
            meeting.decide(index, Decided::Allowed);
        }
        let stake = stake(meeting.policy, limit);
        let shared = self.store.shared();
        let cost = limit.cost.on_entry(facts);
        let mut strike = self.ask_block(meeting, index, identity, allowance.run());
        for (amount, held) in limit.held(allowance) {
            let id = self.next_id();
            meeting.terms.extend(self.terms(limit, id, strike.take()));
            meeting.charges.push(Charge {
                key: Key::of(shared.prefix(), identity, &limit.name, &held.code),
                meter: held.meter_at(|| shared.now()),
                cost,
                id,
                stake,
                limit: number(index),
                spent: When::Admitted,
            });
            meeting.asked.push(Asked {
                limit: index,
                part: Part::Amount(amount),
            });
        }
        self.ask_candidate(meeting, index, identity, cost);
    }

    fn admission(
        &self,
        meeting: Meeting<'_>,
        delay: Micros,
        mut spent: SmallVec<[Spent; 4]>,
    ) -> Admission {
        let slots = self.leases.hold(&mut spent, &meeting.charges);
        let Meeting {
            shown, met, terms, ..
        } = meeting;
        Admission::new(
            delay,
            shown,
            met,
            Settlement::new(spent, slots, terms, &self.store),
        )
    }

    /// What the answer decides about a charge of `limit`.
    fn terms(&self, limit: &Limit, id: ChargeId, strike: Option<Strike>) -> Option<Terms> {
        let due = limit.cost.answer().map(|cost| Due {
            cost: Arc::clone(cost),
            correction: self.next_id(),
        });
        let decides = due.is_some() || strike.is_some() || limit.count != Count::Every;
        decides.then(|| Terms {
            id,
            count: limit.count.clone(),
            due,
            strike,
        })
    }

    fn next_id(&self) -> ChargeId {
        ChargeId::new(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// A request that the limit `index` cannot judge: it does not say, or says twice, whom it counts for or which plan it
/// has. A limit in shadow refuses nothing.
fn unjudged(meeting: &mut Meeting<'_>, index: usize, refusal: Refusal) -> Result<(), Refusal> {
    let Some(limit) = meeting.limit(index) else {
        return Ok(());
    };
    match stake(meeting.policy, limit) {
        Stake::Watching => {
            meeting.decide(index, watched(meeting.policy, index));
            Ok(())
        }
        Stake::Binding => {
            meeting.decide(index, Decided::Rejected);
            Err(refusal)
        }
    }
}

/// What the charges of one limit have in common; a file has fewer limits than that.
fn number(limit: usize) -> u32 {
    u32::try_from(limit).unwrap_or(u32::MAX)
}

fn stake(policy: &Policy, limit: &Limit) -> Stake {
    match (policy.mode, limit.mode) {
        (Mode::Enforce, LimitMode::Enforce) => Stake::Binding,
        (Mode::Shadow, _) | (_, LimitMode::Shadow | LimitMode::Tag) => Stake::Watching,
    }
}

/// What a request is called that is over a limit which does not reject. The switch over every limit also keeps what it
/// would change from the upstream.
fn watched(policy: &Policy, limit: usize) -> Decided {
    match (
        policy.mode,
        policy.limits.get(limit).map(|limit| limit.mode),
    ) {
        (Mode::Enforce, Some(LimitMode::Tag)) => Decided::Tagged,
        _ => Decided::ShadowRejected,
    }
}

/// Whether the limit counts in this process while the store is away.
fn counts_locally(limit: &Limit) -> bool {
    limit.if_down == IfDown::Local
}
