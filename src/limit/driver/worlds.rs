//! Whole requests over limits with blocks and candidates, beside a recount in the plainest way.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use super::*;
use crate::limit::algorithm::{Block, SlidingLog};
use crate::limit::{ChargeId, Cost, Key, Meter};

/// What was spent: when, and how much.
type Spent = Vec<(u64, u64)>;

const EPOCH: u64 = 1_796_069_731_123_456;
const WINDOW: u64 = 1_000_000;

/// A limit as an operator sees it.
#[derive(Clone, Debug)]
struct Rule {
    stake: Stake,
    amounts: Vec<u64>,
    candidate: Option<u64>,
    block: Option<Then>,
}

#[derive(Clone, Copy, Debug)]
struct Then {
    length: u64,
    strikes: u64,
    within: u64,
    /// Whether rejections are strikes, or only what the test spends.
    spent: When,
}

/// What is known of a limit.
#[derive(Clone, Debug, Default)]
struct Known {
    amounts: Vec<Spent>,
    candidate: Spent,
    ends: u64,
    strikes: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    wait: u64,
    cost: u32,
    /// Spends so many strikes on the block of this limit, as settling does, before the request.
    settled: Option<(usize, u32)>,
}

fn fits(spent: &Spent, now: u64, amount: u64, cost: u64) -> bool {
    let used: u64 = spent
        .iter()
        .filter(|(at, _)| at + WINDOW > now)
        .map(|(_, cost)| cost)
        .sum();
    used + cost <= amount
}

impl Known {
    fn over(&self, rule: &Rule, now: u64, cost: u64) -> bool {
        let mut counters = self.amounts.iter().zip(&rule.amounts);
        counters.any(|(spent, amount)| !fits(spent, now, *amount, cost))
    }

    fn strike(&mut self, then: Then, now: u64, count: u32) {
        self.strikes.extend((0..count).map(|_| now));
        let length = then.within / 10;
        let counted = |at: &&u64| **at >= (now / length - 10) * length;
        let count = self.strikes.iter().filter(counted).count();
        if now >= self.ends && u64::try_from(count).unwrap() >= then.strikes {
            self.ends = now + then.length;
            self.strikes.clear();
        }
    }
}

/// The charges of a request, in the order: block, amounts, candidate of each limit.
fn charges(rules: &[Rule], cost: u32) -> Vec<Charge> {
    let mut charges = Vec::new();
    for (limit, rule) in rules.iter().enumerate() {
        let limit = u32::try_from(limit).unwrap();
        let charge = |name: &str, meter, cost, stake, spent| Charge {
            key: Key::new(format!("{limit}:{name}")),
            meter,
            cost: Cost::new(cost),
            id: ChargeId::new(u64::from(limit)),
            stake,
            limit,
            spent,
        };
        let log = |amount| Meter::SlidingLog(SlidingLog::new(amount, Micros::new(WINDOW)).unwrap());
        if let Some(then) = rule.block {
            charges.push(charge("block", block(then), 1, rule.stake, then.spent));
        }
        for (index, amount) in rule.amounts.iter().enumerate() {
            let name = index.to_string();
            charges.push(charge(
                &name,
                log(*amount),
                cost,
                rule.stake,
                When::Admitted,
            ));
        }
        if let Some(amount) = rule.candidate {
            let meter = log(amount);
            charges.push(charge(
                "candidate",
                meter,
                cost,
                Stake::Watching,
                When::Tried,
            ));
        }
    }
    charges
}

fn block(then: Then) -> Meter {
    let (length, within) = (Micros::new(then.length), Micros::new(then.within));
    Meter::Block(Block::new(length, then.strikes, within).unwrap())
}

