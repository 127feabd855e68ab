//! What going over a limit leads to.

use std::sync::Arc;

use super::{CostRule, Count};
use crate::limit::algorithm::Block;
use crate::limit::{Meter, When};

/// `then: block`: a client that goes over the limit is let in no more for a while.
#[derive(Clone, Debug, PartialEq)]
pub struct Then {
    /// How long, and after how many rejections. Where answers begin it, [`Then::meter`] says after how many.
    pub block: Block,
    /// What begins it.
    pub begins: Begins,
    /// How long, for people: "15 minutes".
    pub words: Arc<str>,
}

/// What begins a block.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Begins {
    /// Rejections by the limit.
    Rejections,
    /// Charges that stayed once the answer was known: when they reach the amount.
    Answers,
}

/// CODE of a block's key. It has no parameters, so that other ones keep who is blocked.
pub const BLOCK: &str = "block";

impl Begins {
    /// What begins the block of a limit that counts so, and costs so.
    #[must_use]
    pub fn of(count: &Count, cost: &CostRule) -> Self {
        if *count == Count::Every && cost.answer().is_none() {
            Self::Rejections
        } else {
            Self::Answers
        }
    }

    /// When the store is to book a strike.
    #[must_use]
    pub const fn spent(self) -> When {
        match self {
            Self::Rejections => When::Rejected,
            Self::Answers => When::Settled,
        }
    }
}

impl Then {
    /// The meter of the block beside an amount.
    #[must_use]
    pub fn meter(&self, amount: &Meter) -> Meter {
        Meter::Block(match self.begins {
            Begins::Rejections => self.block,
            Begins::Answers => self.block.after(amount.amount()),
        })
    }
}
