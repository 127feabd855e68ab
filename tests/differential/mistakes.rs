//! Mistakes that limiters in Redis are known for; each has a test that fails where it is made.

use sluice::limit::algorithm::{
    Bucket, BucketSpec, CalendarWindow, Concurrency, FixedWindow, Refill, SlidingLog, SlidingWindow,
};
use sluice::limit::{
    Charge, ChargeId, Cost, Key, Meter, Retry, Ruling, Stake, State, Verdict, When,
};
use sluice::store::redis::script::{Call, ForeignValue};
use sluice::time::{EXACT, Micros, Timestamp};

use crate::server::{Answer, Server, numbers};
use crate::walk::{COUNTERS, Dice, meter};

const NOW: Timestamp = Timestamp::from_micros(1_796_069_731_123_456);

fn fixed(amount: u64, window: u64) -> Meter {
    Meter::FixedWindow(FixedWindow::new(amount, Micros::new(window)).unwrap())
}

fn log(amount: u64, window: u64) -> Meter {
    Meter::SlidingLog(SlidingLog::new(amount, Micros::new(window)).unwrap())
}

fn sliding(amount: u64, window: u64) -> Meter {
    Meter::SlidingWindow(SlidingWindow::new(amount, Micros::new(window)).unwrap())
}

fn bucket(amount: u64, window: u64, burst: u64) -> Meter {
    let (window, max_wait, refill) = (Micros::new(window), Micros::ZERO, Refill::Continuous);
    Meter::Bucket(
        Bucket::new(BucketSpec {
            amount,
            window,
            burst,
            queue: 0,
            max_wait,
            refill,
        })
        .unwrap(),
    )
}

/// Windows of a calendar, of which one begins at `start`.
fn calendar(amount: u64, window: u64, start: Timestamp) -> Meter {
    let meter = CalendarWindow::new(amount, Micros::new(window)).unwrap();
    let first = start.as_micros() - window;
    let boundaries = [0, 1, 2, 3].map(|more| Timestamp::from_micros(first + more * window));
    Meter::CalendarWindow(meter.around(boundaries))
}

/// One of each kind, with the same amount and window.
fn each(amount: u64, window: u64) -> [Meter; 6] {
    let [a, b, c, d, e] = windowed(amount, window);
    let leases = Concurrency::new(amount, Micros::new(window)).unwrap();
    [a, b, c, d, e, Meter::Concurrency(leases)]
}

/// One of each kind that says when to come back.
fn windowed(amount: u64, window: u64) -> [Meter; 5] {
    [
        fixed(amount, window),
        log(amount, window),
        sliding(amount, window),
        bucket(amount, window, amount),
        calendar(amount, window, NOW),
    ]
}

fn charge(key: &str, meter: Meter, cost: u32, id: u64) -> Charge {
    Charge {
        key: Key::new(key),
        meter,
        cost: Cost::new(cost),
        id: ChargeId::new(id),
        stake: Stake::Binding,
        limit: 0,
        spent: When::Admitted,
    }
}

/// Asks about one charge.
fn ask(server: &mut Server, charge: &Charge, now: Option<Timestamp>) -> Ruling {
    let mut call = Call::new();
    call.judge(std::slice::from_ref(charge));
    server.call(&call, now).1.remove(0).unwrap()
}

#[test]
fn two_charges_in_one_microsecond_count_twice() {
    let mut server = Server::start();
    for (kind, meter) in each(2, 60_000_000).into_iter().enumerate() {
        let key = format!("same-instant:{kind}");
        let mut call = Call::new();
        for id in 1..=3 {
            call.judge(&[charge(&key, meter, 1, id)]);
        }
        let retries: Vec<bool> = server
            .call(&call, Some(NOW))
            .1
            .iter()
            .map(|ruling| ruling.as_ref().unwrap().retry().is_some())
            .collect();
        assert_eq!(retries, [false, false, true]);
        let again = ask(&mut server, &charge(&key, meter, 1, 4), Some(NOW));
        assert!(again.retry().is_some());
    }
}

#[test]
fn a_rejected_request_adds_nothing_and_extends_nothing() {
    let mut server = Server::start();
    for (kind, meter) in windowed(2, 1_000_000).into_iter().enumerate() {
        let key = format!("polling:{kind}");
        ask(&mut server, &charge(&key, meter, 2, 1), Some(NOW));
        let before = server.state(&Key::new(key.as_str()), &(meter.kind().fresh)());
        let mut now = NOW;
        let mut waits = 0;
        // A client that polls all the time gets in as soon as one that waits.
        while let Some(Retry::After(wait)) =
            ask(&mut server, &charge(&key, meter, 2, 2), Some(now)).retry()
        {
            assert_eq!(
                server.state(&Key::new(key.as_str()), &(meter.kind().fresh)()),
                before
            );
            now = now.after(Micros::new(wait.get().min(50_000)));
            waits += 1;
            assert!(waits < 1_000, "{meter:?} never lets it in");
        }
        assert!(
            waits >= 20 && now.since(NOW).get() <= 1_100_000,
            "{waits} {now:?}"
        );
    }
}

