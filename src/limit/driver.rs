//! The driver: judges every charge of a request at one instant, spends all or none. Its Lua twin is
//! `store/redis/driver.lua`, line by line.

use smallvec::SmallVec;

use super::{Charge, Quota, State, Verdict};
use crate::time::Timestamp;

/// What a store says to a whole request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Ruling {
    /// The instant of judgement, on the store's clock.
    pub at: Timestamp,
    /// One for each charge, in the order of the charges.
    pub decisions: SmallVec<[Decision; 4]>,
}

/// What a store says to one charge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Decision {
    /// What the meter answered.
    pub verdict: Verdict,
    /// What is left, after spending if the charge was spent.
    pub quota: Quota,
    /// Where it was booked; none when nothing was spent.
    pub mark: Option<u64>,
}
