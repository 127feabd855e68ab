//! The limits that one request meets: what is asked of the store, and what each is told.

use std::num::NonZeroU32;
use std::time::Duration;

use smallvec::SmallVec;

use super::settle::AllTerms;
use super::{Cause, Met, Refusal, Shown, counts_locally, watched};
use crate::limit::{Charge, Decision, Meter, Quota, Retry, Ruling, Stake, Verdict};
use crate::policy::{Limit, Policy};
use crate::store::Memory;
use crate::telemetry::{Decided, DecisionSource, LimitEvents};
use crate::time::{Micros, Timestamp};

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

/// What of which limit a charge is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Asked {
    /// Index into `Policy::limits`.
    pub(super) limit: usize,
    /// What of it.
    pub(super) part: Part,
}

/// What a limit asks of the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Part {
    /// Whether the key is blocked; index into `Limit::amounts` of the first that holds.
    Block(usize),
    /// Index into `Limit::amounts`.
    Amount(usize),
    /// The amount that is tried.
    Candidate,
}

impl Asked {
    /// Index into `Limit::amounts`, where it is about one.
    fn amount(self) -> Option<usize> {
        match self.part {
            Part::Amount(amount) => Some(amount),
            Part::Block(_) | Part::Candidate => None,
        }
    }

    /// The share of one of so many gateways.
    fn share(
        self,
        limit: &Limit,
        instances: NonZeroU32,
        now: impl FnOnce() -> Timestamp,
    ) -> Option<Meter> {
        let amount = match self.part {
            Part::Amount(amount) => limit.amounts.get(amount)?,
            Part::Block(amount) => {
                let meter = limit.amounts.get(amount)?.meter.divided(instances);
                return Some(limit.then.as_ref()?.meter(&meter));
            }
            Part::Candidate => limit.candidate.as_ref()?,
        };
        Some(amount.share_at(instances, now))
    }
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

    /// The charges that this process bears in place of the store, under the share of one of `instances` gateways, of those
    /// that `which` picks.
    pub(super) fn local_charges<'a>(
        &'a self,
        local: &'a Memory,
        instances: NonZeroU32,
        which: impl Fn(&Charge) -> bool + 'a,
    ) -> impl Iterator<Item = Charge> + 'a {
        let asked = self.charges.iter().zip(&self.asked);
        asked.filter_map(move |(charge, asked)| {
            let limit = self
                .limit(asked.limit)
                .filter(|limit| counts_locally(limit))?;
            let meter = asked.share(limit, instances, || local.now())?;
            which(charge).then(|| Charge {
                meter,
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
                met: std::mem::take(&mut self.met),
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
        let blocked = Blocked::of(told);
        for (asked, decision) in told {
            if let (Some(amount), Stake::Binding) = (asked.amount(), decision.stake) {
                self.shown.push(shown(index, amount, decision, blocked));
            }
        }
        let decided = fate(told, watched(self.policy, index), blocked);
        self.decide(index, decided);
        let over = |(asked, decision): &(Asked, Decision)| {
            asked.part == Part::Candidate && !decision.verdict.passes()
        };
        if told.iter().any(over) {
            self.decide(index, Decided::CandidateRejected);
        }
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

/// A block that rejects.
#[derive(Clone, Copy, Debug)]
struct Blocked {
    /// How long it lasts.
    retry: Retry,
    stake: Stake,
    begun: Begun,
}

/// When a block began.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Begun {
    /// Before this request.
    Before,
    /// With this request, which the amounts rejected.
    Now,
}

impl Blocked {
    fn of(told: &[(Asked, Decision)]) -> Option<Self> {
        told.iter()
            .find_map(|(asked, decision)| match (asked.part, decision.verdict) {
                (Part::Block(_), Verdict::Reject(retry)) => Some(Self {
                    retry,
                    stake: decision.stake,
                    begun: match decision.mark {
                        None => Begun::Before,
                        Some(_strike) => Begun::Now,
                    },
                }),
                _ => None,
            })
    }
}

/// What a client is told of an amount: of a blocked limit, that nothing is left until the block has ended.
fn shown(limit: usize, amount: usize, decision: &Decision, blocked: Option<Blocked>) -> Shown {
    let own = match decision.verdict {
        Verdict::Reject(retry) => Some(retry),
        Verdict::Allow | Verdict::Delay { .. } => None,
    };
    let block = blocked.map(|blocked| blocked.retry);
    let remaining = if block.is_some() {
        0
    } else {
        decision.quota.remaining
    };
    Shown {
        limit,
        amount,
        quota: Quota {
            remaining,
            ..decision.quota
        },
        rejected: own.max(block),
        cause: if block > own {
            Cause::Block
        } else {
            Cause::Amount
        },
    }
}

/// How the request fared with a limit; `watched` is its name for one that it would have rejected.
fn fate(told: &[(Asked, Decision)], watched: Decided, blocked: Option<Blocked>) -> Decided {
    if let Some(blocked) = blocked.filter(|blocked| blocked.begun == Begun::Before) {
        return match blocked.stake {
            Stake::Binding => Decided::Blocked,
            Stake::Watching => watched,
        };
    }
    let amounts = told.iter().filter(|(asked, _)| asked.amount().is_some());
    let retry = amounts.filter_map(|(_, decision)| match decision.verdict {
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
        let amount = limit.amounts.get(asked.amount()?)?;
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