#[test]
fn a_window_ends_under_steady_traffic() {
    let mut server = Server::start();
    let mut passed = 0;
    for tenth in 0..30 {
        let now = NOW.after(Micros::new(tenth * 100_000));
        let ruling = ask(
            &mut server,
            &charge("steady", fixed(3, 1_000_000), 1, tenth),
            Some(now),
        );
        passed += u64::from(ruling.spent());
    }
    assert_eq!(passed, 9);
}

#[test]
fn every_key_expires_and_none_before_it_stops_counting() {
    let mut server = Server::start();
    let mut dice = Dice(7);
    for step in 0..2_000 {
        let counter = dice.below(COUNTERS);
        let meter = meter(counter, &mut dice);
        let charge = charge(
            &format!("expiry:{counter}"),
            meter,
            u32::try_from(dice.below(4)).unwrap(),
            step,
        );
        let mut call = Call::new();
        call.judge(std::slice::from_ref(&charge));
        let ruling = server.call(&call, None).1.remove(0).unwrap();
        if ruling.spent() {
            if dice.one_in(4) {
                let mut call = Call::new();
                ruling
                    .receipts(std::slice::from_ref(&charge))
                    .for_each(|receipt| call.give_back(&receipt));
                server.call(&call, None);
            } else {
                let ttl = server.run(&["PTTL", charge.key.as_str()]).number();
                let counts =
                    i64::try_from(ruling.decisions[0].quota.reset_after.get().div_ceil(1_000))
                        .unwrap();
                assert!(
                    ttl > counts,
                    "{charge:?} expires in {ttl} ms and counts for {counts} ms"
                );
                assert!(ttl <= counts + 1_000);
            }
        }
    }
    for key in server.run(&["KEYS", "*"]).list() {
        let key = key.text();
        assert!(
            server.run(&["PTTL", &key]).number() > 0,
            "{key} never expires"
        );
    }
}

#[test]
fn a_backlog_above_the_window_outlives_the_window() {
    let mut server = Server::start();
    let meter = bucket(1, 1_000_000, 50);
    ask(&mut server, &charge("backlog", meter, 50, 1), None);
    assert!(server.run(&["PTTL", "backlog"]).number() > 49_000);
}

#[test]
fn the_clock_is_that_of_the_store() {
    let mut server = Server::start();
    let micros = |answer: Answer| {
        let parts: Vec<u64> = answer
            .list()
            .into_iter()
            .map(|part| part.text().parse().unwrap())
            .collect();
        parts[0] * 1_000_000 + parts[1]
    };
    let before = micros(server.run(&["TIME"]));
    let ruling = ask(
        &mut server,
        &charge("clock", fixed(1, 1_000_000), 1, 1),
        None,
    );
    let after = micros(server.run(&["TIME"]));
    assert!((before..=after).contains(&ruling.at.as_micros()));
    assert_eq!(ruling.decisions[0].mark, Some(ruling.at.as_micros()));
}

#[test]
fn a_clock_far_behind_neither_locks_out_nor_frees() {
    let mut server = Server::start();
    let past = Timestamp::from_micros(NOW.as_micros() - 3_600_000_000);
    for (kind, meter) in windowed(2, 1_000_000).into_iter().enumerate() {
        let key = format!("behind:{kind}");
        ask(&mut server, &charge(&key, meter, 2, 1), Some(NOW));
        // Who asks sends the boundaries around the clock of then.
        let meter = match meter {
            Meter::CalendarWindow(_) => calendar(2, 1_000_000, past),
            other => other,
        };
        let Some(Retry::After(wait)) =
            ask(&mut server, &charge(&key, meter, 1, 2), Some(past)).retry()
        else {
            panic!("{meter:?} forgot what was used")
        };
        assert!(wait.get() <= 1_100_000, "{meter:?} waits {wait:?}");
        assert!(
            ask(
                &mut server,
                &charge(&key, meter, 1, 3),
                Some(past.after(wait))
            )
            .spent(),
            "{meter:?}"
        );
    }
}