/// One request: what each charge should be told, in their order, and whether the request may pass.
fn recount(rules: &[Rule], known: &mut [Known], now: u64, cost: u64) -> (Vec<bool>, bool) {
    let limits: Vec<(bool, bool)> = rules
        .iter()
        .zip(known.iter())
        .map(|(rule, known)| (known.over(rule, now, cost), now < known.ends))
        .collect();
    let refusing: Vec<usize> = (0..rules.len())
        .filter(|limit| rules[*limit].stake == Stake::Binding)
        .filter(|limit| limits[*limit].0 || limits[*limit].1)
        .collect();
    let mut told = Vec::new();
    for (limit, (rule, known)) in rules.iter().zip(known).enumerate() {
        let (over, blocked) = limits[limit];
        let fitting: Vec<bool> = known
            .amounts
            .iter()
            .zip(&rule.amounts)
            .map(|(spent, amount)| fits(spent, now, *amount, cost))
            .collect();
        if let Some(then) = rule.block {
            if over && !blocked && then.spent == When::Rejected {
                known.strike(then, now, 1);
            }
            // The rejection that begins it reports it.
            told.push(now >= known.ends);
        }
        told.extend(&fitting);
        if refusing.is_empty() && !over && !blocked {
            for spent in &mut known.amounts {
                spent.push((now, cost));
            }
        }
        if let Some(amount) = rule.candidate {
            let fits = fits(&known.candidate, now, amount, cost);
            told.push(fits);
            if fits && refusing.iter().all(|other| *other == limit) {
                known.candidate.push((now, cost));
            }
        }
    }
    (told, refusing.is_empty())
}

fn rule() -> impl Strategy<Value = Rule> {
    let stake = prop_oneof![3 => Just(Stake::Binding), 1 => Just(Stake::Watching)];
    let spent = prop_oneof![3 => Just(When::Rejected), 1 => Just(When::Settled)];
    let then = (1_u64..3_000_000, 1_u64..5, 1_u64..300, spent).prop_map(
        |(length, strikes, within, spent)| Then {
            length,
            strikes,
            within: within * 10_000,
            spent,
        },
    );
    let parts = (
        stake,
        vec(1_u64..6, 1..3),
        proptest::option::of(1_u64..6),
        proptest::option::of(then),
    );
    parts.prop_map(|(stake, amounts, candidate, block)| Rule {
        stake,
        amounts,
        candidate,
        block,
    })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait = prop_oneof![2 => Just(0_u64), 4 => 0_u64..300_000, 1 => 500_000_u64..WINDOW, 1 => 1_000_000_u64..4_000_000];
    let settled = proptest::option::weighted(0.2, (0_usize..3, 1_u32..3));
    let step = (wait, 1_u32..4, settled).prop_map(|(wait, cost, settled)| Step {
        wait,
        cost,
        settled,
    });
    vec(step, 1..60)
}

fn check(rules: &[Rule], steps: &[Step]) -> Result<(), TestCaseError> {
    let mut known: Vec<Known> = rules
        .iter()
        .map(|rule| Known {
            amounts: vec![Spent::new(); rule.amounts.len()],
            ..Known::default()
        })
        .collect();
    let mut states: Vec<State> = charges(rules, 1)
        .iter()
        .map(|charge| (charge.meter.kind().fresh)())
        .collect();
    let mut now = EPOCH;
    for step in steps {
        now += step.wait;
        let at = Timestamp::from_micros(now);
        let charges = charges(rules, step.cost);
        if let Some((limit, count)) = step.settled
            && let Some(then) = rules.get(limit).and_then(|rule| rule.block)
        {
            let name = format!("{limit}:block");
            let place = charges.iter().position(|c| c.key.as_str() == name).unwrap();
            let strikes = Charge {
                cost: Cost::new(count),
                ..charges[place].clone()
            };
            spend(&mut states[place], &strikes, at);
            known[limit].strike(then, now, count);
        }
        let mut borrowed: Vec<&mut State> = states.iter_mut().collect();
        let ruling = decide(&mut borrowed, &charges, at);
        let (told, admitted) = recount(rules, &mut known, now, u64::from(step.cost));
        let passes: Vec<bool> = ruling
            .decisions
            .iter()
            .map(|decision| decision.verdict.passes())
            .collect();
        prop_assert_eq!(passes, told);
        prop_assert_eq!(ruling.retry().is_none(), admitted);
        for (charge, decision) in charges.iter().zip(&ruling.decisions) {
            let Verdict::Reject(Retry::After(wait)) = decision.verdict else {
                continue;
            };
            if let Meter::Block(_) = charge.meter {
                let limit = usize::try_from(charge.limit).unwrap();
                prop_assert_eq!(now + wait.get(), known[limit].ends, "exact");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn blocks_and_candidates_do_as_a_recount_says(rules in vec(rule(), 1..4), steps in steps()) {
        check(&rules, &steps)?;
    }
}
