//! Leases, on a clock that the test sets, in both twins.

use sluice::limit::algorithm::{Concurrency, HEARTBEAT, LEASE};
use sluice::limit::{
    Charge, ChargeId, Cost, Key, Meter, Retry, Stake, State, Verdict, When, driver,
};
use sluice::store::redis::script::Call;
use sluice::time::{Micros, Timestamp};

use crate::server::{Answer, Server};

const START: Timestamp = Timestamp::from_micros(1_796_069_730_123_456);
const ALLOW: Verdict = Verdict::Allow;
const FULL: Verdict = Verdict::Reject(Retry::Unknown);

/// One key that holds two at once, in Rust and in Redis.
struct Twins {
    server: Server,
    state: State,
    now: Timestamp,
}

impl Twins {
    fn new() -> Self {
        Self {
            server: Server::start(),
            state: (meter().kind().fresh)(),
            now: START,
        }
    }

    fn later(&mut self, span: Micros) {
        self.now = self.now.after(span);
    }

    /// What both say to one more, and what is left then.
    fn ask(&mut self, id: u64) -> (Verdict, u64) {
        let charges = [charge(id)];
        let rust = driver::decide(&mut [&mut self.state], &charges, self.now);
        let decision = rust.decisions[0];
        let mut call = Call::new();
        call.judge(&charges);
        assert_eq!(self.server.call(&call, Some(self.now)).1, [Ok(rust)]);
        self.compare();
        (decision.verdict, decision.quota.remaining)
    }

    fn renew(&mut self, id: u64) {
        driver::spend(&mut self.state, &charge(id), self.now);
        let mut call = Call::new();
        call.spend(&charge(id));
        self.server.call(&call, Some(self.now));
        self.compare();
    }

    fn release(&mut self, id: u64) {
        let receipt = charge(id).receipt(0);
        driver::give_back(&mut self.state, &receipt, self.now);
        let mut call = Call::new();
        call.give_back(&receipt);
        self.server.call(&call, Some(self.now));
        self.compare();
    }

    fn compare(&mut self) {
        let mut state = self.state.clone();
        if let State::Log(leases) = &mut state {
            leases.sort_by_key(|lease| (lease.at, lease.id));
        }
        let fresh = State::Log(Vec::new());
        assert_eq!(self.server.state(&key(), &fresh), state);
    }
}

fn meter() -> Meter {
    Meter::Concurrency(Concurrency::new(2, LEASE).unwrap())
}

fn key() -> Key {
    Key::new("leases")
}

fn charge(id: u64) -> Charge {
    Charge {
        key: key(),
        meter: meter(),
        cost: Cost::ONE,
        id: ChargeId::new(id),
        stake: Stake::Binding,
        limit: 0,
        spent: When::Admitted,
    }
}

const JUST: Micros = Micros::new(1);

#[test]
fn a_slot_is_free_as_soon_as_it_is_given_back_and_a_second_time_frees_no_other() {
    let mut twins = Twins::new();
    assert_eq!(twins.ask(1), (ALLOW, 1));
    assert_eq!(twins.ask(2), (ALLOW, 0));
    assert_eq!(twins.ask(3), (FULL, 0));
    twins.release(1);
    assert_eq!(twins.ask(4), (ALLOW, 0));
    twins.release(1);
    assert_eq!(twins.ask(5), (FULL, 0));
}

#[test]
fn the_slots_of_a_gateway_that_died_are_free_after_the_lease_time() {
    let mut twins = Twins::new();
    twins.ask(1);
    twins.ask(2);
    twins.later(Micros::new(LEASE.get() - 1));
    assert_eq!(twins.ask(3), (FULL, 0));
    twins.later(JUST);
    assert_eq!(twins.ask(4), (ALLOW, 1));
}

#[test]
fn what_nobody_renews_expires_in_redis_too() {
    let mut server = Server::start();
    let mut call = Call::new();
    call.judge(&[charge(1)]);
    assert!(server.call(&call, None).1[0].as_ref().unwrap().spent());
    let ttl = server.run(&["PTTL", key().as_str()]).number();
    assert!((14_000..=16_000).contains(&ttl), "{ttl}");
}

#[test]
fn a_heartbeat_keeps_a_slot_for_as_long_as_an_answer_lasts() {
    let mut twins = Twins::new();
    twins.ask(1);
    twins.ask(2);
    for _ in 0..20 {
        twins.later(HEARTBEAT);
        twins.renew(1);
    }
    assert_eq!(twins.ask(3), (ALLOW, 0), "only the other has ended");
    assert_eq!(twins.ask(4), (FULL, 0));
    twins.release(1);
    assert_eq!(twins.ask(5), (ALLOW, 0));
}

#[test]
fn two_heartbeats_may_get_lost() {
    assert!(HEARTBEAT.get() * 3 <= LEASE.get());
}

#[test]
fn what_the_store_has_lost_is_entered_again() {
    let mut twins = Twins::new();
    twins.ask(1);
    twins.ask(2);
    twins.server.run(&["FLUSHALL"]);
    twins.state = State::Log(Vec::new());
    assert_eq!(twins.ask(3), (ALLOW, 1));
    twins.renew(1);
    twins.renew(2);
    // Three are held where two may be: nobody enters until two have ended.
    assert_eq!(twins.ask(4), (FULL, 0));
    twins.release(1);
    assert_eq!(twins.ask(4), (FULL, 0));
    twins.release(2);
    assert_eq!(twins.ask(4), (ALLOW, 0));
}

#[test]
fn a_clock_that_a_failover_sets_back_neither_frees_nor_locks() {
    for back in [1, LEASE.get(), LEASE.get() + 1, 3_600_000_000] {
        let mut twins = Twins::new();
        twins.ask(1);
        twins.ask(2);
        twins.now = Timestamp::from_micros(START.as_micros() - back);
        assert_eq!(twins.ask(3), (FULL, 0));
        twins.renew(1);
        twins.later(Micros::new(2 * LEASE.get()));
        assert_eq!(twins.ask(4), (ALLOW, 1), "{back} us back");
    }
}

#[test]
fn a_call_may_take_renew_and_release_one_key() {
    let mut twins = Twins::new();
    let charges: Vec<Charge> = (0..4).map(charge).collect();
    let mut call = Call::new();
    let mut expected = Vec::new();
    for charge in &charges {
        call.judge(std::slice::from_ref(charge));
        let states = &mut [&mut twins.state];
        expected.push(Ok(driver::decide(
            states,
            std::slice::from_ref(charge),
            START,
        )));
    }
    for id in [0, 0, 1] {
        call.spend(&charges[id]);
        driver::spend(&mut twins.state, &charges[id], START);
    }
    for id in [0, 0, 3] {
        let receipt = charges[id].receipt(0);
        call.give_back(&receipt);
        driver::give_back(&mut twins.state, &receipt, START);
    }
    assert_eq!(twins.server.call(&call, Some(START)).1, expected);
    let State::Log(entries) = &twins.state else {
        unreachable!()
    };
    assert_eq!(entries.len(), 1);
    twins.compare();
    twins.release(1);
    assert_eq!(twins.server.run(&["EXISTS", "leases"]), Answer::Number(0));
}
