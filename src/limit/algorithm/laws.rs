//! The laws of [`Judge`], each as a property of every algorithm, and brute-force oracles that share no code with them.

mod calendars;
mod leases;
mod oracle;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{
    Booked, Bucket, BucketSpec, CalendarWindow, Concurrency, Entry, FixedWindow, Meter, Refill,
    SUM, SlidingLog, SlidingWindow, State,
};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Boundaries, EXACT, Micros, Timestamp};

const EPOCH: u64 = 1_796_069_731_123_456;

/// One thing that happens to a key.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// How much later (or earlier) than the step before, in thousandths of a window.
    wait: i64,
    /// Microseconds on top.
    jitter: u64,
    cost: u32,
    act: Act,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Act {
    /// Spend if it passes.
    Ask,
    /// Spend whatever the verdict.
    Force,
    /// Give back what was spent so many charges ago.
    GiveBack(usize),
    /// Give back half of what was spent so many charges ago.
    GiveBackHalf(usize),
}

/// A key under one meter, driven as the driver does.
#[derive(Clone, Debug)]
struct Key {
    meter: Meter,
    state: State,
    now: u64,
    /// What the clock of the one who asks shows, where it is wrong.
    shown: Option<u64>,
    spent: Vec<Booked>,
    next: u64,
}

impl Key {
    fn new(meter: Meter) -> Self {
        Self {
            meter,
            state: (meter.kind().fresh)(),
            now: EPOCH,
            shown: None,
            spent: Vec::new(),
            next: 1 << 40,
        }
    }

    fn at(&self, now: u64) -> Self {
        let mut key = Self {
            now,
            ..self.clone()
        };
        key.heal();
        key
    }

    /// The meter as it is asked now.
    fn meter(&self) -> Meter {
        let shown = self.shown.unwrap_or(self.now);
        self.meter.around(boundaries(self.meter, shown))
    }

    fn heal(&mut self) -> bool {
        self.meter()
            .judge()
            .heal(&mut self.state, Timestamp::from_micros(self.now))
    }

    fn ask(&self, cost: u32) -> Verdict {
        self.meter().judge().judge(
            &self.state,
            Timestamp::from_micros(self.now),
            Cost::new(cost),
        )
    }

    fn quota(&self) -> Quota {
        self.meter()
            .judge()
            .quota(&self.state, Timestamp::from_micros(self.now))
    }

    fn spend(&mut self, cost: u32) {
        let (id, cost) = (ChargeId::new(self.next), Cost::new(cost));
        self.next += 1;
        let mark =
            self.meter()
                .judge()
                .spend(&mut self.state, Timestamp::from_micros(self.now), cost, id);
        self.spent.push(Booked { mark, id, cost });
    }

    fn give_back(&mut self, booked: Booked, back: u32) {
        let now = Timestamp::from_micros(self.now);
        let meter = self.meter();
        let meter = meter.judge();
        meter.give_back(&mut self.state, now, booked, Cost::new(back));
    }

    fn give_back_nth(&mut self, back: usize, share: impl Fn(u32) -> u32) {
        if let Some(place) = self.spent.len().checked_sub(back + 1) {
            let booked = self.spent.remove(place);
            self.give_back(booked, share(units(booked)));
        }
    }

    /// Takes a step; true when it spent by asking.
    fn step(&mut self, step: Step) -> bool {
        let window = self.meter.window().get();
        let moved = i64::try_from(window).unwrap() / 1000 * step.wait;
        self.now = self
            .now
            .saturating_add_signed(moved)
            .saturating_add(step.jitter);
        self.heal();
        match step.act {
            Act::Ask if !self.ask(step.cost).passes() => return false,
            Act::Ask | Act::Force => self.spend(step.cost),
            Act::GiveBack(back) => self.give_back_nth(back, |cost| cost),
            Act::GiveBackHalf(back) => self.give_back_nth(back, |cost| cost / 2),
        }
        step.act == Act::Ask
    }

    fn after(meter: Meter, steps: &[Step]) -> Self {
        let mut key = Self::new(meter);
        for &step in steps {
            key.step(step);
        }
        key
    }

    /// Every number of the state.
    fn numbers(&self) -> Vec<u64> {
        let entries = self
            .state
            .entries()
            .iter()
            .flat_map(|entry| [entry.at.as_micros(), entry.id.get(), entry.cost]);
        self.state
            .numbers()
            .iter()
            .copied()
            .chain(entries)
            .collect()
    }
}

