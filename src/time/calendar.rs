//! Windows of the calendar: the minutes, hours, days, weeks and months of a time zone, as moments.
//!
//! The time zone database is part of the program, so that every gateway of one version finds the same boundaries, in a
//! container without `/usr/share/zoneinfo` too.

use std::sync::{Arc, LazyLock};

use arc_swap::ArcSwap;
use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use super::Timestamp;

static DATABASE: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// Four boundaries in a row: they bound the window before a moment's, its own and the next.
pub type Boundaries = [Timestamp; 4];

/// What a calendar counts in.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Unit {
    /// From one full minute to the next.
    Minute,
    /// From one full hour to the next.
    Hour,
    /// From midnight to midnight.
    Day,
    /// From Monday to Monday (ISO 8601).
    Week,
    /// From the first to the first.
    Month,
}

impl Unit {
    /// Every unit with its word.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("minute", Self::Minute),
        ("hour", Self::Hour),
        ("day", Self::Day),
        ("week", Self::Week),
        ("month", Self::Month),
    ];

    /// Its word.
    #[must_use]
    pub fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(_, unit)| *unit == self)
            .map_or("", |(word, _)| word)
    }

    /// How long it is on most days, in seconds; none where no length is usual.
    #[must_use]
    pub const fn usual_seconds(self) -> Option<u64> {
        match self {
            Self::Minute => Some(60),
            Self::Hour => Some(3_600),
            Self::Day => Some(86_400),
            Self::Week => Some(604_800),
            Self::Month => None,
        }
    }
}

/// One unit in one time zone.
///
/// A day, a week, a month begins at the first instant at which the zone's clocks show its midnight or later: the day after
/// a change may have 23 or 25 hours, and one whose midnight does not exist begins where its clocks begin. An hour, a
/// minute begins whenever the clocks show a full one: an hour that the clocks repeat are two, and a change by half an hour
/// makes one of an hour and a half.
#[derive(Debug)]
pub struct Calendar {
    unit: Unit,
    zone: TimeZone,
    name: Box<str>,
    /// The boundaries around the moment that was asked for last.
    last: ArcSwap<Boundaries>,
}

/// No time zone has this name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct UnknownZone;

impl Calendar {
    /// The zone where none is named.
    pub const UTC: &str = "UTC";

    /// The `unit`s of the IANA time zone `zone`, as `Europe/Paris`, in any case of its letters.
    ///
    /// # Errors
    /// No zone has this name.
    pub fn new(unit: Unit, zone: &str) -> Result<Self, UnknownZone> {
        let zone = DATABASE.get(zone).map_err(|_unknown| UnknownZone)?;
        let name = zone.iana_name().ok_or(UnknownZone)?.into();
        Ok(Self {
            unit,
            zone,
            name,
            last: ArcSwap::default(),
        })
    }

    /// The name of every zone.
    #[must_use]
    pub fn zones() -> Vec<String> {
        DATABASE.available().map(|name| name.to_string()).collect()
    }

    /// Its unit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// The name of its zone, as the database spells it.
    #[must_use]
    pub fn zone(&self) -> &str {
        &self.name
    }

    /// The boundaries around `now`: the second is the last that is not later than it. They ascend, but where a moment
    /// cannot be told below 2^53. Computed once a window.
    #[must_use]
    pub fn around(&self, now: Timestamp) -> Boundaries {
        let last = **self.last.load();
        let [_, start, end, _] = last;
        if start <= now && now < end {
            return last;
        }
        let found = self.find(now);
        self.last.store(Arc::new(found));
        found
    }

    fn find(&self, now: Timestamp) -> Boundaries {
        let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
        let start = self.start(now);
        let before = self.start(start.saturating_sub(1));
        let end = self.end(start);
        [before, start, end, self.end(end)].map(moment)
    }

    /// The last boundary that is not later than `at`. Like everything below in microseconds since the epoch, which may
    /// lie before it.
    fn start(&self, at: i64) -> i64 {
        match self.unit {
            Unit::Minute => self.clock_start(at, MINUTE),
            Unit::Hour => self.clock_start(at, 60 * MINUTE),
            Unit::Day | Unit::Week | Unit::Month => {
                let mut start = self.first_instant(self.begun(self.date(at)));
                // Clocks that went back over midnight show the day before again.
                loop {
                    let next = self.end(start);
                    if next <= start || next > at {
                        return start;
                    }
                    start = next;
                }
            }
        }
    }

    /// The first boundary after the boundary `start`.
    fn end(&self, start: i64) -> i64 {
        match self.unit {
            Unit::Minute => self.clock_end(start, MINUTE),
            Unit::Hour => self.clock_end(start, 60 * MINUTE),
            Unit::Day | Unit::Week | Unit::Month => {
                let mut date = self.begun(self.date(start));
                // A day that the clocks left out has no instant of its own.
                for _ in 0..4 {
                    date = self.following(date);
                    let end = self.first_instant(date);
                    if end > start {
                        return end;
                    }
                }
                start
            }
        }
    }
}

