//! Amounts within the windows of a calendar.

use std::sync::Arc;
use std::time::Duration;

use super::super::decode::At;
use super::super::file::{Algorithm, LimitDecl};
use super::super::report::Findings;
use super::super::units::{RateDecl, Within};
use crate::limit::Meter;
use crate::limit::algorithm::{CalendarWindow, InvalidMeter};
use crate::policy::Amount;
use crate::time::{Calendar, Micros};

/// No month is longer.
const LONGEST_MONTH: u64 = 31 * 86_400;

pub(super) fn is_calendar(rate: &At<RateDecl>) -> bool {
    matches!(rate.value.within, Within::Calendar(_))
}

/// The windows of a calendar are fixed: no other algorithm has them.
pub(super) fn check(decl: &LimitDecl, rates: &[At<RateDecl>], found: &mut Findings) -> bool {
    let other = decl
        .algorithm
        .as_ref()
        .filter(|algorithm| algorithm.value != Algorithm::FixedWindow);
    let Some(algorithm) = other else { return true };
    let mut whole = true;
    for rate in rates.iter().filter(|rate| is_calendar(rate)) {
        let word = algorithm.value.word();
        found
            .error(rate.span, "the windows of a calendar are fixed")
            .also(algorithm.span, format!("and this is a {word}"))
            .help("leave out `algorithm`, or make two limits of it");
        whole = false;
    }
    whole
}

/// What holds one amount; clients see it as `shown_as`.
pub(super) fn amount(
    rate: &RateDecl,
    calendar: &Arc<Calendar>,
    shown_as: &Arc<str>,
) -> Result<Amount, InvalidMeter> {
    let usual = calendar.unit().usual_seconds();
    let length = Duration::from_secs(usual.unwrap_or(LONGEST_MONTH));
    let meter = CalendarWindow::new(rate.amount, Micros::from(length))?;
    let meter = Meter::CalendarWindow(meter);
    Ok(Amount {
        meter,
        calendar: Some(Arc::clone(calendar)),
        code: Arc::from(code(calendar)),
        shown_as: Arc::clone(shown_as),
        quota: rate.amount,
        window: usual.map(Duration::from_secs),
        burst: None,
        words: Arc::from(rate.words()),
    })
}

/// Unit and zone, as they stand in a key: a change of either starts a fresh count. Names of zones consist of letters,
/// digits and `/_+-`, which mark nothing in a key.
fn code(calendar: &Calendar) -> String {
    let unit = calendar.unit().word();
    match calendar.zone() {
        Calendar::UTC => format!("cal-{unit}"),
        zone => format!("cal-{unit}-{zone}"),
    }
}
