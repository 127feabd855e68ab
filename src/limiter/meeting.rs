//! The limits that one request meets: what is asked of the store, and what each is told.

use std::time::Duration;

use smallvec::SmallVec;

use super::settle::AllTerms;
use super::{Met, Refusal, Shown, counts_locally, watched};
use crate::limit::{Charge, Decision, Retry, Ruling, Stake, Verdict};
use crate::policy::{Limit, Policy};
use crate::store::Memory;
use crate::telemetry::{Decided, DecisionSource, LimitEvents};
use crate::time::Micros;

/// One request among the limits of a policy.
pub(super) struct Meeting<'p> {
    pub(super) policy: &'p Policy,
    events: &'p [LimitEvents],
    /// What is asked; all charges of one limit stand together.
    pub(super) charges: SmallVec<[Charge; 4]>,
    /// Whose charge it is, in the same order.
    pub(super) asked: SmallVec<[Asked; 4]>,
    /// What the client is shown.
    pub(super) shown: Vec<Shown>,
    /// How the request fared with each limit.
    pub(super) met: Met,
    /// What the answer decides about the charges.
    pub(super) terms: AllTerms,
}

/// Which amount of which limit a charge is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Asked {
    /// Index into `Policy::limits`.
    pub(super) limit: usize,
    /// Index into `Limit::amounts`.
    pub(super) amount: usize,
}

impl<'p> Meeting<'p> {
    pub(super) fn new(policy: &'p Policy, events: &'p [LimitEvents]) -> Self {
        Self {
            policy,
            events,
            charges: SmallVec::new(),
            asked: SmallVec::new(),
            shown: Vec::new(),
            met: Met::new(),
            terms: AllTerms::new(),
        }
    }

    /// Counts the one decision of a limit.
    pub(super) fn decide(&mut self, limit: usize, decided: Decided) {
        if let Some(events) = self.events.get(limit) {
            events.decided(decided);
        }
        self.met.push((limit, decided));
    }

    /// Counts who decided.
    pub(super) fn source(&self, limit: usize, source: DecisionSource) {
        if let Some(events) = self.events.get(limit) {
            events.source(source);
        }
    }

    /// Counts a key of which no part was there.
    pub(super) fn key_missing(&self, limit: usize) {
        if let Some(events) = self.events.get(limit) {
            events.key_missing();
        }
    }

    /// The charges that this process bears in place of the store, under the amount of one gateway, of those that `which`
    /// picks.
    pub(super) fn local_charges<'a>(
        &'a self,
        local: &'a Memory,
        which: impl Fn(&Charge) -> bool + 'a,
    ) -> impl Iterator<Item = Charge> + 'a {
        let asked = self.charges.iter().zip(&self.asked);
        asked.filter_map(move |(charge, asked)| {
            let limit = self
                .limit(asked.limit)
                .filter(|limit| counts_locally(limit))?;
            let amount = limit.amounts.get(asked.amount)?;
            which(charge).then(|| Charge {
                meter: amount.local_at(|| local.now()),
                ..charge.clone()
            })
        })
    }

    pub(super) fn limit(&self, index: usize) -> Option<&'p Limit> {
        self.policy.limits.get(index)
    }

    /// Takes the ruling on the charges: counts, and gathers what is shown. Returns how long the request waits its turn.
    pub(super) fn weigh(
        &mut self,
        ruling: &Ruling,
        source: DecisionSource,
    ) -> Result<Micros, Refusal> {
        let retry = ruling.retry();
        let delay = ruling.delay();
        let asked = std::mem::take(&mut self.asked);
        let told: SmallVec<[(Asked, Decision); 4]> = asked
            .iter()
            .copied()
            .zip(ruling.decisions.iter().copied())
            .collect();
        for of_limit in told.chunk_by(|(one, _), (next, _)| one.limit == next.limit) {
            self.weigh_limit(of_limit, source);
        }
        self.asked = asked;
        match retry {
            Some(retry) => Err(Refusal::Limited {
                retry,
                shown: std::mem::take(&mut self.shown),
            }),
            None => Ok(delay),
        }
    }

    /// Counts one limit, whose amounts all hold.
    fn weigh_limit(&mut self, told: &[(Asked, Decision)], source: DecisionSource) {
        let Some(&(Asked { limit: index, .. }, _)) = told.first() else {
            return;
        };
        let Some(limit) = self.limit(index) else {
            return;
        };
        for (asked, decision) in told {
            if decision.stake == Stake::Binding {
                self.shown.push(Shown {
                    limit: index,
                    amount: asked.amount,
                    quota: decision.quota,
                    rejected: match decision.verdict {
                        Verdict::Reject(retry) => Some(retry),
                        Verdict::Allow | Verdict::Delay { .. } => None,
                    },
                });
            }
        }
        let decided = fate(told, watched(self.policy, index));
        self.decide(index, decided);
        self.source(index, source);
        let Some(events) = self.events.get(index) else {
            return;
        };
        if decided == Decided::Delayed {
            events.delayed(Duration::from(longest_delay(told)));
        }
        if let Some((used, quota)) = tightest(limit, told) {
            events.used(used, quota);
        }
    }
}

/// How the request fared with a limit; `watched` is its name for one that it would have rejected.
fn fate(told: &[(Asked, Decision)], watched: Decided) -> Decided {
    let retry = told
        .iter()
        .filter_map(|(_, decision)| match decision.verdict {
            Verdict::Reject(retry) => Some((retry, decision.stake)),
            Verdict::Allow | Verdict::Delay { .. } => None,
        });
    match retry.max_by_key(|(retry, _)| *retry) {
        Some((_, Stake::Watching)) => watched,
        Some((Retry::Never, Stake::Binding)) => Decided::Never,
        Some((Retry::After(_) | Retry::Unknown, Stake::Binding)) => Decided::Rejected,
        None if longest_delay(told) > Micros::ZERO => Decided::Delayed,
        None => Decided::Allowed,
    }
}

/// How long the request waits for a limit that binds it; a limit in shadow keeps nobody waiting.
fn longest_delay(told: &[(Asked, Decision)]) -> Micros {
    let delays = told
        .iter()
        .filter_map(|(_, decision)| match (decision.stake, decision.verdict) {
            (Stake::Binding, Verdict::Delay { by }) => Some(by),
            _ => None,
        });
    delays.max().unwrap_or(Micros::ZERO)
}

/// What is used of the amount of which the greatest share is used, and the amount.
fn tightest(limit: &Limit, told: &[(Asked, Decision)]) -> Option<(u64, u64)> {
    let shares = told.iter().filter_map(|(asked, decision)| {
        let amount = limit.amounts.get(asked.amount)?;
        let quota = amount.burst.unwrap_or(amount.quota);
        Some((quota.saturating_sub(decision.quota.remaining), quota))
    });
    shares.max_by(|one, other| {
        let (left, right) = (cross(one.0, other.1), cross(other.0, one.1));
        left.cmp(&right)
    })
}

fn cross(used: u64, quota: u64) -> u128 {
    u128::from(used) * u128::from(quota)
}
