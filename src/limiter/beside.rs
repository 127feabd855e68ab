//! What a limit asks of the store beside its amounts: whether the key is blocked, and what a candidate says.

use std::ops::Range;

use super::meeting::{Asked, Meeting, Part};
use super::{Limiter, Strike, number, stake};
use crate::limit::{Charge, Cost, Identity, Key, Stake, When};
use crate::policy::{BLOCK, Begins};

impl Limiter {
    /// Asks whether the key is blocked; the amounts in `run` hold. Gives what a charge counts toward when it stays.
    pub(super) fn ask_block(
        &self,
        meeting: &mut Meeting<'_>,
        index: usize,
        identity: &Identity,
        run: Range<usize>,
    ) -> Option<Strike> {
        let amount = (!run.is_empty()).then_some(run.start)?;
        let limit = meeting.limit(index)?;
        let (then, held) = (limit.then.as_ref()?, limit.amounts.get(amount)?);
        let strike = Strike {
            key: Key::of(self.store.shared().prefix(), identity, &limit.name, BLOCK),
            meter: then.meter(&held.meter),
            local: then.meter(&held.meter.divided(self.store.shared().instances())),
            id: self.next_id(),
        };
        meeting.charges.push(Charge {
            key: strike.key.clone(),
            meter: strike.meter,
            cost: Cost::ONE,
            id: strike.id,
            stake: stake(meeting.policy, limit),
            limit: number(index),
            spent: then.begins.spent(),
        });
        meeting.asked.push(Asked {
            limit: index,
            part: Part::Block(amount),
        });
        (then.begins == Begins::Answers).then_some(strike)
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
        meeting.terms.extend(self.terms(limit, id, None));
        let prefix = self.store.shared().prefix();
        meeting.charges.push(Charge {
            key: Key::of(prefix, identity, &limit.name, &candidate.code),
            meter: candidate.meter_at(|| self.store.shared().now()),
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
