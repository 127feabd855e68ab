//! Gateways whose clocks are wrong by any number of windows, each sending the boundaries around what its clock shows.

use proptest::collection::vec;
use proptest::prelude::*;

use super::{Key, boundaries, boundary, calendar, window};
use crate::limit::{Retry, Verdict};
use crate::time::Micros;

/// Forwards in thousandths of a window, by how many windows the clock of the gateway that asks is wrong, a cost, and
/// whether the gateway then gives back what it was given.
type Step = (u64, i64, u32, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wrong = prop_oneof![3 => Just(0_i64), 1 => -1_i64..=1, 1 => -9_i64..=9];
    vec(
        (0_u64..500, wrong, 0_u32..6, prop::bool::weighted(0.2)),
        1..60,
    )
}

/// Start and end of the true window.
fn truth(now: u64, window: u64) -> (u64, u64) {
    let mut number = (now / window).saturating_sub(2);
    while boundary(number + 1, window) <= now {
        number += 1;
    }
    (boundary(number, window), boundary(number + 1, window))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_their_clocks_show_a_window_admits_no_more_than_its_amount(
        amount in 1_u64..20, window in window(), steps in steps(),
    ) {
        let mut key = Key::new(calendar(amount, window));
        let mut kept: Vec<(u64, u64)> = Vec::new();
        for (wait, wrong, cost, gives_back) in steps {
            key.now += window * wait / 1_000;
            let shows = key.now.saturating_add_signed(wrong * i64::try_from(window).unwrap());
            let (start, end) = truth(key.now, window);
            let known = key.clone();
            let mut key_there = Key { shown: Some(shows), ..known };
            key_there.heal();
            if key_there.ask(cost).passes() {
                key_there.spend(cost);
                kept.push((key.now, u64::from(cost)));
                if gives_back {
                    let receipt = key_there.spent[key_there.spent.len() - 1];
                    key_there.give_back(receipt, cost);
                    kept.pop();
                }
            } else if wrong == 0 && u64::from(cost) <= amount {
                // Who knows the window says when it ends.
                let left = Micros::new(end - key.now);
                prop_assert_eq!(key_there.ask(cost), Verdict::Reject(Retry::After(left)));
            }
            key = Key { shown: None, ..key_there };
            let in_window = kept.iter().filter(|(at, _)| *at >= start).map(|(_, cost)| cost);
            prop_assert!(in_window.sum::<u64>() <= amount);
        }
    }

    #[test]
    fn a_receipt_of_a_window_that_is_over_gives_nothing_back(
        amount in 2_u64..20, window in 8_u64..5_000, later in 1_000_u64..3_000,
    ) {
        let mut key = Key::new(calendar(amount, window));
        key.spend(1);
        let receipt = key.spent[0];
        key.now += window * 9 / 8 + window * later / 1_000;
        key.heal();
        key.spend(1);
        key.give_back(receipt, 1);
        prop_assert_eq!(key.quota().remaining, amount - 1);
        prop_assert_eq!(boundaries(key.meter, key.now)[1].as_micros(), truth(key.now, window).0);
    }
}
