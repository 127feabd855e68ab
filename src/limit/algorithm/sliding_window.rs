//! stub

use smallvec::SmallVec;

use super::{InvalidMeter, Judge, Kind, State};
use crate::limit::{ChargeId, Cost, Quota, Verdict};
use crate::time::{Micros, Timestamp};

/// stub
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SlidingWindow {}

/// The row of the registry.
pub(super) const KIND: Kind = Kind { code: 3, lua: include_str!("sliding_window.lua"), params: 2, fresh: || State::Numbers(SmallVec::new()) };

impl Judge for SlidingWindow {
    fn heal(&self, _state: &mut State, _now: Timestamp) -> bool { false }
    fn judge(&self, _state: &State, _now: Timestamp, _cost: Cost) -> Verdict { Verdict::Allow }
    fn spend(&self, _state: &mut State, _now: Timestamp, _cost: Cost, _id: ChargeId) -> u64 { 0 }
    fn give_back(&self, _state: &mut State, _now: Timestamp, _mark: u64, _id: ChargeId, _cost: Cost) {}
    fn quota(&self, _state: &State, _now: Timestamp) -> Quota { Quota::default() }
    fn params(&self) -> SmallVec<[u64; 6]> { SmallVec::new() }
}

impl SlidingWindow {
    /// stub
    ///
    /// # Errors
    /// stub
    pub fn new(_amount: u64, _window: Micros) -> Result<Self, InvalidMeter> { Ok(Self {}) }
}
