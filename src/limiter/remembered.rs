//! Rejections that are remembered, so that a flood on a key that is out costs the store next to nothing.
//!
//! What a worker was told it may tell again until the key's time, but no longer than a second from when it asked. So a
//! key that came free early, by a change of the amount or an operator's hand, is served again within that second.

use std::cell::{Cell, RefCell};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::Instant;

use smallvec::SmallVec;

use super::meeting::{Asked, Meeting};
use super::{Limiter, Refusal};
use crate::limit::{
    Charge, Cost, Decision, Key, Meter, Quota, Retry, Ruling, Stake, Verdict, When,
};
use crate::policy::Count;
use crate::telemetry::DecisionSource;
use crate::time::Micros;

/// For how long a rejection is told again without asking.
const MEMORY: Duration = Duration::from_secs(1);
/// How many sets of [`WAYS`] rejections are remembered; a power of two.
const SETS: usize = 1024;
/// How many keys of the same set are remembered at once; the one that ends first makes room.
const WAYS: usize = 4;

/// What one worker was told of keys that are out: a fixed number of them.
#[derive(Debug)]
pub(super) struct Remembered {
    sets: RefCell<Box<[Set]>>,
    hasher: RandomState,
    /// When the last of them ends: after that nothing is looked for.
    ends: Cell<Option<Instant>>,
}

/// Places for the keys of one hash.
type Set = [Option<Rejection>; WAYS];

/// A key that is out.
#[derive(Debug)]
struct Rejection {
    key: Key,
    meter: Meter,
    /// What was asked: a lower cost might pass, and a higher one might never.
    cost: Cost,
    retry: Micros,
    quota: Quota,
    /// When the store's answer came; its spans run from no later than then.
    heard: Instant,
    /// When it may no longer be told again.
    ends: Instant,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            sets: RefCell::new((0..SETS).map(|_| Default::default()).collect()),
            hasher: RandomState::new(),
            ends: Cell::new(None),
        }
    }
}

impl Remembered {
    /// Keeps a rejection of `charge` by a call that was sent at `sent` and answered at `heard`. What is allowed, and what
    /// has no time at which it ends, is not kept.
    pub(super) fn keep(&self, charge: &Charge, decision: &Decision, sent: Instant, heard: Instant) {
        let (Stake::Binding, Verdict::Reject(Retry::After(retry))) =
            (decision.stake, decision.verdict)
        else {
            return;
        };
        let ends = sent + MEMORY.min(Duration::from(retry));
        if ends <= heard {
            return;
        }
        let mut sets = self.sets.borrow_mut();
        let Some(set) = sets.get_mut(self.set_of(&charge.key)) else {
            return;
        };
        let known = set
            .iter()
            .position(|slot| slot.as_ref().is_some_and(|known| known.key == charge.key));
        let place = known.or_else(|| {
            let ends = set.iter().map(|slot| slot.as_ref().map(|known| known.ends));
            // An empty place comes before any time.
            ends.enumerate()
                .min_by_key(|(_, ends)| *ends)
                .map(|(place, _)| place)
        });
        if let Some(slot) = place.and_then(|place| set.get_mut(place)) {
            *slot = Some(Rejection {
                key: charge.key.clone(),
                meter: charge.meter,
                cost: charge.cost,
                retry,
                quota: decision.quota,
                heard,
                ends,
            });
            self.ends.set(self.ends.get().max(Some(ends)));
        }
    }

    /// Whether anything may be told again at `now`.
    pub(super) fn holds_any(&self, now: Instant) -> bool {
        self.ends.get().is_some_and(|ends| ends > now)
    }

    /// What the store would say to `charge` at `now`, if it is known to be out.
    pub(super) fn recall(&self, charge: &Charge, now: Instant) -> Option<Decision> {
        let sets = self.sets.borrow();
        let set = sets.get(self.set_of(&charge.key))?;
        let known = set.iter().flatten().find(|known| known.key == charge.key)?;
        let holds = known.ends > now && known.meter == charge.meter && known.cost == charge.cost;
        if !holds || charge.stake != Stake::Binding {
            return None;
        }
        let passed = Micros::from(now.saturating_duration_since(known.heard));
        let quota = Quota {
            reset_after: less(known.quota.reset_after, passed),
            ..known.quota
        };
        Some(Decision {
            stake: charge.stake,
            verdict: Verdict::Reject(Retry::After(less(known.retry, passed))),
            quota,
            mark: None,
        })
    }

    fn set_of(&self, key: &Key) -> usize {
        usize::try_from(self.hasher.hash_one(key) % SETS as u64).unwrap_or(0)
    }
}

impl Limiter {
    /// Refuses a request of which a key is known to be out, without asking. Where a block or a candidate is to hear of
    /// the request, the store is asked.
    pub(super) fn recall(&self, meeting: &mut Meeting<'_>) -> Result<(), Refusal> {
        let heard = |charge: &Charge| matches!(charge.spent, When::Admitted | When::Settled);
        let now = Instant::now();
        if !self.remembered.holds_any(now) || !meeting.charges.iter().all(heard) {
            return Ok(());
        }
        let known = meeting.charges.iter().zip(&meeting.asked);
        let known = known
            .filter_map(|(charge, asked)| Some((*asked, self.remembered.recall(charge, now)?)));
        let (asked, decisions): (SmallVec<[Asked; 4]>, _) = known.unzip();
        if asked.is_empty() {
            return Ok(());
        }
        meeting.asked = asked;
        let at = self.store.shared().now();
        let told = meeting.weigh(&Ruling { at, decisions }, DecisionSource::Remembered);
        told.map(|_delay| ())
    }

