//! What travels to Redis and back: the text of the script, the operations of a call, and its reply. Pure.

use std::collections::HashMap;
use std::sync::LazyLock;

use smallvec::SmallVec;

use crate::limit::algorithm::KINDS;
use crate::limit::{
    Charge, Decision, Key, Meter, Quota, Receipt, Retry, Ruling, Stake, Verdict, When,
};
use crate::time::{EXACT, Micros, Timestamp};

/// How many requests one call carries at most.
pub const MAX_REQUESTS: usize = 64;
/// How many distinct keys one call carries at most.
pub const MAX_KEYS: usize = 256;

/// Numbers that name operations and outcomes on the wire; their twins stand in `driver.lua` and `prelude.lua`.
mod wire {
    pub(super) const JUDGE: u64 = 1;
    pub(super) const GIVE_BACK: u64 = 2;
    pub(super) const SPEND: u64 = 3;

    pub(super) const BINDING: u64 = 0;
    pub(super) const WATCHING: u64 = 1;

    pub(super) const ADMITTED: u64 = 0;
    pub(super) const TRIED: u64 = 1;
    pub(super) const REJECTED: u64 = 2;
    pub(super) const SETTLED: u64 = 3;

    pub(super) const REFUSED: u64 = 0;
    pub(super) const SPENT: u64 = 1;
    pub(super) const FOREIGN: u64 = 2;

    pub(super) const ALLOW: u64 = 0;
    pub(super) const DELAY: u64 = 1;
    pub(super) const AFTER: u64 = 2;
    pub(super) const UNKNOWN: u64 = 3;
    pub(super) const NEVER: u64 = 4;
}

/// The text of the script: the same for every call, so that Redis keeps one.
#[must_use]
pub fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let mut text = include_str!("prelude.lua").to_owned();
        for kind in KINDS {
            text.push_str(kind.lua);
        }
        text.push_str(include_str!("driver.lua"));
        text
    });
    &TEXT
}

/// The requests and settlements that go to Redis in one call, in order.
#[derive(Clone, Debug, Default)]
pub struct Call {
    keys: Vec<Key>,
    places: HashMap<Key, u64>,
    packed: Vec<u8>,
    /// The stakes of each request's charges, in order.
    requests: Vec<SmallVec<[Stake; 4]>>,
}

/// A key holds a value that is not ours: of another type, or of a length that no state has. Nothing of the request that
/// met it was spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ForeignValue;

/// A ruling for each request of a call, in the order in which they were added.
pub type Rulings = Vec<Result<Ruling, ForeignValue>>;

/// A reply that is not one to this call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct MalformedReply;

impl std::fmt::Display for ForeignValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key holds a value that is not a state of a limit")
    }
}

impl std::error::Error for ForeignValue {}

impl std::fmt::Display for MalformedReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the reply does not fit the call")
    }
}

impl std::error::Error for MalformedReply {}

impl Call {
    /// A call that asks nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks for a ruling on the charges of one request.
    pub fn judge(&mut self, charges: &[Charge]) {
        self.push(wire::JUDGE);
        self.push(u64::try_from(charges.len()).unwrap_or(EXACT));
        for charge in charges {
            self.push_counter(&charge.key, &charge.meter);
            self.push(terms(charge));
            self.push(charge.cost.get());
            self.push(charge.id.get());
            self.push_params(&charge.meter);
        }
        self.requests
            .push(charges.iter().map(|charge| charge.stake).collect());
    }

    /// Gives a charge or a part of it back, as far as it still counts.
    pub fn give_back(&mut self, receipt: &Receipt) {
        self.push(wire::GIVE_BACK);
        self.push_counter(&receipt.key, &receipt.meter);
        self.push_params(&receipt.meter);
        self.push(receipt.cost.get());
        self.push(receipt.id.get());
        self.push(receipt.mark);
        self.push(receipt.back.get());
    }

    /// Spends a charge without asking.
    pub fn spend(&mut self, charge: &Charge) {
        self.push(wire::SPEND);
        self.push_counter(&charge.key, &charge.meter);
        self.push_params(&charge.meter);
        self.push(charge.cost.get());
        self.push(charge.id.get());
    }

