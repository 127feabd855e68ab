//! stub

use smallvec::SmallVec;

use super::{InvalidMeter, Judge, Kind, State};
use crate::limit::{ChargeId, Cost, Quota, Verdict};
use crate::time::{Micros, Timestamp};

/// stub
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Bucket {}

/// The row of the registry.
pub(super) const KIND: Kind = Kind { code: 4, lua: include_str!("bucket.lua"), params: 2, fresh: || State::Numbers(SmallVec::new()) };

impl Judge for Bucket {
    fn heal(&self, _state: &mut State, _now: Timestamp) -> bool { false }
    fn judge(&self, _state: &State, _now: Timestamp, _cost: Cost) -> Verdict { Verdict::Allow }
    fn spend(&self, _state: &mut State, _now: Timestamp, _cost: Cost, _id: ChargeId) -> u64 { 0 }
    fn give_back(&self, _state: &mut State, _now: Timestamp, _mark: u64, _id: ChargeId, _cost: Cost) {}
    fn quota(&self, _state: &State, _now: Timestamp) -> Quota { Quota::default() }
    fn params(&self) -> SmallVec<[u64; 6]> { SmallVec::new() }
}

/// stub
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Refill { /// a
    Continuous, /// b
    Interval }

/// What a bucket is made of.
#[derive(Clone, Copy, Debug)]
pub struct BucketSpec {
    /// Units that drain (or are refilled) in one window.
    pub amount: u64,
    /// The window.
    pub window: Micros,
    /// The most that passes at once: the size of the bucket.
    pub burst: u64,
    /// How many more may wait their turn; 0 rejects instead.
    pub queue: u64,
    /// How long each may wait at most.
    pub max_wait: Micros,
    /// How it is refilled.
    pub refill: Refill,
}

impl Bucket {
    /// stub
    ///
    /// # Errors
    /// stub
    pub fn new(_spec: BucketSpec) -> Result<Self, InvalidMeter> { Ok(Self {}) }
}
