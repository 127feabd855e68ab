//! What concurrency has beside the laws: leases that are renewed, lost and entered again.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{EPOCH, Key, units};
use crate::limit::algorithm::{Booked, Concurrency, Meter};
use crate::limit::{ChargeId, Cost, Retry, Verdict};
use crate::time::{Micros, Timestamp};

const LEASE: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
enum Act {
    Ask(u32),
    /// Renew what was spent so many charges ago, whether it is still leased or not.
    Renew(usize),
    /// Give it back; it may have been given back before.
    GiveBack(usize),
}

/// The leases one by one, in the plainest way: who holds how much until when.
#[derive(Debug, Default)]
struct Oracle(Vec<(ChargeId, u64, u64)>);

impl Oracle {
    fn held(&self, now: u64) -> u64 {
        let live = self.0.iter().filter(|(_, _, deadline)| *deadline > now);
        live.map(|(_, cost, _)| cost).sum()
    }

    fn release(&mut self, id: ChargeId) {
        self.0.retain(|(held, _, _)| *held != id);
    }

    fn lease(&mut self, id: ChargeId, cost: Cost, now: u64) {
        self.release(id);
        self.0.push((id, cost.get(), now + LEASE));
    }
}

fn concurrency(amount: u64) -> Meter {
    Meter::Concurrency(Concurrency::new(amount, Micros::new(LEASE)).unwrap())
}

fn renew(key: &mut Key, Booked { id, cost, .. }: Booked) {
    let now = Timestamp::from_micros(key.now);
    key.meter.judge().spend(&mut key.state, now, cost, id);
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        5 => (0_u32..5).prop_map(Act::Ask),
        3 => (0_usize..6).prop_map(Act::Renew),
        3 => (0_usize..6).prop_map(Act::GiveBack),
    ]
}

proptest! {
    #[test]
    fn leases_are_those_of_the_oracle(amount in 1_u64..9, steps in vec((0_u64..700, act()), 1..60)) {
        let (mut key, mut oracle) = (Key::new(concurrency(amount)), Oracle::default());
        for (wait, act) in steps {
            key.now += wait;
            key.heal();
            let nth_last = |back: usize| key.spent.iter().rev().nth(back).copied();
            match act {
                Act::Ask(cost) => {
                    let room = amount.checked_sub(oracle.held(key.now) + u64::from(cost));
                    let expected = match room {
                        _ if cost == 0 => Verdict::Allow,
                        Some(_) => Verdict::Allow,
                        None if u64::from(cost) > amount => Verdict::Reject(Retry::Never),
                        None => Verdict::Reject(Retry::Unknown),
                    };
                    prop_assert_eq!(key.ask(cost), expected);
                    if expected.passes() && cost > 0 {
                        key.spend(cost);
                        let Booked { id, cost, .. } = key.spent[key.spent.len() - 1];
                        oracle.lease(id, cost, key.now);
                    }
                }
                Act::Renew(back) => if let Some(spent) = nth_last(back) {
                    renew(&mut key, spent);
                    oracle.lease(spent.id, spent.cost, key.now);
                },
                Act::GiveBack(back) => if let Some(spent) = nth_last(back) {
                    key.give_back(spent, units(spent));
                    oracle.release(spent.id);
                },
            }
            let held = oracle.held(key.now);
            prop_assert_eq!(key.quota().remaining, amount.saturating_sub(held));
            let last = oracle.0.iter().map(|(_, _, deadline)| deadline.saturating_sub(key.now)).max();
            prop_assert_eq!(key.quota().reset_after.get(), last.unwrap_or(0));
        }
    }

    #[test]
    fn a_clock_that_steps_back_neither_frees_a_lease_nor_keeps_it_for_ever(back in 0_u64..1_000_000_000) {
        let mut key = Key::new(concurrency(1));
        key.spend(1);
        key.now = EPOCH - back;
        key.heal();
        prop_assert_eq!(key.ask(1), Verdict::Reject(Retry::Unknown));
        prop_assert_eq!(key.at(key.now + LEASE - 1).ask(1), Verdict::Reject(Retry::Unknown));
        prop_assert!(key.at(key.now + 2 * LEASE).ask(1).passes());
    }
}

#[test]
fn a_lease_that_is_renewed_outlives_the_lease_time_and_one_that_is_not_does_not() {
    let mut key = Key::new(concurrency(2));
    key.spend(1);
    key.spend(1);
    let renewed = key.spent[0];
    for _ in 0..10 {
        key.now += LEASE / 3;
        key.heal();
        renew(&mut key, renewed);
    }
    assert_eq!(key.quota().remaining, 1);
    assert!(!key.ask(2).passes());
    key.give_back(renewed, 1);
    key.give_back(renewed, 1);
    assert_eq!(key.quota().remaining, 2);
}

#[test]
fn a_lease_that_was_lost_is_entered_again_also_above_the_amount() {
    let mut key = Key::new(concurrency(1));
    key.spend(1);
    let lost = key.spent[0];
    key.now += LEASE;
    key.heal();
    key.spend(1);
    renew(&mut key, lost);
    assert_eq!(key.ask(1), Verdict::Reject(Retry::Unknown));
    key.give_back(key.spent[1], 1);
    assert_eq!(
        key.ask(1),
        Verdict::Reject(Retry::Unknown),
        "it counts again"
    );
    key.give_back(lost, 1);
    assert!(key.ask(1).passes());
}
