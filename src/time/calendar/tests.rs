use jiff::ToSpan;
use proptest::prelude::*;

use super::*;

fn at(text: &str) -> Timestamp {
    let at: jiff::Timestamp = text.parse().unwrap();
    moment(at.as_microsecond())
}

/// Start and end of the window around `now`, as UTC without seconds.
fn window(unit: Unit, zone: &str, now: &str) -> (String, String) {
    let [_, start, end, _] = Calendar::new(unit, zone).unwrap().around(at(now));
    let text = |moment: Timestamp| {
        let at = instant(i64::try_from(moment.as_micros()).unwrap());
        at.to_string().replace(":00Z", "Z")
    };
    (text(start), text(end))
}

#[track_caller]
fn assert_window(unit: Unit, zone: &str, now: &str, start: &str, end: &str) {
    let expected = (start.to_owned(), end.to_owned());
    assert_eq!(window(unit, zone, now), expected, "{zone} at {now}");
}

#[test]
fn a_day_goes_from_midnight_to_midnight_whatever_the_clocks_do() {
    for (zone, now, start, end) in [
        (
            "UTC",
            "2026-12-01T12:00:00Z",
            "2026-12-01T00:00Z",
            "2026-12-02T00:00Z",
        ),
        (
            "Europe/Paris",
            "2026-12-01T12:00:00Z",
            "2026-11-30T23:00Z",
            "2026-12-01T23:00Z",
        ),
        // 23 and 25 hours.
        (
            "Europe/Paris",
            "2026-03-29T12:00:00Z",
            "2026-03-28T23:00Z",
            "2026-03-29T22:00Z",
        ),
        (
            "Europe/Paris",
            "2026-10-25T12:00:00Z",
            "2026-10-24T22:00Z",
            "2026-10-25T23:00Z",
        ),
        // No midnight: the day begins with the clocks' 01:00.
        (
            "America/Sao_Paulo",
            "2018-11-04T12:00:00Z",
            "2018-11-04T03:00Z",
            "2018-11-05T02:00Z",
        ),
        (
            "Africa/Cairo",
            "2023-04-28T12:00:00Z",
            "2023-04-27T22:00Z",
            "2023-04-28T21:00Z",
        ),
        (
            "Asia/Beirut",
            "2022-03-27T12:00:00Z",
            "2022-03-26T22:00Z",
            "2022-03-27T21:00Z",
        ),
    ] {
        assert_window(Unit::Day, zone, now, start, end);
    }
}

#[test]
fn a_day_that_clocks_show_twice_or_not_at_all_has_one_beginning() {
    for (zone, now, start, end) in [
        // Its last hour twice; midnight twice; the day before shown again after midnight.
        (
            "America/Sao_Paulo",
            "2018-02-18T02:30:00Z",
            "2018-02-17T02:00Z",
            "2018-02-18T03:00Z",
        ),
        (
            "America/Havana",
            "2022-11-06T05:30:00Z",
            "2022-11-06T04:00Z",
            "2022-11-07T05:00Z",
        ),
        (
            "America/St_Johns",
            "2006-10-29T02:45:00Z",
            "2006-10-29T02:30Z",
            "2006-10-30T03:30Z",
        ),
        // 30 December 2011 never was.
        (
            "Pacific/Apia",
            "2011-12-30T09:59:59Z",
            "2011-12-29T10:00Z",
            "2011-12-30T10:00Z",
        ),
        (
            "Pacific/Apia",
            "2011-12-30T10:00:00Z",
            "2011-12-30T10:00Z",
            "2011-12-31T10:00Z",
        ),
    ] {
        assert_window(Unit::Day, zone, now, start, end);
    }
}

#[test]
fn hours_and_minutes_run_by_the_clocks_of_the_zone() {
    for (zone, now, start, end) in [
        (
            "Asia/Kolkata",
            "2026-12-01T03:31:00Z",
            "2026-12-01T03:30Z",
            "2026-12-01T04:30Z",
        ),
        // An hour that is repeated is two.
        (
            "Europe/Paris",
            "2026-10-25T00:30:00Z",
            "2026-10-25T00:00Z",
            "2026-10-25T01:00Z",
        ),
        (
            "Europe/Paris",
            "2026-10-25T01:30:00Z",
            "2026-10-25T01:00Z",
            "2026-10-25T02:00Z",
        ),
        (
            "Europe/Paris",
            "2026-03-29T00:59:59Z",
            "2026-03-29T00:00Z",
            "2026-03-29T01:00Z",
        ),
        // Back by half an hour: an hour and a half. Forward: half an hour.
        (
            "Australia/Lord_Howe",
            "2026-04-04T14:59:00Z",
            "2026-04-04T14:00Z",
            "2026-04-04T15:30Z",
        ),
        (
            "Australia/Lord_Howe",
            "2026-04-04T15:29:00Z",
            "2026-04-04T14:00Z",
            "2026-04-04T15:30Z",
        ),
        (
            "Australia/Lord_Howe",
            "2026-10-03T15:29:00Z",
            "2026-10-03T14:30Z",
            "2026-10-03T15:30Z",
        ),
        (
            "Australia/Lord_Howe",
            "2026-10-03T15:30:00Z",
            "2026-10-03T15:30Z",
            "2026-10-03T16:00Z",
        ),
    ] {
        assert_window(Unit::Hour, zone, now, start, end);
    }
    let (start, end) = ("2026-12-01T03:31Z", "2026-12-01T03:32Z");
    assert_window(
        Unit::Minute,
        "Asia/Kolkata",
        "2026-12-01T03:31:59Z",
        start,
        end,
    );
}