/// Days, weeks and months.
impl Calendar {
    fn date(&self, at: i64) -> Date {
        self.zone.to_datetime(instant(at)).date()
    }

    /// The first day of the unit that `date` is in.
    fn begun(&self, date: Date) -> Date {
        match self.unit {
            Unit::Week => {
                let since = date.weekday().since(Weekday::Monday);
                date.checked_sub(jiff::Span::new().days(since))
                    .unwrap_or(date)
            }
            Unit::Month => date.first_of_month(),
            Unit::Minute | Unit::Hour | Unit::Day => date,
        }
    }

    /// The first day of the unit after the one that begins on `date`.
    fn following(&self, date: Date) -> Date {
        let unit = match self.unit {
            Unit::Week => jiff::Span::new().weeks(1),
            Unit::Month => jiff::Span::new().months(1),
            Unit::Minute | Unit::Hour | Unit::Day => jiff::Span::new().days(1),
        };
        date.checked_add(unit).unwrap_or(date)
    }

    /// The first instant at which the clocks show the midnight of `date` or later.
    fn first_instant(&self, date: Date) -> i64 {
        let midnight = DateTime::from_parts(date, jiff::civil::Time::midnight());
        let at = |offset: jiff::tz::Offset| {
            let at = offset.to_timestamp(midnight);
            at.unwrap_or(jiff::Timestamp::MAX)
        };
        match self.zone.to_ambiguous_timestamp(midnight).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            AmbiguousOffset::Fold { before, .. } => at(before),
            AmbiguousOffset::Gap { before, .. } => {
                // The clocks jumped over it: by the old offset it would have been after the jump, or just then.
                let until = at(before).saturating_add(jiff::SignedDuration::from_micros(1));
                let jump = until
                    .ok()
                    .and_then(|until| self.zone.preceding(until).next());
                jump.map_or_else(|| at(before), |jump| jump.timestamp())
            }
        }
        .as_microsecond()
    }
}

const MINUTE: i64 = 60_000_000;

/// Minutes and hours of `length`, which run by the clocks between two changes of them.
impl Calendar {
    fn clock_start(&self, at: i64, length: i64) -> i64 {
        let mut at = at;
        loop {
            let start = at - self.local(at).rem_euclid(length);
            let Some(change) = self.change_before(at).filter(|change| *change > start) else {
                return start;
            };
            if self.begins_at_change(change, length) {
                return change;
            }
            at = change - 1;
        }
    }

    fn clock_end(&self, start: i64, length: i64) -> i64 {
        let mut at = start;
        loop {
            let end = at - self.local(at).rem_euclid(length) + length;
            let Some(change) = self.change_after(at).filter(|change| *change <= end) else {
                return end;
            };
            if self.begins_at_change(change, length) {
                return change;
            }
            at = change;
        }
    }

    /// Whether a change of the clocks begins a window: they show a full one, or another than before.
    fn begins_at_change(&self, change: i64, length: i64) -> bool {
        let (before, after) = (self.local(change - 1), self.local(change));
        after.rem_euclid(length) == 0 || before.div_euclid(length) != after.div_euclid(length)
    }

    /// What the clocks show at `at`.
    fn local(&self, at: i64) -> i64 {
        let offset = self.zone.to_offset(instant(at)).seconds();
        at.saturating_add(i64::from(offset) * 1_000_000)
    }

    /// The last change of the clocks that is not later than `at`.
    fn change_before(&self, at: i64) -> Option<i64> {
        let changes = self.zone.preceding(instant(at.saturating_add(1)));
        let mut changes = changes.map(|change| change.timestamp().as_microsecond());
        changes.find(|change| self.changes(*change))
    }

    fn change_after(&self, at: i64) -> Option<i64> {
        let changes = self.zone.following(instant(at));
        let mut changes = changes.map(|change| change.timestamp().as_microsecond());
        changes.find(|change| self.changes(*change))
    }

    /// Whether the clocks are set anew; a change may also be only of a name.
    fn changes(&self, at: i64) -> bool {
        self.zone.to_offset(instant(at)) != self.zone.to_offset(instant(at - 1))
    }
}

fn instant(micros: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_microsecond(micros).unwrap_or(jiff::Timestamp::MAX)
}

/// Nothing is counted before the epoch.
fn moment(micros: i64) -> Timestamp {
    Timestamp::from_micros(u64::try_from(micros).unwrap_or(0))
}

impl PartialEq for Calendar {
    fn eq(&self, other: &Self) -> bool {
        (self.unit, &self.name) == (other.unit, &other.name)
    }
}

impl Eq for Calendar {}

#[cfg(test)]
mod tests;
