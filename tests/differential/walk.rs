//! A random walk over many keys, judged by both twins.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use sluice::limit::algorithm::{
    Block, Bucket, BucketSpec, CalendarWindow, Concurrency, FixedWindow, Refill, SlidingLog,
    SlidingWindow,
};
use sluice::limit::{Charge, ChargeId, Cost, Key, Meter, Receipt, Stake, State, When, driver};
use sluice::store::redis::script::Call;
use sluice::time::{Boundaries, Micros, Timestamp};

use crate::server::Server;

const STEPS: usize = 8_000;
const EPOCH: u64 = 1_796_069_731_123_456;

/// Numbers that follow from a seed (splitmix64).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % bound
    }

    pub(crate) fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

/// The counters below are for meters, those from here on for blocks.
const BLOCKS: u64 = 24;
/// And those from here on for windows of a calendar.
const CALENDARS: u64 = 30;
pub(crate) const COUNTERS: u64 = 34;
const WINDOWS: [u64; 4] = [10_000, 1_000_000, 60_000_000, 90_000_000_000];

/// A block for the counters from [`BLOCKS`] on, else a meter of the kind and window that belong to `counter`; its amounts
/// differ from time to time.
pub(crate) fn meter(counter: u64, dice: &mut Dice) -> Meter {
    let window = Micros::new(WINDOWS[usize::try_from(counter / 6 % 4).unwrap()]);
    if counter >= CALENDARS {
        let window = Micros::new(WINDOWS[usize::try_from(counter - CALENDARS).unwrap()]);
        return Meter::CalendarWindow(CalendarWindow::new(1 + dice.below(12), window).unwrap());
    }
    if counter >= BLOCKS {
        // A call heals a state once, by the first length that it carries: of one key they are equal, but for a reload.
        let length = Micros::new((counter - BLOCKS + 1) * window.get() / 2);
        return Meter::Block(Block::new(length, 1 + dice.below(5), window).unwrap());
    }
    let amount = if dice.one_in(8) {
        1 + dice.below(9_999)
    } else {
        1 + dice.below(12)
    };
    match counter % 6 {
        0 => Meter::FixedWindow(FixedWindow::new(amount, window).unwrap()),
        1 => Meter::SlidingLog(SlidingLog::new(amount, window).unwrap()),
        2 => Meter::SlidingWindow(SlidingWindow::new(amount, window).unwrap()),
        3 => Meter::Concurrency(Concurrency::new(amount, window).unwrap()),
        kind => {
            let refill = if kind == 4 {
                Refill::Continuous
            } else {
                Refill::Interval
            };
            let max_wait = Micros::new(dice.below(3 * window.get()));
            let (burst, queue) = (1 + dice.below(15), dice.below(3) * dice.below(4));
            Meter::Bucket(
                Bucket::new(BucketSpec {
                    amount,
                    window,
                    burst,
                    queue,
                    max_wait,
                    refill,
                })
                .unwrap(),
            )
        }
    }
}

/// What renews the lease that `receipt` was given for.
fn renewal(receipt: &Receipt) -> Charge {
    Charge {
        key: receipt.key.clone(),
        meter: receipt.meter,
        cost: receipt.cost,
        id: receipt.id,
        stake: Stake::Binding,
        limit: 0,
        spent: When::Settled,
    }
}

/// What a calendar whose windows differ by up to an eighth in length says to a clock that shows `shown`.
pub(crate) fn boundaries(window: Micros, shown: u64) -> Boundaries {
    let window = window.get();
    let boundary = |number: u64| number * window + number * 7 % 8 * (window / 64);
    let mut number = shown / window - 1;
    while boundary(number + 1) <= shown {
        number += 1;
    }
    [0, 1, 2, 3].map(|more| Timestamp::from_micros(boundary(number + more - 1)))
}

struct Walk {
    dice: Dice,
    server: Server,
    now: u64,
    /// What the gateway's clock shows.
    shown: u64,
    next: u64,
    states: HashMap<Key, State>,
    receipts: Vec<Receipt>,
    rejected: usize,
    spent: usize,
}

impl Walk {
    fn charge(&mut self, counter: u64) -> Charge {
        self.next += 1;
        let meter = meter(counter, &mut self.dice);
        let meter = meter.around(boundaries(meter.window(), self.shown));
        Charge {
            key: Key::new(format!("walk:{counter}")),
            meter,
            cost: Cost::new(
                u32::try_from(if self.dice.one_in(50) {
                    500
                } else {
                    self.dice.below(5)
                })
                .unwrap(),
            ),
            id: ChargeId::new((1 << 52) + self.next),
            stake: if self.dice.one_in(5) {
                Stake::Watching
            } else {
                Stake::Binding
            },
            limit: u32::try_from(self.dice.below(3)).unwrap(),
            spent: match self.dice.below(8) {
                0 => When::Tried,
                1 => When::Settled,
                2..=4 if counter >= BLOCKS => When::Rejected,
                2 => When::Rejected,
                _ => When::Admitted,
            },
        }
    }

    fn request(&mut self) -> Vec<Charge> {
        let first = self.dice.below(COUNTERS);
        let count = 1 + self.dice.below(4);
        (0..count)
            .map(|more| (first + 7 * more) % COUNTERS)
            .map(|counter| self.charge(counter))
            .collect()
    }

    fn state(&mut self, key: &Key, meter: &Meter) -> &mut State {
        self.states
            .entry(key.clone())
            .or_insert_with(meter.kind().fresh)
    }

