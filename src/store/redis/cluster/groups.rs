//! A request whose keys lie in several slots: its groups are asked one after another, and what was spent is given back
//! when a later one rejects.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;

use smallvec::SmallVec;
use tokio::time::Instant;

use super::super::queue::Spent;
use super::super::way::{Manner, NoRuling, Redirect};
use super::route::Router;
use super::slots::Slot;
use crate::limit::{Charge, Decision, Quota, Ruling, Stake, Verdict};
use crate::store::StoreError;
use crate::time::Timestamp;

/// Charges that are judged together: all of one slot or, while that moves, all of one key.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Group {
    slot: Slot,
    manner: Manner,
    /// Their places among the charges of the request.
    places: SmallVec<[usize; 4]>,
}

/// A group that was judged. Dropped, as when the client leaves, it gives back what it spent.
#[derive(Debug)]
struct Judged {
    group: Group,
    spent: Spent,
}

/// Judges the charges of one request group by group, up to the first that rejects. Whatever ends it early, also that the
/// client leaves, gives back what was spent.
pub(super) async fn admit(
    router: &Router,
    charges: &[Charge],
    until: Instant,
) -> Result<Ruling, StoreError> {
    let mut waiting = groups(charges);
    let mut judged: SmallVec<[Judged; 4]> = SmallVec::new();
    while let Some(group) = waiting.pop_front() {
        let asked = if group.places.len() == charges.len() {
            Cow::Borrowed(charges)
        } else {
            Cow::Owned(pick(&group, charges).cloned().collect())
        };
        match router.ask(group.slot, group.manner, &asked, until).await {
            Ok(spent) => {
                let rejects = spent.ruling().retry().is_some();
                judged.push(Judged { group, spent });
                if rejects {
                    break;
                }
            }
            Err(NoRuling::Redirected(Redirect::TryAgain)) if group.manner == Manner::Together => {
                // Some of its keys have moved. Each by itself is on one node or the other.
                for part in by_key(&group, charges).into_iter().rev() {
                    waiting.push_front(part);
                }
            }
            Err(no_ruling) => return Err(no_ruling.into()),
        }
    }
    if waiting.is_empty() && judged.len() == 1 {
        let spent = judged.pop().map(|one| one.spent.keep());
        return spent.ok_or(StoreError::Refused);
    }
    Ok(combine(charges, judged))
}

fn pick<'c>(group: &Group, charges: &'c [Charge]) -> impl Iterator<Item = &'c Charge> {
    group.places.iter().filter_map(|place| charges.get(*place))
}

/// The charges by slot, the narrowest identity first: what one client may not do costs the counters of all nothing.
fn groups(charges: &[Charge]) -> VecDeque<Group> {
    let mut groups: SmallVec<[(u8, Group); 4]> = SmallVec::new();
    for (place, charge) in charges.iter().enumerate() {
        let (slot, width) = (Slot::of(charge.key.as_str()), charge.key.width());
        match groups.iter_mut().find(|(_, group)| group.slot == slot) {
            Some((narrowest, group)) => {
                *narrowest = width.min(*narrowest);
                group.places.push(place);
            }
            None => groups.push((
                width,
                Group {
                    slot,
                    manner: Manner::Together,
                    places: SmallVec::from_slice(&[place]),
                },
            )),
        }
    }
    groups.sort_by_key(|(width, _)| *width);
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The same charges, each key by itself.
fn by_key(group: &Group, charges: &[Charge]) -> Vec<Group> {
    let mut parts: Vec<Group> = Vec::new();
    for &place in &group.places {
        let key = |place: usize| charges.get(place).map(|charge| &charge.key);
        let same =
            |part: &&mut Group| part.places.first().and_then(|first| key(*first)) == key(place);
        match parts.iter_mut().find(same) {
            Some(part) => part.places.push(place),
            None => parts.push(Group {
                slot: group.slot,
                manner: Manner::Alone,
                places: SmallVec::from_slice(&[place]),
            }),
        }
    }
    parts
}

/// One ruling of many. What a group spent, but would not have had it known what the others say, is given back; a charge
/// that was not asked, since another had rejected, says nothing.
fn combine(charges: &[Charge], judged: SmallVec<[Judged; 4]>) -> Ruling {
    let at = judged
        .last()
        .map_or_else(Timestamp::default, |last| last.spent.ruling().at);
    let rejecting: SmallVec<[&Charge; 4]> = judged
        .iter()
        .flat_map(|one| pick(&one.group, charges).zip(&one.spent.ruling().decisions))
        .filter_map(|(charge, decision)| (!decision.verdict.passes()).then_some(charge))
        .collect();
    let mut decisions: SmallVec<[Decision; 4]> = charges.iter().map(unasked).collect();
    for Judged { group, spent } in judged {
        let before = spent.ruling().decisions.clone();
        let after = spent.keep_where(|charge| charge.is_spent(&rejecting));
        let told = before.into_iter().zip(after.decisions);
        for (place, (before, after)) in group.places.into_iter().zip(told) {
            let charge = charges.get(place);
            if let (Some(decision), Some(charge)) = (decisions.get_mut(place), charge) {
                *decision = match (before.mark, after.mark) {
                    (Some(_), None) => given_back(before, charge),
                    (Some(_) | None, _) => after,
                };
            }
        }
    }
    Ruling { at, decisions }
}

/// What is said of a charge that was not asked: nobody is shown it, and it rejects nothing.
fn unasked(charge: &Charge) -> Decision {
    let judge = charge.meter.judge();
    let fresh = (charge.meter.kind().fresh)();
    Decision {
        stake: Stake::Watching,
        verdict: Verdict::Allow,
        quota: judge.quota(&fresh, Timestamp::default()),
        mark: None,
    }
}

/// What is said of a charge whose spending was taken back.
fn given_back(spent: Decision, charge: &Charge) -> Decision {
    let remaining = spent.quota.remaining.saturating_add(charge.cost.get());
    Decision {
        quota: Quota {
            remaining,
            ..spent.quota
        },
        mark: None,
        ..spent
    }
}
