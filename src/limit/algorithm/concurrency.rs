//! Concurrency: so much at once, each piece held by a lease. Its twin is `concurrency.lua`.

use std::num::NonZeroU32;

use smallvec::SmallVec;

use super::{Booked, InvalidMeter, Judge, Kind, Meter, SlidingLog, State};
use crate::limit::{ChargeId, Cost, Quota, Retry, Verdict};
use crate::time::{Micros, Timestamp};

/// How long a lease lasts that nobody renews: so long the slots of a gateway that died stay taken.
pub const LEASE: Micros = Micros::new(15_000_000);

/// How often whoever holds a lease renews it: two renewals may get lost before it ends.
pub const HEARTBEAT: Micros = Micros::new(LEASE.get() / 3);

/// At most `amount` at once. What is spent is leased until it is given back, or until nobody has renewed it for the
/// lease time.
///
/// State: the leases, each an entry of a log whose window is the lease time: when it was taken or last renewed, which
/// charge holds it, what it costs. Spending under an id that holds a lease renews that; it asks nobody, so a renewal is
/// never rejected, and it enters again a lease that was lost.
///
/// A clock that steps back keeps a lease at most two lease times; one that steps ahead ends it early, until its holder
/// renews it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Concurrency {
    leases: SlidingLog,
}

/// The row of the registry.
pub(super) const KIND: Kind = Kind {
    code: 6,
    lua: include_str!("concurrency.lua"),
    params: 2,
    fresh: || State::Log(Vec::new()),
};

impl Concurrency {
    /// `amount` units at once, each for `lease` after it was spent or last renewed.
    ///
    /// # Errors
    /// An amount of 0 or above 10 000; a lease of 0 or above 35 years.
    pub fn new(amount: u64, lease: Micros) -> Result<Self, InvalidMeter> {
        let leases = SlidingLog::new(amount, lease)?;
        Ok(Self { leases })
    }
}

impl Judge for Concurrency {
    fn heal(&self, state: &mut State, now: Timestamp) -> bool {
        self.leases.heal(state, now)
    }

    fn judge(&self, state: &State, now: Timestamp, cost: Cost) -> Verdict {
        match self.leases.judge(state, now, cost) {
            // A lease ends when its holder says so, or never.
            Verdict::Reject(Retry::After(_)) => Verdict::Reject(Retry::Unknown),
            verdict => verdict,
        }
    }

    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, id: ChargeId) -> u64 {
        let mark = now.as_micros();
        self.leases
            .give_back(state, now, Booked { mark, id, cost }, cost);
        self.leases.spend(state, now, cost, id)
    }

    fn give_back(&self, state: &mut State, now: Timestamp, booked: Booked, back: Cost) {
        self.leases.give_back(state, now, booked, back);
    }

    /// What was spent counts until the last lease would end by itself.
    fn quota(&self, state: &State, now: Timestamp) -> Quota {
        self.leases.quota(state, now)
    }

    fn params(&self) -> SmallVec<[u64; 6]> {
        self.leases.params()
    }

    /// Units at once.
    fn amount(&self) -> u64 {
        self.leases.amount()
    }

    /// The lease time.
    fn window(&self) -> Micros {
        self.leases.window()
    }

    fn divided(&self, by: NonZeroU32) -> Meter {
        let leases = self.leases.share(by);
        Meter::Concurrency(Self { leases })
    }
}