    fn tick(&mut self) {
        let ahead = WINDOWS[usize::try_from(self.dice.below(4)).unwrap()];
        match self.dice.below(20) {
            0 => self.now -= self.dice.below(ahead),
            1 => self.now -= self.dice.below(3 * ahead),
            2..=8 => {}
            9 => self.now += self.dice.below(2 * ahead),
            _ => self.now += self.dice.below(ahead / 8),
        }
        self.now = self.now.clamp(EPOCH - (1 << 49), EPOCH + (1 << 49));
        self.shown = match self.dice.below(6) {
            0 => self.now - self.dice.below(9 * ahead),
            1 => self.now + self.dice.below(9 * ahead),
            _ => self.now,
        };
    }

    /// The receipt at `place`, to be given back whole or in part.
    fn pick(&mut self, place: usize) -> Receipt {
        let leased = matches!(self.receipts[place].meter, Meter::Concurrency(_));
        // A lease is given back whole, perhaps twice, and perhaps renewed after that.
        if leased && self.dice.one_in(2) {
            return self.receipts[place].clone();
        }
        let mut receipt = self.receipts.remove(place);
        // A call heals a state once, by the first boundaries that it carries.
        let window = receipt.meter.window();
        receipt.meter = receipt.meter.around(boundaries(window, self.shown));
        if leased || !self.dice.one_in(3) {
            return receipt;
        }
        let back = self.dice.below(receipt.cost.get() + 1);
        receipt.part(Cost::new(u32::try_from(back).unwrap()))
    }

    /// What renews some of the leases that were taken last.
    fn renewals(&mut self) -> Vec<Charge> {
        let recent = self.receipts.iter().rev().take(40);
        let leases = recent.filter(|one| matches!(one.meter, Meter::Concurrency(_)));
        let mut leases: Vec<Charge> = leases.map(renewal).collect();
        leases.truncate(1 + usize::try_from(self.dice.below(4)).unwrap());
        leases
    }

    /// One call to both; gives up at the first difference.
    fn step(&mut self) {
        self.tick();
        let now = Timestamp::from_micros(self.now);
        let mut call = Call::new();
        let mut expected = Vec::new();
        let mut receipts = Vec::new();
        for _ in 0..=self.dice.below(5) {
            match self.dice.below(10) {
                0 if !self.receipts.is_empty() => {
                    // Mostly recent ones, which still count.
                    let count = self.receipts.len();
                    let back = if self.dice.one_in(4) {
                        count
                    } else {
                        count.min(8)
                    };
                    let back = self.dice.below(u64::try_from(back).unwrap());
                    let place = count - 1 - usize::try_from(back).unwrap();
                    let receipt = self.pick(place);
                    call.give_back(&receipt);
                    driver::give_back(self.state(&receipt.key, &receipt.meter), &receipt, now);
                }
                1 => {
                    let counter = self.dice.below(COUNTERS);
                    let charge = self.charge(counter);
                    call.spend(&charge);
                    driver::spend(self.state(&charge.key, &charge.meter), &charge, now);
                }
                2 if self.dice.one_in(2) => {
                    for charge in &self.renewals() {
                        call.spend(charge);
                        driver::spend(self.state(&charge.key, &charge.meter), charge, now);
                    }
                }
                _ => {
                    let charges = self.request();
                    call.judge(&charges);
                    let mut states: Vec<State> = charges
                        .iter()
                        .map(|charge| self.state(&charge.key, &charge.meter).clone())
                        .collect();
                    let ruling =
                        driver::decide(&mut states.iter_mut().collect::<Vec<_>>(), &charges, now);
                    for (charge, state) in charges.iter().zip(states) {
                        self.states.insert(charge.key.clone(), state);
                    }
                    receipts.extend(ruling.receipts(&charges));
                    self.rejected += usize::from(ruling.retry().is_some());
                    self.spent += usize::from(ruling.spent());
                    expected.push(Ok(ruling));
                }
            }
        }
        if call.is_empty() {
            return;
        }
        let (at, rulings) = self.server.call(&call, Some(now));
        assert_eq!(at, now);
        assert_eq!(rulings, expected);
        self.receipts.extend(receipts);
        self.compare(&call);
    }

    fn compare(&mut self, call: &Call) {
        for key in call.keys() {
            let mut state = self.states[key].clone();
            if let State::Log(entries) = &mut state {
                entries.sort_by_key(|entry| (entry.at, entry.id));
            }
            let fresh = match &state {
                State::Numbers(_) => State::Numbers(Default::default()),
                State::Log(_) => State::Log(Vec::new()),
            };
            assert_eq!(self.server.state(key, &fresh), state, "stored at {key:?}");
        }
    }
}

fn walk(seed: u64) {
    println!("seed {seed}");
    let mut walk = Walk {
        dice: Dice(seed),
        server: Server::start(),
        now: EPOCH,
        shown: EPOCH,
        next: 0,
        states: HashMap::new(),
        receipts: Vec::new(),
        rejected: 0,
        spent: 0,
    };
    for _ in 0..STEPS {
        walk.step();
    }
    println!("{} requests spent, {} rejected", walk.spent, walk.rejected);
    assert!(
        walk.spent > STEPS / 4 && walk.rejected > STEPS / 4,
        "the walk saw both"
    );
    // Every key that a call leaves expires by itself.
    for key in walk.states.keys() {
        let ttl = walk.server.run(&["PTTL", key.as_str()]).number();
        assert!(ttl > 0 || ttl == -2, "{key:?} never expires");
    }
}

#[test]
fn twins_agree_on_known_walks() {
    walk(1);
    walk(2);
}

#[test]
fn twins_agree_on_a_new_walk() {
    let seed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_micros();
    walk(u64::try_from(seed).unwrap());
}