/// The boundary of this number of a calendar whose windows differ by up to an eighth in length.
fn boundary(number: u64, window: u64) -> u64 {
    number * window + number * 7 % 8 * (window / 64)
}

/// What a calendar says around `now`.
fn boundaries(meter: Meter, now: u64) -> Boundaries {
    let window = meter.window().get();
    let near = (now / window).saturating_sub(1)..=now / window;
    let number = near.rev().find(|number| boundary(*number, window) <= now);
    let first = number.unwrap_or(0).saturating_sub(1);
    [0, 1, 2, 3].map(|more| Timestamp::from_micros(boundary(first + more, window)))
}

fn units(booked: Booked) -> u32 {
    u32::try_from(booked.cost.get()).unwrap()
}

/// The costs that are tried on a key.
fn costs() -> impl Iterator<Item = u32> {
    (0..32).chain([100, 10_000, u32::MAX])
}

fn refill() -> impl Strategy<Value = Refill> {
    prop_oneof![Just(Refill::Continuous), Just(Refill::Interval)]
}

fn window() -> impl Strategy<Value = u64> {
    prop_oneof![
        1_u64..50,
        1_u64..5_000,
        Just(1_000_000),
        Just(60_000_000),
        Just(7_200_000_000)
    ]
}

fn bucket() -> impl Strategy<Value = Bucket> {
    let spec = (1_u64..20, window(), 1_u64..20, 0_u64..6, 0_u64..4, refill());
    spec.prop_map(|(amount, window, burst, queue, waits, refill)| {
        let (max_wait, window) = (Micros::new(window * waits / 3), Micros::new(window));
        Bucket::new(BucketSpec {
            amount,
            window,
            burst,
            queue,
            max_wait,
            refill,
        })
        .unwrap()
    })
}

fn meter() -> impl Strategy<Value = Meter> {
    prop_oneof![
        (1_u64..20, window())
            .prop_map(|(n, p)| Meter::FixedWindow(FixedWindow::new(n, Micros::new(p)).unwrap())),
        (1_u64..20, window())
            .prop_map(|(n, p)| Meter::SlidingLog(SlidingLog::new(n, Micros::new(p)).unwrap())),
        (1_u64..20, window()).prop_map(|(n, p)| Meter::SlidingWindow(
            SlidingWindow::new(n, Micros::new(p + 9_999)).unwrap()
        )),
        bucket().prop_map(Meter::Bucket),
        (1_u64..20, window()).prop_map(|(n, p)| calendar(n, p)),
        (1_u64..20, window())
            .prop_map(|(n, p)| Meter::Concurrency(Concurrency::new(n, Micros::new(p)).unwrap())),
    ]
}

fn calendar(amount: u64, window: u64) -> Meter {
    Meter::CalendarWindow(CalendarWindow::new(amount, Micros::new(window)).unwrap())
}

fn step(
    waits: impl Strategy<Value = i64>,
    acts: impl Strategy<Value = Act>,
) -> impl Strategy<Value = Step> {
    (waits, 0_u64..3, 0_u32..6, acts).prop_map(|(wait, jitter, cost, act)| Step {
        wait,
        jitter,
        cost,
        act,
    })
}

fn forwards() -> impl Strategy<Value = i64> {
    prop_oneof![3 => Just(0_i64), 5 => 0_i64..400, 1 => 400_i64..2_500]
}

fn anywhere() -> impl Strategy<Value = i64> {
    prop_oneof![6 => forwards(), 2 => -900_i64..0, 1 => -4_000_i64..-900]
}

fn any_act() -> impl Strategy<Value = Act> {
    prop_oneof![8 => Just(Act::Ask), 1 => Just(Act::Force), 2 => (0_usize..4).prop_map(Act::GiveBack),
        1 => (0_usize..4).prop_map(Act::GiveBackHalf)]
}

/// Any history of a key, the clock stepping back too.
fn history() -> impl Strategy<Value = Vec<Step>> {
    vec(step(anywhere(), any_act()), 0..40)
}

/// A history that only asks, on a clock that never steps back.
fn asking() -> impl Strategy<Value = Vec<Step>> {
    vec(step(forwards(), Just(Act::Ask)), 1..60)
}

