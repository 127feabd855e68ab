//! A block that answers begin: what stays charged once the answer is known counts toward it.

use crate::limit::{Charge, ChargeId, Cost, Key, Meter, Stake, When};
use crate::store::{Origin, Store};

/// The block that a charge counts toward when it stays.
#[derive(Clone, Debug)]
pub(super) struct Strike {
    pub(super) key: Key,
    /// The block in the store.
    pub(super) meter: Meter,
    /// The block of one gateway on its own.
    pub(super) local: Meter,
    pub(super) id: ChargeId,
}

impl Strike {
    /// A charge of `cost` stayed, which `origin` had judged.
    pub(super) fn book(self, store: &Store, origin: Origin, cost: Cost) {
        let meter = match origin {
            Origin::Store => self.meter,
            Origin::Local => self.local,
            // Only this process blocks whom it alone struck.
            Origin::Owed => return,
        };
        if cost.get() > 0 {
            let strike = Charge {
                key: self.key,
                meter,
                cost,
                id: self.id,
                stake: Stake::Binding,
                limit: 0,
                spent: When::Settled,
            };
            store.spend(origin, &strike);
        }
    }
}