    /// The distinct keys: `KEYS` of the script.
    #[must_use]
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The operations: `ARGV[1]` of the script.
    #[must_use]
    pub fn packed(&self) -> &[u8] {
        &self.packed
    }

    /// How many requests it asks about; at most [`MAX_REQUESTS`] should travel together.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests.len()
    }

    /// How many distinct keys it touches; at most [`MAX_KEYS`] should travel together.
    #[must_use]
    pub fn key_count(&self) -> usize {
        self.keys.len()
    }

    /// Whether a request with these charges still fits.
    #[must_use]
    pub fn has_room_for(&self, charges: &[Charge]) -> bool {
        let new = charges
            .iter()
            .filter(|charge| !self.places.contains_key(&charge.key))
            .count();
        self.requests.len() < MAX_REQUESTS && self.keys.len() + new <= MAX_KEYS
    }

    /// Whether it carries nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// Reads the reply to this call: the instant of judgement on the store's clock, and the rulings.
    ///
    /// # Errors
    /// [`MalformedReply`] when it is anything but that.
    pub fn decode(&self, reply: &[u8]) -> Result<(Timestamp, Rulings), MalformedReply> {
        let mut numbers = Numbers(reply);
        let at = Timestamp::from_micros(numbers.next()?);
        let mut rulings = Vec::with_capacity(self.requests.len());
        for stakes in &self.requests {
            rulings.push(match numbers.next()? {
                wire::FOREIGN => Err(ForeignValue),
                wire::REFUSED | wire::SPENT => {
                    let decisions = stakes
                        .iter()
                        .map(|&stake| numbers.decision(stake))
                        .collect::<Result<_, _>>()?;
                    Ok(Ruling { at, decisions })
                }
                _ => return Err(MalformedReply),
            });
        }
        if numbers.0.is_empty() {
            Ok((at, rulings))
        } else {
            Err(MalformedReply)
        }
    }

    fn push(&mut self, number: u64) {
        self.packed.extend_from_slice(&number.to_le_bytes());
    }

    fn push_params(&mut self, meter: &Meter) {
        for number in meter.judge().params() {
            self.push(number);
        }
    }

    /// The place of `key` among the keys, from 1, and the algorithm's code.
    fn push_counter(&mut self, key: &Key, meter: &Meter) {
        let place = if let Some(&place) = self.places.get(key) {
            place
        } else {
            self.keys.push(key.clone());
            let place = u64::try_from(self.keys.len()).unwrap_or(EXACT);
            self.places.insert(key.clone(), place);
            place
        };
        self.push(place);
        self.push(meter.kind().code);
    }
}

/// Whether a charge binds, when it is spent, and which limit it belongs to, in one number.
fn terms(charge: &Charge) -> u64 {
    let stake = match charge.stake {
        Stake::Binding => wire::BINDING,
        Stake::Watching => wire::WATCHING,
    };
    let spent = match charge.spent {
        When::Admitted => wire::ADMITTED,
        When::Tried => wire::TRIED,
        When::Rejected => wire::REJECTED,
        When::Settled => wire::SETTLED,
    };
    stake | spent << 1 | u64::from(charge.limit) << 3
}

/// What is left of a reply.
struct Numbers<'r>(&'r [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> Result<u64, MalformedReply> {
        let (number, rest) = self.0.split_first_chunk().ok_or(MalformedReply)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*number))
    }

    fn decision(&mut self, stake: Stake) -> Result<Decision, MalformedReply> {
        let verdict = self.next()?;
        let wait = Micros::new(self.next()?);
        let verdict = match verdict {
            wire::ALLOW => Verdict::Allow,
            wire::DELAY => Verdict::Delay { by: wait },
            wire::AFTER => Verdict::Reject(Retry::After(wait)),
            wire::UNKNOWN => Verdict::Reject(Retry::Unknown),
            wire::NEVER => Verdict::Reject(Retry::Never),
            _ => return Err(MalformedReply),
        };
        let quota = Quota {
            remaining: self.next()?,
            reset_after: Micros::new(self.next()?),
        };
        let booked = self.next()?;
        let mark = self.next()?;
        let mark = match booked {
            0 => None,
            1 => Some(mark),
            _ => return Err(MalformedReply),
        };
        Ok(Decision {
            stake,
            verdict,
            quota,
            mark,
        })
    }
}

#[cfg(test)]
mod tests;