fn any_state() -> impl Strategy<Value = State> {
    let entry = (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(at, id, cost)| Entry {
        at: Timestamp::from_micros(at),
        id: ChargeId::new(id),
        cost,
    });
    prop_oneof![
        vec(
            prop_oneof![any::<u64>(), EPOCH - 100..EPOCH + 100, 0_u64..100],
            0..15
        )
        .prop_map(|numbers| State::Numbers(numbers.into())),
        vec(entry, 0..8).prop_map(|mut entries| {
            entries.sort_by_key(|entry| entry.at);
            State::Log(entries)
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn law_1_any_state_time_and_cost_give_an_answer(
        meter in meter(), state in any_state(), now in prop_oneof![0..=EXACT, Just(0), Just(EXACT)], cost: u32, mark: u64,
    ) {
        let mut key = Key { state, now, ..Key::new(meter) };
        key.heal();
        prop_assert!(!key.heal(), "healing once is enough");
        prop_assert_eq!(key.ask(0), Verdict::Allow);
        key.ask(cost);
        key.quota();
        let booked = Booked { mark, id: ChargeId::new(7), cost: Cost::new(cost) };
        key.give_back(booked, cost);
        key.give_back(booked, cost / 3);
        key.spend(cost);
        key.quota();
        key.ask(cost);
    }

    #[test]
    fn law_1_a_moment_up_to_a_window_ahead_counts_as_now_and_beyond_is_pulled_back(
        meter in meter(), cost in 1_u32..20, back in 0_u64..3_000,
    ) {
        let window = meter.window().get();
        let mut key = Key::new(meter);
        key.spend(cost);
        let (before, left) = (key.now, key.quota().remaining);
        // Sub-windows and ticks decide at their own edges; one of them may lie between.
        let edge = match meter { Meter::SlidingWindow(_) => window / 10, Meter::Bucket(_) => 1_000, _ => 1 };
        // Of a calendar, what was spent in the next window stays there.
        let (kept, pulled) = match meter {
            Meter::CalendarWindow(_) => (window * 7 / 8, window * 9 / 4),
            _ => (window, window + edge),
        };
        key.now = before - window * back / 1_000;
        let healed = key.heal();
        prop_assert!(healed || before - key.now <= pulled);
        prop_assert!(!healed || before - key.now > kept);
        prop_assert_eq!(key.quota().remaining, left, "the count is kept");
        if healed {
            let mut here = Key::new(meter);
            here.now = key.now;
            here.spend(cost);
            prop_assert_eq!(key.quota(), here.quota(), "as if it had been spent now");
        }
    }

    #[test]
    fn law_2_a_rejection_spends_nothing(meter in meter(), steps in history()) {
        let key = Key::after(meter, &steps);
        for cost in costs() {
            let before = key.clone();
            let (first, second) = (key.ask(cost), key.ask(cost));
            prop_assert_eq!(first, second);
            prop_assert_eq!(&before.state, &key.state);
        }
    }

    #[test]
    fn law_3_after_is_exact(meter in meter(), steps in history()) {
        let key = Key::after(meter, &steps);
        for cost in costs() {
            if let Verdict::Reject(Retry::After(wait)) = key.ask(cost) {
                prop_assert!(wait > Micros::ZERO);
                let early = key.at(key.now + wait.get() - 1).ask(cost);
                prop_assert!(!early.passes(), "{early:?} one tick before {wait:?}");
                let then = key.at(key.now + wait.get()).ask(cost);
                prop_assert!(then.passes(), "{then:?} after {wait:?}");
            }
        }
    }

    #[test]
    fn law_4_forgetting_changes_no_later_answer(meter in meter(), steps in history(), later in vec(0_u64..3_000_000, 4)) {
        let key = Key::after(meter, &steps);
        let until = key.now + key.quota().reset_after.get();
        for now in [0].into_iter().chain(later).map(|later| until + later) {
            let (kept, forgotten) = (key.at(now), Key { now, ..Key::new(meter) });
            prop_assert_eq!(kept.quota(), forgotten.quota());
            for cost in costs() {
                prop_assert_eq!(kept.ask(cost), forgotten.ask(cost));
            }
            let (mut kept, mut forgotten) = (kept, forgotten);
            forgotten.next = kept.next;
            kept.spend(1);
            forgotten.spend(1);
            prop_assert_eq!(&kept.state, &forgotten.state);
        }
    }

    #[test]
    fn law_5_what_is_admitted_stays_within_the_bound(meter in meter(), steps in asking()) {
        let mut key = Key::new(meter);
        let mut admitted = Vec::new();
        for step in steps {
            if key.step(step) {
                admitted.push((key.now, u64::from(step.cost)));
            }
        }
        oracle::within_bound(meter, &admitted)?;
    }

    #[test]
    fn law_5_every_decision_is_that_of_the_oracle(meter in meter(), steps in asking()) {
        let mut key = Key::new(meter);
        let mut admitted = Vec::new();
        for step in steps {
            let spent = key.step(step);
            let used = oracle::room(meter, &admitted, key.now);
            if step.cost > 0 {
                prop_assert_eq!(spent, oracle::fits(used, step.cost), "{:?} {:?}", step, admitted);
            }
            if spent && step.cost > 0 {
                admitted.push((key.now, u64::from(step.cost)));
            }
            let used = oracle::room(meter, &admitted, key.now);
            prop_assert_eq!(key.quota().remaining, oracle::remaining(used));
        }
    }

    #[test]
    fn law_6_every_number_stays_exact(meter in large(), steps in history(), costs in vec(any::<u32>(), 40)) {
        let mut key = Key::new(meter);
        for (step, cost) in steps.into_iter().zip(costs) {
            key.step(Step { cost, ..step });
            if key.now > 1 << 51 {
                break;
            }
            let (quota, params) = (key.quota(), key.meter().judge().params());
            prop_assert!(key.numbers().iter().chain(&params).all(|&number| number <= SUM));
            prop_assert!(quota.remaining <= SUM && quota.reset_after.get() < EXACT);
        }
    }

    #[test]
    fn law_7_giving_back_admits_no_more_than_never_having_charged(
        meter in meter(), before in asking(), cost in 1_u32..6, kept in 0_u32..6, between in asking(), after in asking(),
    ) {
        let mut with = Key::after(meter, &before);
        let kept = kept.min(cost) * (cost % 2);
        if !with.ask(cost).passes() {
            return Ok(());
        }
        // In the other world only what stays was ever charged.
        let mut without = with.clone();
        without.spend(kept);
        with.spend(cost);
        let receipt = with.spent[with.spent.len() - 1];
        let opened = with.now;
        let both = |with: &mut Key, without: &mut Key, step: Step| {
            let spent = with.step(step);
            without.now = with.now;
            without.heal();
            if spent {
                without.spend(step.cost);
            }
        };
        for step in between {
            both(&mut with, &mut without, step);
        }
        with.give_back(receipt, cost - kept);
        for step in after {
            // A window or an interval stays as its first charge opened it.
            let anchored = matches!(meter, Meter::FixedWindow(_)) || meter.judge().params().get(2).is_some_and(|&s| s > 1);
            if anchored && with.now >= opened + meter.window().get() / 2 {
                break;
            }
            prop_assert!(with.quota().remaining <= without.quota().remaining);
            for cost in costs() {
                prop_assert!(!with.ask(cost).passes() || without.ask(cost).passes());
            }
            both(&mut with, &mut without, step);
        }
    }

    #[test]
    fn law_7_what_is_given_back_at_once_leaves_no_trace(
        meter in meter(), steps in asking(), cost in 1_u32..6, kept in 0_u32..6,
    ) {
        let mut key = Key::after(meter, &steps);
        let (kept, passes) = (kept.min(cost), key.ask(cost).passes());
        let mut rest = key.clone();
        rest.spend(kept);
        key.spend(cost);
        let receipt = key.spent[key.spent.len() - 1];
        key.give_back(receipt, cost - kept);
        prop_assert!(key.quota().remaining <= rest.quota().remaining);
        prop_assert!(key.quota() == rest.quota() || !passes);
    }

    #[test]
    fn law_8_a_state_means_the_same_under_every_amount(meter in meter(), steps in asking(), more in 1_u64..10) {
        let key = Key::after(meter, &steps);
        let raised = Key { meter: raised(meter, more), ..key.clone() };
        prop_assert_eq!(raised.quota().remaining, key.quota().remaining + more, "what was used stays used");
        prop_assert_eq!(raised.quota().reset_after, key.quota().reset_after);
        let lowered = Key { meter, ..Key::after(raised.meter, &steps) };
        for cost in costs() {
            if let Verdict::Reject(Retry::After(wait)) = lowered.ask(cost) {
                prop_assert!(!lowered.at(lowered.now + wait.get() - 1).ask(cost).passes());
                prop_assert!(lowered.at(lowered.now + wait.get()).ask(cost).passes());
            }
        }
    }

    #[test]
    fn law_9_time_and_smaller_costs_only_help(meter in meter(), steps in history(), later in 0_u64..2_000_000) {
        let key = Key::after(meter, &steps);
        let after = key.at(key.now + later);
        let mut rejected = false;
        for cost in costs() {
            prop_assert!(!key.ask(cost).passes() || after.ask(cost).passes());
            prop_assert!(!(rejected && key.ask(cost).passes()));
            rejected = !key.ask(cost).passes();
        }
    }

    #[test]
    fn a_share_is_never_above_the_whole_and_never_nothing(meter in meter(), by in 1_u32..40) {
        let share = meter.divided(by.try_into().unwrap());
        prop_assert!(share.amount() >= 1 && share.amount() <= meter.amount());
        prop_assert_eq!(share.amount(), meter.amount().div_ceil(u64::from(by)));
        prop_assert_eq!(share.window(), meter.window());
        prop_assert!(Key::new(share).ask(1).passes());
    }
}

/// Amounts near what just fits.
fn large() -> impl Strategy<Value = Meter> {
    let window = || prop_oneof![1_000_000_u64..=1 << 50, Just(1 << 50), Just(3_600_000_000)];
    let amount = || prop_oneof![1..=SUM, Just(SUM), SUM - 10..=SUM];
    prop_oneof![
        (amount(), window())
            .prop_map(|(n, p)| Meter::FixedWindow(FixedWindow::new(n, Micros::new(p)).unwrap())),
        (amount(), 1_000_000_u64..=1 << 45).prop_map(|(n, p)| calendar(n, p)),
        (window())
            .prop_map(|p| Meter::SlidingLog(SlidingLog::new(10_000, Micros::new(p)).unwrap())),
        (window())
            .prop_map(|p| Meter::Concurrency(Concurrency::new(10_000, Micros::new(p)).unwrap())),
        (amount(), window()).prop_map(|(n, p)| Meter::SlidingWindow(
            SlidingWindow::new(n, Micros::new(p)).unwrap()
        )),
        (
            amount(),
            0..u64::from(u32::MAX),
            window(),
            amount(),
            refill()
        )
            .prop_filter_map("fits", |(n, q, p, b, refill)| {
                let (max_wait, window) = (Micros::new(1 << 50), Micros::new(p));
                let most = SUM / p.div_ceil(if p > 3_600_000_000 { 1_000 } else { 1 });
                let amount = n.min(most);
                let spec = BucketSpec {
                    amount,
                    window,
                    burst: b % most + 1,
                    queue: q % 7,
                    max_wait,
                    refill,
                };
                Bucket::new(spec).ok().map(Meter::Bucket)
            }),
    ]
}

/// The same with room for `more` at once; what drains in a window stays.
fn raised(meter: Meter, more: u64) -> Meter {
    let (amount, window) = (meter.amount() + more, meter.window());
    match meter {
        Meter::FixedWindow(_) => Meter::FixedWindow(FixedWindow::new(amount, window).unwrap()),
        Meter::SlidingLog(_) => Meter::SlidingLog(SlidingLog::new(amount, window).unwrap()),
        Meter::CalendarWindow(_) => calendar(amount, window.get()),
        Meter::SlidingWindow(_) => {
            Meter::SlidingWindow(SlidingWindow::new(amount, window).unwrap())
        }
        Meter::Concurrency(_) => Meter::Concurrency(Concurrency::new(amount, window).unwrap()),
        Meter::Bucket(bucket) => {
            let spec = bucket.spec();
            Meter::Bucket(
                Bucket::new(BucketSpec {
                    burst: spec.burst + more,
                    ..spec
                })
                .unwrap(),
            )
        }
        Meter::Block(_) => unreachable!("nothing is reserved with a block"),
    }
}