    /// Remembers which keys are out. Only Redis is worth it, and only limits whose cost cannot come back.
    pub(super) fn remember(&self, meeting: &Meeting<'_>, ruling: &Ruling, sent: Instant) {
        if ruling.retry().is_none() || self.store.local().is_none() {
            return;
        }
        let heard = Instant::now();
        let told = meeting
            .charges
            .iter()
            .zip(&meeting.asked)
            .zip(&ruling.decisions);
        for ((charge, asked), decision) in told {
            let limit = meeting.limit(asked.limit);
            if limit
                .is_some_and(|limit| limit.count == Count::Every && limit.cost.answer().is_none())
            {
                self.remembered.keep(charge, decision, sent, heard);
            }
        }
    }
}

fn less(span: Micros, passed: Micros) -> Micros {
    Micros::new(span.get().saturating_sub(passed.get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::algorithm::FixedWindow;
    use crate::limit::{ChargeId, When};

    fn charge(key: &str, amount: u64, cost: u32) -> Charge {
        Charge {
            key: Key::new(key),
            meter: Meter::FixedWindow(FixedWindow::new(amount, Micros::SECOND).unwrap()),
            cost: Cost::new(cost),
            id: ChargeId::new(1),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }
    }

    fn rejected(retry: u64) -> Decision {
        Decision {
            stake: Stake::Binding,
            verdict: Verdict::Reject(Retry::After(Micros::new(retry))),
            quota: Quota {
                remaining: 1,
                reset_after: Micros::new(retry),
            },
            mark: None,
        }
    }

    #[test]
    fn a_rejection_is_told_again_for_a_second_from_when_it_was_asked_and_counts_down() {
        let remembered = Remembered::default();
        let sent = Instant::now();
        let heard = sent + Duration::from_millis(10);
        let charge = charge("a", 5, 2);
        assert_eq!(remembered.recall(&charge, heard), None);
        remembered.keep(&charge, &rejected(60_000_000), sent, heard);

        let later = heard + Duration::from_millis(500);
        let Decision { verdict, quota, .. } = remembered.recall(&charge, later).unwrap();
        let retry = Retry::After(Micros::new(59_500_000));
        assert_eq!(verdict, Verdict::Reject(retry));
        assert_eq!(quota.reset_after, Micros::new(59_500_000));
        assert_eq!(quota.remaining, 1);
        let almost = sent + Duration::from_micros(999_999);
        assert!(remembered.recall(&charge, almost).is_some());
        assert_eq!(remembered.recall(&charge, sent + MEMORY), None);
    }

    #[test]
    fn a_key_that_comes_free_sooner_is_asked_for_then() {
        let remembered = Remembered::default();
        let sent = Instant::now();
        let charge = charge("a", 5, 1);
        remembered.keep(&charge, &rejected(300_000), sent, sent);
        let almost = sent + Duration::from_micros(299_999);
        assert!(remembered.recall(&charge, almost).is_some());
        let free = sent + Duration::from_millis(300);
        assert_eq!(remembered.recall(&charge, free), None);
    }

    #[test]
    fn nothing_is_looked_for_after_the_last_has_ended() {
        let remembered = Remembered::default();
        let sent = Instant::now();
        assert!(!remembered.holds_any(sent));
        remembered.keep(&charge("a", 5, 1), &rejected(300_000), sent, sent);
        remembered.keep(&charge("b", 5, 1), &rejected(100_000), sent, sent);
        let almost = sent + Duration::from_micros(299_999);
        assert!(remembered.holds_any(almost));
        assert!(!remembered.holds_any(sent + Duration::from_millis(300)));
    }

    #[test]
    fn only_the_same_question_is_answered() {
        let remembered = Remembered::default();
        let sent = Instant::now();
        remembered.keep(&charge("a", 5, 2), &rejected(9_000_000), sent, sent);
        assert!(remembered.recall(&charge("a", 5, 2), sent).is_some());
        let (cheaper, dearer) = (charge("a", 5, 1), charge("a", 5, 3));
        for other in [cheaper, dearer, charge("a", 6, 2), charge("b", 5, 2)] {
            assert_eq!(remembered.recall(&other, sent), None);
        }
        let watching = Charge {
            stake: Stake::Watching,
            ..charge("a", 5, 2)
        };
        assert_eq!(remembered.recall(&watching, sent), None);
    }

    #[test]
    fn what_passes_and_what_ends_at_no_known_time_is_not_kept() {
        let remembered = Remembered::default();
        let sent = Instant::now();
        let charge = charge("a", 5, 1);
        for verdict in [
            Verdict::Allow,
            Verdict::Reject(Retry::Unknown),
            Verdict::Reject(Retry::Never),
        ] {
            let decision = Decision {
                verdict,
                ..rejected(9_000_000)
            };
            remembered.keep(&charge, &decision, sent, sent);
            assert_eq!(remembered.recall(&charge, sent), None);
        }
        let late = sent + MEMORY;
        remembered.keep(&charge, &rejected(9_000_000), sent, late);
        assert_eq!(
            remembered.recall(&charge, late),
            None,
            "the answer came late"
        );
    }

    #[test]
    fn a_flood_of_keys_takes_no_more_room() {
        let remembered = Remembered::default();
        let sent = Instant::now();
        for key in 0..20_000 {
            let charge = charge(&key.to_string(), 5, 1);
            remembered.keep(&charge, &rejected(9_000_000), sent, sent);
            assert!(remembered.recall(&charge, sent).is_some());
        }
        let sets = remembered.sets.borrow();
        assert_eq!(sets.iter().flatten().flatten().count(), SETS * WAYS);
    }
}
