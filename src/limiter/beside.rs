//! What a limit asks of the store beside its amounts: whether the key is blocked, and what a candidate says.

use super::meeting::{Asked, Meeting, Part};
use super::{Limiter, number, stake};
use crate::limit::{Charge, Cost, Identity, Key, Stake, When};
use crate::policy::BLOCK;

impl Limiter {
    /// Asks whether the key is blocked; `amount` is the first that holds.
    pub(super) fn ask_block(
        &self,
        meeting: &mut Meeting<'_>,
        index: usize,
        identity: &Identity,
        amount: usize,
    ) {
        let Some(limit) = meeting.limit(index) else {
            return;
        };
        let (Some(then), Some(held)) = (&limit.then, limit.amounts.get(amount)) else {
            return;
        };
        meeting.charges.push(Charge {
            key: Key::of(self.store.shared().prefix(), identity, &limit.name, BLOCK),
            meter: then.meter(&held.meter),
            cost: Cost::ONE,
            id: self.next_id(),
            stake: stake(meeting.policy, limit),
            limit: number(index),
            spent: then.begins.spent(),
        });
        meeting.asked.push(Asked {
            limit: index,
            part: Part::Block(amount),
        });
    }

    /// Asks what the candidate would say to this cost.
    pub(super) fn ask_candidate(
        &self,
        meeting: &mut Meeting<'_>,
        index: usize,
        identity: &Identity,
        cost: Cost,
    ) {
        let Some(limit) = meeting.limit(index) else {
            return;
        };
        let Some(candidate) = &limit.candidate else {
            return;
        };
        let id = self.next_id();
        meeting.answers_decide(limit, id);
        let prefix = self.store.shared().prefix();
        meeting.charges.push(Charge {
            key: Key::of(prefix, identity, &limit.name, &candidate.code),
            meter: candidate.meter,
            cost,
            id,
            stake: Stake::Watching,
            limit: number(index),
            spent: When::Tried,
        });
        meeting.asked.push(Asked {
            limit: index,
            part: Part::Candidate,
        });
    }
}
