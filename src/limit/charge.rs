//! The question to a store, and what it leaves behind.

use super::{Key, Meter};

/// Units of a limit; what one request costs is at least zero and at most 2^32 - 1. A cost of zero only asks.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Cost(u32);

impl Cost {
    /// What a request costs where nothing else is said.
    pub const ONE: Self = Self(1);

    /// A cost of `units`.
    #[must_use]
    pub const fn new(units: u32) -> Self {
        Self(units)
    }

    /// What is left of it without `other`; never below zero.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Its units.
    #[must_use]
    pub fn get(self) -> u64 {
        u64::from(self.0)
    }
}

/// Names one charge among all that its key ever sees; below 2^53.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ChargeId(u64);

impl ChargeId {
    /// The charge `id`; only its lower 53 bits count.
    #[must_use]
    pub const fn new(id: u64) -> Self {
        Self(id & crate::time::EXACT)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// What a charge's verdict does to its request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Stake {
    /// A rejection rejects the request.
    Binding,
    /// A rejection is only reported.
    Watching,
}

/// When a charge is spent.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum When {
    /// When every binding charge passes, and every charge of its own limit does.
    Admitted,
    /// When it passes and every binding charge of the other limits does: the world in which it had replaced its limit.
    Tried,
    /// When it passes and a charge of its limit that would be spent on admission rejects: what counts rejections.
    Rejected,
    /// Not by judging: by what becomes of the request.
    Settled,
}

/// A question to the store: may this key spend this cost under this meter?
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Charge {
    /// The counter.
    pub key: Key,
    /// The algorithm with its amounts.
    pub meter: Meter,
    /// What the request costs.
    pub cost: Cost,
    /// Unique to this charge.
    pub id: ChargeId,
    /// Whether it binds the request.
    pub stake: Stake,
    /// Which limit of its request it belongs to: charges of one limit have the same number.
    pub limit: u32,
    /// When it is spent.
    pub spent: When,
}

impl Charge {
    /// Whether it is spent if it passes, where the charges in `rejecting` reject.
    pub(crate) fn is_spent(&self, rejecting: &[&Self]) -> bool {
        let mut rejecting = rejecting.iter();
        let binds = |other: &Self| other.stake == Stake::Binding;
        let own = |other: &Self| other.limit == self.limit;
        match self.spent {
            When::Admitted => {
                !rejecting.any(|other| binds(other) || own(other) && other.spent != When::Tried)
            }
            When::Tried => !rejecting.any(|other| binds(other) && !own(other)),
            When::Rejected => rejecting.any(|other| own(other) && other.spent == When::Admitted),
            When::Settled => false,
        }
    }

    /// What it leaves when it was booked at `mark`.
    #[must_use]
    pub fn receipt(&self, mark: u64) -> Receipt {
        Receipt {
            key: self.key.clone(),
            meter: self.meter,
            cost: self.cost,
            id: self.id,
            mark,
            back: self.cost,
        }
    }
}

/// What a spent charge leaves, and the only thing that it can be given back by.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Receipt {
    /// The counter that was charged.
    pub key: Key,
    /// How it was charged.
    pub meter: Meter,
    /// What was spent.
    pub cost: Cost,
    /// Which charge it was.
    pub id: ChargeId,
    /// Where in the state it was booked: the window's start, the sub-window, or the moment, as the meter says.
    pub mark: u64,
    /// How much of the cost is given back, at most all of it: all, unless it is said ([`Receipt::part`]).
    pub back: Cost,
}

impl Receipt {
    /// The same, for giving back only `back` of it.
    #[must_use]
    pub fn part(self, back: Cost) -> Self {
        Self {
            back: back.min(self.cost),
            ..self
        }
    }
}
