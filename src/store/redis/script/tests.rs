use super::*;
use crate::limit::algorithm::{FixedWindow, SlidingLog};
use crate::limit::{ChargeId, Cost};

fn charge(key: &str, stake: Stake) -> Charge {
    let meter = Meter::FixedWindow(FixedWindow::new(7, Micros::SECOND).unwrap());
    Charge {
        key: Key::new(key),
        meter,
        cost: Cost::new(3),
        id: ChargeId::new(42),
        stake,
        limit: 0,
        spent: When::Admitted,
    }
}

fn pack(numbers: &[u64]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect()
}

#[test]
fn the_text_names_every_algorithm_and_says_each_number_of_parameters() {
    for kind in KINDS {
        assert!(text().contains(&format!("M[{}] = function()", kind.code)));
        assert!(kind.lua.contains(&format!("params = {},", kind.params)));
    }
    assert!(KINDS.is_sorted_by(|one, next| one.code < next.code));
    assert!(
        text().starts_with("#!lua flags=allow-oom\n"),
        "allow-oom keeps limiting alive at maxmemory"
    );
}

#[test]
fn the_script_never_turns_a_number_into_text_by_concatenation() {
    for line in text()
        .lines()
        .filter(|line| !line.trim_start().starts_with("--"))
    {
        assert!(!line.contains("tostring"), "{line}");
        assert!(
            !line.contains("..") || line.contains("'<' .. rep('I8', count)"),
            "{line}"
        );
    }
}

#[test]
fn every_algorithm_sends_as_many_parameters_as_its_row_says() {
    let meter = Meter::SlidingLog(SlidingLog::new(7, Micros::SECOND).unwrap());
    for meter in [charge("a", Stake::Binding).meter, meter] {
        assert_eq!(meter.judge().params().len(), meter.kind().params);
    }
}

#[test]
fn equal_keys_travel_once() {
    let mut call = Call::new();
    assert!(call.is_empty());
    call.judge(&[charge("a", Stake::Binding), charge("b", Stake::Watching)]);
    call.give_back(&charge("b", Stake::Binding).receipt(9));
    call.spend(&charge("a", Stake::Binding));
    assert_eq!((call.requests(), call.key_count()), (1, 2));
    assert_eq!(call.keys(), [Key::new("a"), Key::new("b")]);
    let expected = pack(&[
        1, 2, 1, 1, 0, 3, 42, 7, 1_000_000, 2, 1, 1, 3, 42, 7, 1_000_000, // judge
        2, 2, 1, 7, 1_000_000, 3, 42, 9, 3, // give back
        3, 1, 1, 7, 1_000_000, 3, 42, // spend
    ]);
    assert_eq!(call.packed(), expected);
}

#[test]
fn a_call_has_room_for_so_many_requests_and_keys() {
    let mut call = Call::new();
    let many: Vec<Charge> = (0..MAX_KEYS)
        .map(|key| charge(&key.to_string(), Stake::Binding))
        .collect();
    assert!(call.has_room_for(&many));
    call.judge(&many);
    assert!(call.has_room_for(&many[..1]));
    assert!(!call.has_room_for(&[charge("new", Stake::Binding)]));
    for _ in 1..MAX_REQUESTS {
        call.judge(&many[..1]);
    }
    assert!(!call.has_room_for(&many[..1]));
}

#[test]
fn a_reply_is_read_in_order() {
    let mut call = Call::new();
    call.judge(&[charge("a", Stake::Binding), charge("b", Stake::Watching)]);
    call.judge(&[charge("c", Stake::Binding)]);
    let reply = pack(&[5, 1, 0, 0, 4, 9, 1, 5, 2, 8, 1, 9, 0, 0, 2]);
    let (at, rulings) = call.decode(&reply).unwrap();
    assert_eq!(at.as_micros(), 5);
    let first = rulings[0].as_ref().unwrap();
    assert_eq!(first.decisions[0].mark, Some(5));
    assert_eq!(
        first.decisions[1].verdict,
        Verdict::Reject(Retry::After(Micros::new(8)))
    );
    assert_eq!((first.retry(), first.decisions[1].mark), (None, None));
    assert_eq!(rulings[1], Err(ForeignValue));
}

#[test]
fn a_reply_that_does_not_fit_is_refused() {
    let mut call = Call::new();
    call.judge(&[charge("a", Stake::Binding)]);
    let good = [5, 1, 0, 0, 4, 9, 1, 5];
    assert!(call.decode(&pack(&good)).is_ok());
    for cut in 0..pack(&good).len() {
        assert_eq!(call.decode(&pack(&good)[..cut]), Err(MalformedReply));
    }
    for (place, wrong) in [(1, 3), (2, 5), (6, 2)] {
        let mut numbers = good;
        numbers[place] = wrong;
        assert_eq!(call.decode(&pack(&numbers)), Err(MalformedReply));
    }
    assert_eq!(
        call.decode(&pack(&[5, 1, 0, 0, 4, 9, 1, 5, 0])),
        Err(MalformedReply)
    );
}
