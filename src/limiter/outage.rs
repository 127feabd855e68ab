//! What the limits of a request do while the store gives no ruling: `if_down`.

use std::time::Duration;

use smallvec::SmallVec;

use super::meeting::{Asked, Meeting};
use super::settle::Spent;
use super::slots::is_lease;
use super::{Admission, Limiter, Refusal, counts_locally, stake};
use crate::limit::{Charge, Stake, When};
use crate::policy::IfDown;
use crate::store::Origin;
use crate::telemetry::{Decided, DecisionSource};
use crate::time::Micros;

/// When a client that met `deny` may ask again: a store that is back is noticed within 2 s.
const RETRY: Duration = Duration::from_secs(2);

impl Limiter {
    /// Decides without the store: a binding limit that says `deny` refuses the whole request and nothing is counted
    /// anywhere; else those that say `local` are judged together in this process, and those that say `allow` pass it.
    pub(super) fn without_store(&self, mut meeting: Meeting<'_>) -> Result<Admission, Refusal> {
        let mut denied = None;
        for (index, if_down, stake) in limits(&meeting) {
            match (if_down, stake) {
                (IfDown::Deny, _) => {
                    meeting.decide(index, Decided::StoreDown);
                    meeting.source(index, DecisionSource::Closed);
                    if stake == Stake::Binding {
                        denied = denied.or(Some(index));
                    }
                }
                (IfDown::Allow | IfDown::Local, _) => {}
            }
        }
        if let Some(limit) = denied {
            return Err(Refusal::StoreDown {
                limit,
                retry: RETRY,
            });
        }
        for (index, if_down, _) in limits(&meeting) {
            if if_down == IfDown::Allow {
                meeting.decide(index, Decided::Allowed);
                meeting.source(index, DecisionSource::Open);
            }
        }
        self.judge_locally(meeting)
    }

    fn judge_locally(&self, mut meeting: Meeting<'_>) -> Result<Admission, Refusal> {
        let Some(local) = self.store.local() else {
            return Ok(self.admission(meeting, Micros::ZERO, SmallVec::new()));
        };
        let instances = self.store.shared().instances();
        let charges: SmallVec<[Charge; 4]> =
            meeting.local_charges(local, instances, |_| true).collect();
        if charges.is_empty() {
            return Ok(self.admission(meeting, Micros::ZERO, SmallVec::new()));
        }
        let asked: SmallVec<[Asked; 4]> = std::mem::take(&mut meeting.asked);
        meeting.asked = asked
            .into_iter()
            .filter(|asked| meeting.limit(asked.limit).is_some_and(counts_locally))
            .collect();
        let ruling = local.admit(&charges);
        let delay = meeting.weigh(&ruling, DecisionSource::Local)?;
        let mut spent: SmallVec<[Spent; 4]> = ruling
            .receipts(&charges)
            .map(|receipt| (Origin::Local, receipt))
            .collect();
        self.owe(&meeting, &mut spent);
        Ok(self.admission(meeting, delay, spent))
    }

    /// Books what the store admitted in this process too, where a limit counts here while the store is away, so that
    /// going over to it hands nobody a fresh allowance.
    pub(super) fn repeat_locally(&self, meeting: &Meeting<'_>, spent: &mut SmallVec<[Spent; 4]>) {
        let Some(local) = self.store.local() else {
            return;
        };
        if spent.is_empty() {
            return;
        }
        let charges: SmallVec<[Charge; 4]> = meeting
            .local_charges(local, self.store.shared().instances(), |charge| {
                spent.iter().any(|(_, receipt)| receipt.id == charge.id)
            })
            .collect();
        let booked = local.spend(&charges);
        spent.extend(
            booked
                .receipts(&charges)
                .map(|receipt| (Origin::Local, receipt)),
        );
    }

    /// Notes what was granted here, so that the store can be told when it is back. Leases enter themselves there, and who
    /// is blocked here is so only here.
    fn owe(&self, meeting: &Meeting<'_>, spent: &mut SmallVec<[Spent; 4]>) {
        let granted: SmallVec<[Charge; 4]> = meeting
            .charges
            .iter()
            .filter(|charge| matches!(charge.spent, When::Admitted | When::Tried))
            .filter(|charge| !is_lease(&charge.meter))
            .filter(|charge| spent.iter().any(|(_, receipt)| receipt.id == charge.id))
            .cloned()
            .collect();
        let owed = self.store.owe(&granted);
        spent.extend(owed.into_iter().map(|receipt| (Origin::Owed, receipt)));
    }

    /// Tells the store, ahead of the first question about a key since it is back, what the key was granted meanwhile.
    pub(super) fn tell_owed(&self, charges: &[Charge]) {
        if !self.store.owes_any() {
            return;
        }
        for charge in charges {
            if let Some(cost) = self.store.take_owed(charge) {
                let granted = Charge {
                    cost,
                    id: self.next_id(),
                    spent: When::Settled,
                    ..charge.clone()
                };
                self.store.spend(Origin::Store, &granted);
            }
        }
    }
}

/// The limits that asked something, each once.
fn limits(meeting: &Meeting<'_>) -> SmallVec<[(usize, IfDown, Stake); 4]> {
    let mut limits: SmallVec<[usize; 4]> = meeting.asked.iter().map(|asked| asked.limit).collect();
    limits.dedup();
    limits
        .into_iter()
        .filter_map(|index| {
            let limit = meeting.limit(index)?;
            Some((index, limit.if_down, stake(meeting.policy, limit)))
        })
        .collect()
}
