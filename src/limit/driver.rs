//! The driver: judges every charge of a request at one instant, spends all or none. Its Lua twin is
//! `store/redis/driver.lua`, line by line.

use smallvec::SmallVec;

use super::algorithm::Booked;
use super::{Charge, Quota, Receipt, Retry, Stake, State, Verdict, When};
use crate::time::{Micros, Timestamp};

/// What a store says to a whole request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ruling {
    /// The instant of judgement, on the store's clock.
    pub at: Timestamp,
    /// One for each charge, in the order of the charges.
    pub decisions: SmallVec<[Decision; 4]>,
}

/// What a store says to one charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// Whether the charge binds the request.
    pub stake: Stake,
    /// What the meter answered.
    pub verdict: Verdict,
    /// What is left, after spending if the charge was spent.
    pub quota: Quota,
    /// Where it was booked; none when nothing was spent.
    pub mark: Option<u64>,
}

impl Ruling {
    /// Why the request may not pass: the greatest retry of the binding charges that reject. None: it may.
    #[must_use]
    pub fn retry(&self) -> Option<Retry> {
        let rejecting =
            self.decisions
                .iter()
                .filter_map(|decision| match (decision.stake, decision.verdict) {
                    (Stake::Binding, Verdict::Reject(retry)) => Some(retry),
                    _ => None,
                });
        rejecting.max()
    }

    /// How long the request waits for its turn: the longest delay of its binding charges.
    #[must_use]
    pub fn delay(&self) -> Micros {
        let delays =
            self.decisions
                .iter()
                .filter_map(|decision| match (decision.stake, decision.verdict) {
                    (Stake::Binding, Verdict::Delay { by }) => Some(by),
                    _ => None,
                });
        delays.max().unwrap_or(Micros::ZERO)
    }

    /// Whether anything was spent.
    #[must_use]
    pub fn spent(&self) -> bool {
        self.decisions
            .iter()
            .any(|decision| decision.mark.is_some())
    }

    /// What `charges` were given for what they spent; they are those that were asked, in the same order.
    pub fn receipts<'c>(&'c self, charges: &'c [Charge]) -> impl Iterator<Item = Receipt> + 'c {
        charges
            .iter()
            .zip(&self.decisions)
            .filter_map(|(charge, decision)| Some(charge.receipt(decision.mark?)))
    }
}

/// Judges `charges` at `now`, each against its own state of `states` and none against what another spends. Then spends
/// those that pass, each where its [`When`] says so: of an admitted request all of its binding ones, of a rejected one
/// none but what counts rejections and what tries another amount.
///
/// A charge that is spent when its limit rejects is then asked again, so that this very rejection reports the block that
/// it began.
///
/// The keys of the charges are distinct, so are the states. A state may change even when nothing is spent
/// ([`Judge::heal`](super::algorithm::Judge::heal)).
pub fn decide(states: &mut [&mut State], charges: &[Charge], now: Timestamp) -> Ruling {
    let mut decisions: SmallVec<[Decision; 4]> = SmallVec::new();
    for (state, charge) in states.iter_mut().zip(charges) {
        let meter = charge.meter.judge();
        meter.heal(state, now);
        let verdict = meter.judge(state, now, charge.cost);
        decisions.push(Decision {
            stake: charge.stake,
            verdict,
            quota: Quota::default(),
            mark: None,
        });
    }
    let rejecting: SmallVec<[&Charge; 4]> = charges
        .iter()
        .zip(&decisions)
        .filter_map(|(charge, decision)| (!decision.verdict.passes()).then_some(charge))
        .collect();
    for ((state, charge), decision) in states.iter_mut().zip(charges).zip(&mut decisions) {
        let meter = charge.meter.judge();
        let passes = decision.verdict.passes() && charge.cost.get() > 0;
        if passes && charge.is_spent(&rejecting) {
            decision.mark = Some(meter.spend(state, now, charge.cost, charge.id));
            if charge.spent == When::Rejected {
                decision.verdict = meter.judge(state, now, charge.cost);
            }
        }
        decision.quota = meter.quota(state, now);
    }
    Ruling { at: now, decisions }
}

/// Takes back what `receipt` says, all or a part, as far as it still counts; tells what is left then.
pub fn give_back(state: &mut State, receipt: &Receipt, now: Timestamp) -> Quota {
    let meter = receipt.meter.judge();
    meter.heal(state, now);
    let booked = Booked {
        mark: receipt.mark,
        id: receipt.id,
        cost: receipt.cost,
    };
    meter.give_back(state, now, booked, receipt.back);
    meter.quota(state, now)
}

/// Spends `charge` without asking; tells where it was booked and what is left then.
pub fn spend(state: &mut State, charge: &Charge, now: Timestamp) -> Decision {
    let meter = charge.meter.judge();
    meter.heal(state, now);
    let mark = meter.spend(state, now, charge.cost, charge.id);
    Decision {
        stake: charge.stake,
        verdict: Verdict::Allow,
        quota: meter.quota(state, now),
        mark: (charge.cost.get() > 0).then_some(mark),
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod worlds;