#[test]
fn sixteen_digits_survive() {
    let mut server = Server::start();
    let id = EXACT - 1;
    let ruling = ask(
        &mut server,
        &charge("digits", log(5, 60_000_000), 1, id),
        Some(NOW),
    );
    assert_eq!(ruling.decisions[0].mark, Some(NOW.as_micros()));
    let State::Log(entries) = server.state(&Key::new("digits"), &State::Log(Vec::new())) else {
        unreachable!()
    };
    assert_eq!((entries[0].id.get(), entries[0].at), (id, NOW));
    ask(
        &mut server,
        &charge("digits:fixed", fixed(5, 60_000_000), 1, id),
        Some(NOW),
    );
    assert_eq!(
        numbers(&server.run(&["GET", "digits:fixed"]).bytes()),
        [NOW.as_micros(), 1]
    );
}

#[test]
fn expiry_is_whole_milliseconds() {
    let mut server = Server::start();
    for window in [1, 999, 1_001, 33_333, 10_000_001] {
        for meter in [fixed(3, window), log(3, window), bucket(3, window, 3)] {
            let key = format!("whole:{window}:{}", meter.kind().code);
            assert!(ask(&mut server, &charge(&key, meter, 1, 1), None).spent());
            assert!(server.run(&["PTTL", &key]).number() > 0);
        }
    }
}

#[test]
fn amounts_that_a_double_cannot_count_are_refused() {
    assert!(FixedWindow::new(EXACT, Micros::SECOND).is_err());
    assert!(SlidingWindow::new(EXACT, Micros::SECOND).is_err());
    assert!(SlidingLog::new(10_001, Micros::SECOND).is_err());
    let spec = BucketSpec {
        amount: 1_000_000_000,
        window: Micros::new(86_400_000_000),
        burst: 1_000_000_000,
        queue: 0,
        max_wait: Micros::ZERO,
        refill: Refill::Continuous,
    };
    assert!(Bucket::new(spec).is_err());
}

#[test]
fn remaining_counts_down_without_gaps() {
    let mut server = Server::start();
    for amount in [1, 3, 7, 30, 299] {
        for window in [1_000_000, 60_000_000, 3_600_000_000, 86_400_000_000] {
            for meter in each(amount, window) {
                let key = format!("gaps:{amount}:{window}:{}", meter.kind().code);
                let mut call = Call::new();
                for id in 0..=amount {
                    call.judge(&[charge(&key, meter, 1, id)]);
                }
                let rulings = server.call(&call, Some(NOW)).1;
                let left: Vec<u64> = rulings
                    .iter()
                    .map(|ruling| ruling.as_ref().unwrap().decisions[0].quota.remaining)
                    .collect();
                let expected: Vec<u64> = (0..amount).rev().chain([0]).collect();
                assert_eq!(left, expected, "{meter:?}");
                assert!(rulings.last().unwrap().as_ref().unwrap().retry().is_some());
            }
        }
    }
}

#[test]
fn a_cost_above_the_amount_is_never_stored() {
    let mut server = Server::start();
    for (kind, meter) in each(2, 1_000_000).into_iter().enumerate() {
        let key = format!("never:{kind}");
        for cost in [3, u32::MAX] {
            assert_eq!(
                ask(&mut server, &charge(&key, meter, cost, 1), Some(NOW)).retry(),
                Some(Retry::Never)
            );
        }
        assert_eq!(server.run(&["EXISTS", &key]), Answer::Number(0));
    }
}

#[test]
fn a_changed_amount_keeps_what_was_used() {
    let mut server = Server::start();
    for (kind, (less, more)) in each(4, 60_000_000)
        .into_iter()
        .zip(each(9, 60_000_000))
        .enumerate()
    {
        let key = format!("changed:{kind}");
        ask(&mut server, &charge(&key, less, 3, 1), Some(NOW));
        assert_eq!(
            ask(&mut server, &charge(&key, more, 2, 2), Some(NOW)).decisions[0]
                .quota
                .remaining,
            4
        );
        assert!(
            ask(&mut server, &charge(&key, less, 1, 3), Some(NOW))
                .retry()
                .is_some()
        );
    }
}

