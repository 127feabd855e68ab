//! What is only told to the store, never asked.

use super::cluster::Slot;
use super::way::{Manner, Way};
use crate::limit::{Charge, Key, Receipt};

/// What is told.
#[derive(Clone, Debug)]
pub(super) enum Settlement {
    /// Gives back what a receipt says.
    GiveBack(Receipt),
    /// Spends without asking.
    Spend(Charge),
}

/// A settlement on its way.
#[derive(Clone, Debug)]
pub(super) struct Settling {
    pub(super) settlement: Settlement,
    pub(super) way: Way,
    /// How often it was sent on.
    pub(super) hops: u8,
}

impl Settlement {
    fn key(&self) -> &Key {
        match self {
            Self::GiveBack(receipt) => &receipt.key,
            Self::Spend(charge) => &charge.key,
        }
    }

    /// How it goes on a cluster.
    pub(super) fn way(&self) -> Way {
        Way {
            slot: Slot::of(self.key().as_str()),
            manner: Manner::Together,
        }
    }

    /// Sends it off.
    pub(super) fn by(self, way: Way) -> Settling {
        Settling {
            settlement: self,
            way,
            hops: 0,
        }
    }
}