#[test]
fn weeks_begin_on_monday_and_months_on_the_first() {
    for (unit, now, start, end) in [
        (
            Unit::Week,
            "2026-12-01T12:00:00Z",
            "2026-11-29T23:00Z",
            "2026-12-06T23:00Z",
        ),
        (
            Unit::Week,
            "2026-11-29T22:59:59Z",
            "2026-11-22T23:00Z",
            "2026-11-29T23:00Z",
        ),
        (
            Unit::Month,
            "2026-12-01T12:00:00Z",
            "2026-11-30T23:00Z",
            "2026-12-31T23:00Z",
        ),
        (
            Unit::Month,
            "2028-02-29T12:00:00Z",
            "2028-01-31T23:00Z",
            "2028-02-29T23:00Z",
        ),
        (
            Unit::Month,
            "2026-03-31T21:59:59Z",
            "2026-02-28T23:00Z",
            "2026-03-31T22:00Z",
        ),
    ] {
        assert_window(unit, "Europe/Paris", now, start, end);
    }
}

#[test]
fn a_zone_is_found_in_any_case_and_spelled_as_the_database_does() {
    assert_eq!(
        Calendar::new(Unit::Day, "europe/PARIS").unwrap().zone(),
        "Europe/Paris"
    );
    assert_eq!(Calendar::new(Unit::Day, "UTC").unwrap().zone(), "UTC");
    assert_eq!(Calendar::new(Unit::Day, "Europe/Pairs"), Err(UnknownZone));
    assert!(Calendar::zones().iter().any(|zone| zone == "Europe/Paris"));
}

#[test]
fn ends_of_time_are_answered() {
    for (_, unit) in Unit::WORDS {
        let calendar = Calendar::new(unit, "Asia/Kolkata").unwrap();
        for now in [0, 1, crate::time::EXACT - 1, crate::time::EXACT] {
            let [before, start, end, after] = calendar.around(Timestamp::from_micros(now));
            assert!(before <= start && start <= end && end <= after);
        }
    }
}

proptest! {
    #[test]
    fn boundaries_ascend_and_hold_the_moment_between_them(
        zone: prop::sample::Index,
        unit in prop::sample::select(Unit::WORDS.map(|(_, unit)| unit).to_vec()),
        // From 1970 to 2200, near a change of the clocks or anywhere.
        now in 6_000_000_000_000_u64..7_258_000_000_000_000,
        near: bool,
        off in -100_000_000_000_i64..100_000_000_000,
    ) {
        let zones = Calendar::zones();
        let zone: &String = zone.get(&zones);
        let calendar = Calendar::new(unit, zone).unwrap();
        let mut now = now;
        if near
            && let Some(change) = calendar.change_before(i64::try_from(now).unwrap())
            && change > 6_000_000_000_000
        {
            now = u64::try_from(change + off).unwrap();
        }
        let now = Timestamp::from_micros(now);
        let [before, start, end, after] = calendar.around(now);
        prop_assert!(before < start && start <= now && now < end && end < after);
        // Every moment of a window finds the same one.
        let last = Timestamp::from_micros(end.as_micros() - 1);
        prop_assert_eq!(calendar.find(start), [before, start, end, after]);
        prop_assert_eq!(calendar.find(last), [before, start, end, after]);
        let [one, two, three, _] = calendar.around(end);
        prop_assert_eq!([one, two, three], [start, end, after]);
        // No longer than its unit can be.
        let longest = match unit {
            Unit::Minute => 3.minutes(),
            Unit::Hour => 3.hours(),
            Unit::Day => 50.hours(),
            Unit::Week => (8 * 24).hours(),
            Unit::Month => (33 * 24).hours(),
        };
        let longest = jiff::SignedDuration::try_from(longest).unwrap();
        prop_assert!(i128::from(end.since(start).get()) <= longest.as_micros());
    }
}
