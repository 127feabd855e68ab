use super::*;
use crate::limit::algorithm::FixedWindow;
use crate::limit::{ChargeId, Cost, Key, Meter, When};

const NOW: Timestamp = Timestamp::from_micros(1_796_069_731_123_456);

fn charge(amount: u64, cost: u32, stake: Stake) -> Charge {
    Charge {
        key: Key::new("k"),
        meter: Meter::FixedWindow(FixedWindow::new(amount, Micros::SECOND).unwrap()),
        cost: Cost::new(cost),
        id: ChargeId::new(1),
        stake,
        limit: 0,
        spent: When::Admitted,
    }
}

fn of(limit: u32, charge: Charge) -> Charge {
    Charge { limit, ..charge }
}

fn decide_fresh(charges: &[Charge]) -> (Ruling, Vec<State>) {
    let mut states: Vec<State> = charges
        .iter()
        .map(|charge| (charge.meter.kind().fresh)())
        .collect();
    let mut borrowed: Vec<&mut State> = states.iter_mut().collect();
    let ruling = decide(&mut borrowed, charges, NOW);
    (ruling, states)
}

#[test]
fn one_rejection_spends_nothing() {
    let (ruling, states) =
        decide_fresh(&[charge(5, 2, Stake::Binding), charge(1, 2, Stake::Binding)]);
    assert_eq!(ruling.retry(), Some(Retry::Never));
    assert!(!ruling.spent() && states.iter().all(State::is_fresh));
    assert_eq!(
        ruling
            .decisions
            .iter()
            .map(|decision| decision.quota.remaining)
            .collect::<Vec<_>>(),
        [5, 1]
    );
}

#[test]
fn a_watching_rejection_only_reports() {
    let charges = [
        charge(5, 2, Stake::Binding),
        of(1, charge(1, 2, Stake::Watching)),
        of(2, charge(4, 2, Stake::Watching)),
    ];
    let (ruling, states) = decide_fresh(&charges);
    assert_eq!((ruling.retry(), ruling.spent()), (None, true));
    assert_eq!(
        states.iter().map(State::is_fresh).collect::<Vec<_>>(),
        [false, true, false]
    );
    assert_eq!(ruling.receipts(&charges).count(), 2);
}

#[test]
fn a_watching_limit_spends_all_of_its_charges_or_none() {
    let charges = [charge(5, 2, Stake::Watching), charge(1, 2, Stake::Watching)];
    let (ruling, states) = decide_fresh(&charges);
    assert_eq!((ruling.retry(), ruling.spent()), (None, false));
    assert!(states.iter().all(State::is_fresh));
}

#[test]
fn a_watching_charge_spends_nothing_when_the_request_is_rejected() {
    let (ruling, states) =
        decide_fresh(&[charge(1, 2, Stake::Binding), charge(5, 2, Stake::Watching)]);
    assert!(!ruling.spent() && states.iter().all(State::is_fresh));
}

#[test]
fn the_greatest_retry_and_the_longest_delay_hold() {
    let decision = |stake, verdict| Decision {
        stake,
        verdict,
        quota: Quota::default(),
        mark: None,
    };
    let after = |micros| Verdict::Reject(Retry::After(Micros::new(micros)));
    let retry = |decisions: &[Decision]| {
        Ruling {
            at: NOW,
            decisions: decisions.into(),
        }
        .retry()
    };
    let (one, two) = (
        decision(Stake::Binding, after(1)),
        decision(Stake::Binding, after(2)),
    );
    let watching = decision(Stake::Watching, Verdict::Reject(Retry::Never));
    let unknown = decision(Stake::Binding, Verdict::Reject(Retry::Unknown));
    let never = decision(Stake::Binding, Verdict::Reject(Retry::Never));
    assert_eq!(
        retry(&[one, two, watching]),
        Some(Retry::After(Micros::new(2)))
    );
    assert_eq!(retry(&[two, unknown, one]), Some(Retry::Unknown));
    assert_eq!(retry(&[never, unknown]), Some(Retry::Never));
    assert_eq!(retry(&[watching]), None);
    let delay = |stake, micros| {
        decision(
            stake,
            Verdict::Delay {
                by: Micros::new(micros),
            },
        )
    };
    let decisions = [
        delay(Stake::Binding, 5),
        delay(Stake::Binding, 7),
        delay(Stake::Watching, 9),
    ];
    assert_eq!(
        Ruling {
            at: NOW,
            decisions: decisions.as_slice().into()
        }
        .delay(),
        Micros::new(7)
    );
}

#[test]
fn a_peek_is_allowed_and_leaves_no_receipt() {
    let charges = [charge(1, 0, Stake::Binding)];
    let (ruling, states) = decide_fresh(&charges);
    assert_eq!(
        (ruling.retry(), ruling.receipts(&charges).count()),
        (None, 0)
    );
    assert!(states[0].is_fresh());
}

#[test]
fn spending_without_asking_shows_nothing_left_and_can_be_given_back() {
    let charge = charge(3, 5, Stake::Binding);
    let mut state = (charge.meter.kind().fresh)();
    let decision = spend(&mut state, &charge, NOW);
    assert_eq!(decision.quota.remaining, 0);
    let receipt = charge.receipt(decision.mark.unwrap());
    assert_eq!(
        give_back(&mut state, &receipt, NOW),
        Quota {
            remaining: 3,
            reset_after: Micros::ZERO
        }
    );
    assert!(state.is_fresh());
}
