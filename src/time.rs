//! Moments and spans, in whole microseconds below 2^53, so that a Lua double holds each of them exactly.

mod calendar;

pub use calendar::{Boundaries, Calendar, Unit, UnknownZone};

use std::time::Duration;

/// The largest integer that a limit ever computes with: above it, a Lua double loses units.
pub const EXACT: u64 = (1 << 53) - 1;

/// A moment: microseconds since the Unix epoch, on the clock of the store that judges. At most [`EXACT`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

/// A span of time in microseconds. At most [`EXACT`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Micros(u64);

impl Timestamp {
    /// The moment `micros` after the epoch; what lies above [`EXACT`] is cut to it.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(if micros > EXACT { EXACT } else { micros })
    }

    /// Microseconds since the epoch.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0
    }

    /// The span from `earlier` to this moment; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// This moment moved by `span` into the future.
    #[must_use]
    pub const fn after(self, span: Micros) -> Self {
        Self::from_micros(self.0.saturating_add(span.0))
    }
}

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// One second.
    pub const SECOND: Self = Self(1_000_000);

    /// A span of `micros`; what lies above [`EXACT`] is cut to it.
    #[must_use]
    pub const fn new(micros: u64) -> Self {
        Self(if micros > EXACT { EXACT } else { micros })
    }

    /// Its length in microseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Its length in whole seconds, rounded up: what `Retry-After` and `RateLimit` carry.
    #[must_use]
    pub const fn ceil_seconds(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

impl From<Micros> for Duration {
    fn from(span: Micros) -> Self {
        Self::from_micros(span.0)
    }
}

impl From<Duration> for Micros {
    fn from(span: Duration) -> Self {
        Self::new(u64::try_from(span.as_micros()).unwrap_or(EXACT))
    }
}
