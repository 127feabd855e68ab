//! The ways of limiting, as pure functions of state, time and cost.
//!
//! To add one: `x.rs`, `x.lua`, a variant of [`Meter`] and a row in [`KINDS`]; the laws, the differential test and the
//! script follow from the row.

mod block;
mod bounds;
mod bucket;
mod calendar_window;
mod concurrency;
mod fixed_window;
#[cfg(test)]
mod laws;
mod sliding_log;
mod sliding_window;

pub use block::Block;
pub use bucket::{Bucket, BucketSpec, Refill};
pub use calendar_window::CalendarWindow;
pub use concurrency::{Concurrency, HEARTBEAT, LEASE};
pub use fixed_window::FixedWindow;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;

use std::num::NonZeroU32;

use smallvec::SmallVec;

use super::{ChargeId, Cost, Quota, Verdict};
use crate::time::{Boundaries, Micros, Timestamp};

/// The largest sum that an algorithm holds: half of what a Lua double counts exactly, so that two still add up.
const SUM: u64 = 1 << 52;

/// What a store remembers of one key. The default of a kind means "never seen".
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum State {
    /// A few integers below 2^53, packed into one string value in Redis. Empty: never seen.
    Numbers(SmallVec<[u64; 4]>),
    /// Entries ordered by time, a sorted set in Redis.
    Log(Vec<Entry>),
}

impl State {
    /// Whether the key is as one that was never seen.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.numbers().is_empty() && self.entries().is_empty()
    }

    /// The integers; of a log, none.
    fn numbers(&self) -> &[u64] {
        match self {
            Self::Numbers(numbers) => numbers,
            Self::Log(_) => &[],
        }
    }

    /// The entries; of integers, none.
    fn entries(&self) -> &[Entry] {
        match self {
            Self::Numbers(_) => &[],
            Self::Log(entries) => entries,
        }
    }
}

/// One entry of a log.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Entry {
    /// When it was spent.
    pub at: Timestamp,
    /// Which charge it was.
    pub id: ChargeId,
    /// What it cost.
    pub cost: u64,
}

/// What a state was told of a charge when it was spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Booked {
    /// What [`Judge::spend`] returned.
    pub mark: u64,
    /// Which charge it was.
    pub id: ChargeId,
    /// What it cost.
    pub cost: Cost,
}

/// One way of limiting.
///
/// Laws, each checked by property test over every algorithm against a brute-force oracle (`laws.rs`):
///
/// 1. Total: any state, any time (also backwards) and any cost give an answer. A stored moment up to one window ahead
///    counts as now; further ahead it is pulled back to now and the count is kept ([`Judge::heal`]).
/// 2. A rejection spends nothing: asking again at the same instant answers the same (but for the block that it begins).
/// 3. [`Retry::After`](super::Retry::After) is exact where nothing is given back meanwhile: one microsecond earlier the
///    charge is rejected, at that moment it is allowed.
/// 4. Forgetting a key from `now + reset_after` on changes no later answer. Expiry is garbage collection.
/// 5. Over any interval the admitted cost stays within the algorithm's bound.
/// 6. Every integer stays below 2^53, so that the Lua twin computes the same. No floats.
/// 7. After a charge is given back, the key admits no more than if it had never been made; after a part of it is, no
///    more than if only the rest had been charged. (Where a key's first charge opens its window or interval, that stays
///    as it opened; a clock that was healed in between voids the comparison.)
/// 8. A state means the same under every amount, so that raising or lowering it keeps what was used.
/// 9. With nothing spent, what is allowed stays allowed, and what rejects n rejects more than n.
pub trait Judge {
    /// Pulls moments that lie more than one window ahead of `now` back to it; a log also drops what has left its
    /// window. True when the state changed: that is kept even when the request is rejected, or law 3 would not hold.
    fn heal(&self, state: &mut State, now: Timestamp) -> bool;
    /// Asks, and changes nothing. A cost of zero is always allowed.
    fn judge(&self, state: &State, now: Timestamp, cost: Cost) -> Verdict;
    /// Books the cost, whatever the state; returns the mark for the receipt. A cost of zero books nothing.
    fn spend(&self, state: &mut State, now: Timestamp, cost: Cost, id: ChargeId) -> u64;
    /// Takes back what a receipt says (its mark, id, cost, and how much of it), as far as it still counts.
    fn give_back(&self, state: &mut State, now: Timestamp, booked: Booked, back: Cost);
    /// What is left, and until when what was spent counts.
    fn quota(&self, state: &State, now: Timestamp) -> Quota;
    /// The integers that the Lua twin is given, in its order; as many as [`Kind::params`] says.
    fn params(&self) -> SmallVec<[u64; 6]>;
    /// Units a window; of concurrency, at once.
    fn amount(&self) -> u64;
    /// The window, as it is counted: never shorter than the one asked for. Of concurrency, the lease time.
    fn window(&self) -> Micros;
    /// [`Meter::divided`].
    fn divided(&self, by: NonZeroU32) -> Meter;
}