#[test]
fn a_foreign_value_fails_its_request_alone_and_is_kept() {
    let mut server = Server::start();
    server.run(&["SET", "foreign:text", "hello"]);
    server.run(&["RPUSH", "foreign:list", "a"]);
    server.run(&["ZADD", "foreign:zset", "5", "a"]);
    for key in ["foreign:text", "foreign:list", "foreign:zset"] {
        for (kind, meter) in each(5, 1_000_000).into_iter().enumerate() {
            let fine = format!("fine:{key}:{kind}");
            let receipt = charge(key, meter, 1, 1).receipt(NOW.as_micros());
            let mut call = Call::new();
            call.give_back(&receipt);
            call.judge(&[charge(&fine, meter, 1, 1), charge(key, meter, 1, 2)]);
            call.spend(&charge(key, meter, 1, 3));
            call.judge(&[charge(&fine, meter, 1, 4)]);
            let rulings = server.call(&call, Some(NOW)).1;
            assert_eq!(rulings[0], Err(ForeignValue));
            assert_eq!(
                rulings[1].as_ref().unwrap().decisions[0].quota.remaining,
                4,
                "nothing of the other was spent"
            );
        }
    }
    assert_eq!(server.run(&["GET", "foreign:text"]).text(), "hello");
    assert_eq!(server.run(&["LLEN", "foreign:list"]), Answer::Number(1));
    assert_eq!(server.run(&["ZCARD", "foreign:zset"]), Answer::Number(1));
}

#[test]
fn the_total_of_a_log_survives_its_trims() {
    let mut server = Server::start();
    let meter = log(3, 1_000_000);
    for step in 0..20 {
        let now = NOW.after(Micros::new(step * 250_000));
        ask(&mut server, &charge("trims", meter, 1, step), Some(now));
        let State::Log(entries) = server.state(&Key::new("trims"), &State::Log(Vec::new())) else {
            unreachable!()
        };
        assert!(entries.len() <= 3);
    }
}

#[test]
fn a_full_log_is_kept_and_given_back_exactly() {
    let mut server = Server::start();
    let meter = log(10_000, 1_000_000);
    let mut given = Vec::new();
    for batch in 0..200 {
        let charges: Vec<Charge> = (0..50)
            .map(|id| charge("full", meter, 1, batch * 50 + id))
            .collect();
        let mut call = Call::new();
        charges
            .iter()
            .for_each(|charge| call.judge(std::slice::from_ref(charge)));
        let now = NOW.after(Micros::new(batch * 4_000));
        for (ruling, charge) in server.call(&call, Some(now)).1.iter().zip(&charges) {
            given.extend(
                ruling
                    .as_ref()
                    .unwrap()
                    .receipts(std::slice::from_ref(charge)),
            );
        }
    }
    assert_eq!(given.len(), 10_000);
    let now = NOW.after(Micros::new(900_000));
    let verdict =
        ask(&mut server, &charge("full", meter, 51, 20_000), Some(now)).decisions[0].verdict;
    assert_eq!(verdict, Verdict::Reject(Retry::After(Micros::new(104_000))));
    let mut call = Call::new();
    given[..5_000]
        .iter()
        .for_each(|receipt| call.give_back(receipt));
    call.judge(&[charge("full", meter, 5_001, 20_001)]);
    call.judge(&[charge("full", meter, 5_000, 20_002)]);
    let rulings = server.call(&call, Some(now)).1;
    // The oldest that is left is of batch 100.
    assert_eq!(
        rulings[0].as_ref().unwrap().retry(),
        Some(Retry::After(Micros::new(500_000)))
    );
    assert!(rulings[1].as_ref().unwrap().spent());
}

#[test]
fn what_has_left_a_log_is_not_given_back_again() {
    let mut server = Server::start();
    let meter = log(5, 1_000_000);
    let first = charge("left", meter, 2, 1);
    ask(&mut server, &first, Some(NOW));
    ask(
        &mut server,
        &charge("left", meter, 1, 2),
        Some(NOW.after(Micros::new(500_000))),
    );
    let mut call = Call::new();
    call.give_back(&first.receipt(NOW.as_micros()));
    call.judge(&[charge("left", meter, 0, 3)]);
    let rulings = server.call(&call, Some(NOW.after(Micros::SECOND))).1;
    assert_eq!(rulings[0].as_ref().unwrap().decisions[0].quota.remaining, 4);
    server.state(&Key::new("left"), &State::Log(Vec::new()));
}

#[test]
fn an_unknown_operation_changes_nothing() {
    let mut server = Server::start();
    let mut call = Call::new();
    call.judge(&[charge("unknown", fixed(5, 1_000_000), 1, 1)]);
    let mut packed = call.packed().to_vec();
    packed.extend_from_slice(&99_u64.to_le_bytes());
    let text = sluice::store::redis::script::text().as_bytes();
    let answer = server.run_bytes(&[b"EVAL", text, b"1", b"unknown", &packed]);
    assert!(matches!(answer, Answer::Error(_)), "{answer:?}");
    assert_eq!(server.run(&["EXISTS", "unknown"]), Answer::Number(0));
}
