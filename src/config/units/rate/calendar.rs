//! The windows of a calendar: `day in Europe/Paris`.

use super::super::Wrong;
use crate::config::nearest::nearest;
use crate::time::{Calendar, Unit};

const FORM: &str = "write `1000 per calendar day` or `1000 per calendar day in Europe/Paris`";

/// Reads what stands after `calendar`.
pub(super) fn window(words: &[&str]) -> Result<Calendar, Wrong> {
    let (unit, zone) = match words {
        [unit] => (*unit, Calendar::UTC),
        [unit, "in", zone] => (*unit, *zone),
        [count, unit] | [count, unit, "in", _] if count.bytes().all(|b| b.is_ascii_digit()) => {
            return Err(
                Wrong::new(format!("a calendar has no window of {count} {unit}"))
                    .help("one minute, hour, day, week or month is a window"),
            );
        }
        _ => return Err(Wrong::new("this is not a window of a calendar").help(FORM)),
    };
    let known = || Unit::WORDS.iter().map(|(word, _)| *word);
    let Some((_, unit)) = Unit::WORDS.iter().find(|(word, _)| *word == unit) else {
        return Err(Wrong::new(format!("`{unit}` is not a unit of a calendar"))
            .help(format!("use {}", known().collect::<Vec<_>>().join(", ")))
            .meant(nearest(unit, known())));
    };
    Calendar::new(*unit, zone).map_err(|_unknown| {
        let zones = Calendar::zones();
        Wrong::new(format!("`{zone}` is not a time zone"))
            .help("use a name of the IANA time zone database, as `Europe/Paris`")
            .meant(meant(zone, &zones))
    })
}

/// The zone of this city, else the one that is spelled most alike.
fn meant<'z>(typed: &str, zones: &'z [String]) -> Option<&'z str> {
    let city = |zone: &&String| {
        let (_, city) = zone.rsplit_once('/').unwrap_or_default();
        city.eq_ignore_ascii_case(typed)
    };
    let known = || zones.iter().map(String::as_str);
    let of_city = zones.iter().find(city).map(String::as_str);
    of_city.or_else(|| nearest(typed, known()))
}

/// A window of a calendar is opened whole.
pub(super) fn burst() -> Wrong {
    Wrong::new("a window of a calendar has no burst").help(
        "its whole amount may pass at once; to spread it, add a second amount, as `10 per second`",
    )
}