/// An algorithm with its amounts: a closed set, so that it can be compared, copied and hashed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Meter {
    /// So much from a key's first request to the end of its window.
    FixedWindow(FixedWindow),
    /// So much in any window, exactly, remembering every charge.
    SlidingLog(SlidingLog),
    /// So much in any window, counting in ten sub-windows.
    SlidingWindow(SlidingWindow),
    /// Token bucket, leaky bucket as meter, leaky bucket as queue.
    Bucket(Bucket),
    /// Lets nobody in for a while who was over a limit too often.
    Block(Block),
    /// So much from one boundary of a calendar to the next.
    CalendarWindow(CalendarWindow),
    /// So much at once, each piece held by a lease.
    Concurrency(Concurrency),
}

/// Amounts that an algorithm cannot hold exactly, said for the person who wrote them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct InvalidMeter(pub String);

impl std::fmt::Display for InvalidMeter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidMeter {}

/// A row of the registry: what the script and the stores need to know about an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The number that names it on the wire, from 1.
    pub code: u64,
    /// The Lua twin: sets `M[code]` to a function that makes a table of `heal`, `judge`, `spend`, `give_back` and
    /// `quota`.
    pub lua: &'static str,
    /// How many integers [`Judge::params`] gives.
    pub params: usize,
    /// The state of a key that was never seen.
    pub fresh: fn() -> State,
}

/// Every algorithm there is, ordered by code.
pub const KINDS: [&Kind; 7] = [
    &fixed_window::KIND,
    &sliding_log::KIND,
    &sliding_window::KIND,
    &bucket::KIND,
    &block::KIND,
    &concurrency::KIND,
    &calendar_window::KIND,
];

impl Meter {
    /// The functions of the algorithm: the only match over algorithms in the crate.
    #[must_use]
    pub fn judge(&self) -> &dyn Judge {
        match self {
            Self::FixedWindow(meter) => meter,
            Self::SlidingLog(meter) => meter,
            Self::SlidingWindow(meter) => meter,
            Self::Bucket(meter) => meter,
            Self::Block(meter) => meter,
            Self::CalendarWindow(meter) => meter,
            Self::Concurrency(meter) => meter,
        }
    }

    /// The row of the registry.
    #[must_use]
    pub fn kind(&self) -> &'static Kind {
        match self {
            Self::FixedWindow(_) => &fixed_window::KIND,
            Self::SlidingLog(_) => &sliding_log::KIND,
            Self::SlidingWindow(_) => &sliding_window::KIND,
            Self::Bucket(_) => &bucket::KIND,
            Self::Block(_) => &block::KIND,
            Self::CalendarWindow(_) => &calendar_window::KIND,
            Self::Concurrency(_) => &concurrency::KIND,
        }
    }

    /// Units a window; of concurrency, at once.
    #[must_use]
    pub fn amount(&self) -> u64 {
        self.judge().amount()
    }

    /// The window, as it is counted: never shorter than the one asked for. Of concurrency, the lease time.
    #[must_use]
    pub fn window(&self) -> Micros {
        self.judge().window()
    }

    /// The same, knowing where the windows of its calendar begin; of any other algorithm, the same.
    #[must_use]
    pub fn around(self, boundaries: Boundaries) -> Self {
        match self {
            Self::CalendarWindow(meter) => Self::CalendarWindow(meter.around(boundaries)),
            other => other,
        }
    }

    /// One gateway's share among `by`, for while the store is away: amount and burst divided, rounded up, so at least
    /// 1. A queue is kept.
    #[must_use]
    pub fn divided(self, by: NonZeroU32) -> Self {
        self.judge().divided(by)
    }
}
