use super::*;
use crate::limit::algorithm::FixedWindow;
use crate::limit::{ChargeId, Cost, Key, Meter, When};
use crate::time::Micros;

fn charge(key: &str) -> Charge {
    Charge {
        key: Key::new(key),
        meter: Meter::FixedWindow(FixedWindow::new(10, Micros::SECOND).unwrap()),
        cost: Cost::new(2),
        id: ChargeId::new(1),
        stake: Stake::Binding,
        limit: 0,
        spent: When::Admitted,
    }
}

fn charges(keys: &[&str]) -> Vec<Charge> {
    keys.iter().map(|key| charge(key)).collect()
}

#[test]
fn groups_are_by_slot_and_the_narrowest_is_asked_first() {
    let charges = charges(&[
        "sluice:1:{all}:all:fw1s:",
        "sluice:1:{path=/a}:p:fw1s:",
        "sluice:1:{ip=1.2.3.4}:i:fw1s:",
        "sluice:1:{header=abc}:h:fw1s:",
        "sluice:1:{ip=1.2.3.4}:i:fw3600s:",
        "sluice:1:{other}:other:fw1s:",
    ]);
    let groups = groups(&charges);
    let places: Vec<Vec<usize>> = groups.iter().map(|group| group.places.to_vec()).collect();
    assert_eq!(places, [vec![2, 4], vec![3], vec![1], vec![0], vec![5]]);
    for group in &groups {
        assert_eq!(group.manner, Manner::Together);
        for charge in pick(group, &charges) {
            assert_eq!(Slot::of(charge.key.as_str()), group.slot);
        }
    }
}

#[test]
fn a_group_whose_slot_moves_is_asked_key_by_key() {
    let charges = charges(&[
        "sluice:1:{ip=1.2.3.4}:i:fw1s:",
        "sluice:1:{all}:all:fw1s:",
        "sluice:1:{ip=1.2.3.4}:i:fw3600s:",
    ]);
    let ip = groups(&charges).pop_front().unwrap();
    let parts = by_key(&ip, &charges);
    let places: Vec<_> = parts.iter().map(|part| part.places.to_vec()).collect();
    assert_eq!(places, [vec![0], vec![2]]);
    let as_asked = |part: &Group| part.slot == ip.slot && part.manner == Manner::Alone;
    assert!(parts.iter().all(as_asked));
}

#[test]
fn what_was_given_back_is_as_before_and_what_was_not_asked_is_not_shown() {
    let charge = charge("sluice:1:{a}:a:fw1s:");
    let spent = Decision {
        stake: Stake::Binding,
        verdict: Verdict::Allow,
        quota: Quota {
            remaining: 3,
            reset_after: Micros::SECOND,
        },
        mark: Some(7),
    };
    let back = given_back(spent, &charge);
    assert_eq!((back.quota.remaining, back.mark), (5, None));
    let unasked = unasked(&charge);
    assert_eq!((unasked.stake, unasked.mark), (Stake::Watching, None));
    assert_eq!(unasked.quota.remaining, 10);
}
