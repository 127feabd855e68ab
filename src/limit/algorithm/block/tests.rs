use super::*;

const START: u64 = 1_796_069_731_000_000;

fn at(micros: u64) -> Timestamp {
    Timestamp::from_micros(START + micros)
}

fn block(length: u64, strikes: u64) -> Block {
    Block::new(Micros::new(length), strikes, Micros::new(600_000_000)).unwrap()
}

fn strike(block: Block, state: &mut State, now: Timestamp) {
    block.spend(state, now, Cost::ONE, ChargeId::new(1));
}

fn after(micros: u64) -> Verdict {
    Verdict::Reject(Retry::After(Micros::new(micros)))
}

#[test]
fn the_last_strike_begins_it_and_it_ends_to_the_microsecond() {
    let block = block(900_000_000, 3);
    let mut state = (KIND.fresh)();
    for second in 0..2 {
        strike(block, &mut state, at(second * 1_000_000));
        assert_eq!(
            block.judge(&state, at(second * 1_000_000), Cost::ONE),
            Verdict::Allow
        );
    }
    strike(block, &mut state, at(5_000_000));
    assert_eq!(
        block.judge(&state, at(5_000_000), Cost::ONE),
        after(900_000_000)
    );
    assert_eq!(block.judge(&state, at(904_999_999), Cost::ONE), after(1));
    assert_eq!(
        block.judge(&state, at(905_000_000), Cost::ONE),
        Verdict::Allow
    );
}

#[test]
fn nothing_lengthens_it_and_the_next_one_takes_as_many_strikes() {
    let block = block(60_000_000, 2);
    let mut state = (KIND.fresh)();
    for _ in 0..2 {
        strike(block, &mut state, at(0));
    }
    strike(block, &mut state, at(59_999_999));
    assert_eq!(
        block.judge(&state, at(60_000_000), Cost::ONE),
        Verdict::Allow
    );
    strike(block, &mut state, at(60_000_000));
    assert_eq!(
        block.judge(&state, at(60_000_000), Cost::ONE),
        after(60_000_000),
        "the strike during the block counts toward the next"
    );
}

#[test]
fn strikes_too_far_apart_never_begin_it() {
    let block = block(1_000_000, 2);
    let mut state = (KIND.fresh)();
    for time in 0..5 {
        strike(block, &mut state, at(time * 660_000_000));
        assert_eq!(block.quota(&state, at(time * 660_000_000)).remaining, 1);
    }
}

#[test]
fn other_parameters_keep_what_was_counted_and_a_shorter_length_holds_at_once() {
    let mut state = (KIND.fresh)();
    strike(block(900_000_000, 3), &mut state, at(0));
    strike(block(900_000_000, 2), &mut state, at(0));
    let short = block(60_000_000, 2);
    assert!(short.heal(&mut state, at(1_000_000)));
    assert!(!short.heal(&mut state, at(30_000_000)));
    assert_eq!(
        short.judge(&state, at(30_000_000), Cost::ONE),
        after(31_000_000)
    );
    assert_eq!(
        block(900_000_000, 9).quota(&state, at(30_000_000)),
        Quota {
            remaining: 0,
            reset_after: Micros::new(31_000_000)
        }
    );
}

#[test]
fn a_clock_that_steps_back_blocks_no_longer_than_the_length() {
    let block = block(60_000_000, 1);
    let mut state = (KIND.fresh)();
    strike(block, &mut state, at(3_600_000_000));
    assert!(block.heal(&mut state, at(0)));
    assert_eq!(block.judge(&state, at(0), Cost::ONE), after(60_000_000));
}

#[test]
fn any_state_gives_an_answer() {
    let block = block(60_000_000, 3);
    for numbers in [
        &[][..],
        &[0],
        &[u64::MAX],
        &[1, 2],
        &[u64::MAX; 13],
        &[0; 20],
    ] {
        let mut state = State::Numbers(numbers.into());
        block.heal(&mut state, at(0));
        assert!(!block.heal(&mut state, at(0)));
        block.judge(&state, at(0), Cost::ONE);
        strike(block, &mut state, at(0));
        block.quota(&state, at(0));
    }
}
