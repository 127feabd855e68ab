//! Amounts: `100 per minute, burst 20`, `5 per 10 minutes`, `10/s`, `1000 per calendar day`, `20 concurrent`, `unlimited`.

mod calendar;

use std::sync::Arc;
use std::time::Duration;

use super::{Wrong, number, window_in_words};
use crate::config::nearest::nearest;
use crate::config::trap;
use crate::time::Calendar;

/// An amount as it was written.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) enum Rate {
    /// No limit at all.
    Unlimited,
    /// So much.
    Limited(RateDecl),
}

/// So much, within what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) struct RateDecl {
    /// At least 1.
    pub(in crate::config) amount: u64,
    pub(in crate::config) within: Within,
}

/// What an amount holds within.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) enum Within {
    /// A window of this length, more than zero.
    Window {
        length: Duration,
        /// The most that passes at once, where it is said; at least 1.
        burst: Option<u64>,
    },
    /// From one boundary of a calendar to the next.
    Calendar(Arc<Calendar>),
    /// No time: so much at once.
    Concurrent,
}

impl RateDecl {
    /// The most that passes at once, where it is said.
    pub(in crate::config) fn burst(&self) -> Option<u64> {
        match self.within {
            Within::Window { burst, .. } => burst,
            Within::Calendar(_) | Within::Concurrent => None,
        }
    }

    /// `100 per minute`.
    pub(in crate::config) fn words(&self) -> String {
        let amount = self.amount;
        match &self.within {
            Within::Window { length, .. } => format!("{amount} per {}", window_in_words(*length)),
            Within::Calendar(calendar) => {
                let unit = calendar.unit().word();
                match calendar.zone() {
                    Calendar::UTC => format!("{amount} per calendar {unit}"),
                    zone => format!("{amount} per calendar {unit} in {zone}"),
                }
            }
            Within::Concurrent => format!("{amount} at once"),
        }
    }
}

const FORMS: &str = "write `100 per minute`, `5 per 10 minutes`, `10/s`, `100 per minute, burst 20`, `1000 per calendar day`, `20 concurrent` or `unlimited`";
const UNITS: [(&str, u64); 5] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
    ("week", 604_800),
];
const SHORT: [(&str, u64); 4] = [("s", 1), ("min", 60), ("h", 3600), ("d", 86_400)];

/// Reads an amount.
pub(in crate::config) fn rate(text: &str) -> Result<Rate, Wrong> {
    let text = text.trim();
    if text == "unlimited" {
        return Ok(Rate::Unlimited);
    }
    if trap::cut_by_comma(text) {
        return Err(Wrong::new(trap::COMMA));
    }
    let mut parts = text.split(',').map(str::trim);
    let mut rate = per(parts.next().unwrap_or_default())?;
    for part in parts {
        let words: Vec<&str> = part.split_whitespace().collect();
        match words.as_slice() {
            ["burst", size] => match &mut rate.within {
                Within::Window { burst, .. } if burst.is_none() => {
                    *burst = Some(at_least_one(size, "a burst")?);
                }
                Within::Window { .. } => return Err(Wrong::new("the burst is given twice")),
                Within::Calendar(_) => return Err(calendar::burst()),
                Within::Concurrent => {
                    return Err(Wrong::new("what is at once has no burst")
                        .help("the amount itself is the most at once: leave out `burst`"));
                }
            },
            [first, ..] => {
                let meant = nearest(first, ["burst"]).filter(|word| word != first);
                return Err(
                    Wrong::new(format!("`{part}` has no meaning after an amount"))
                        .help("what may follow is `, burst N`; several amounts are a list")
                        .meant(meant),
                );
            }
            [] => {
                return Err(Wrong::new("a comma with nothing after it")
                    .help("what may follow is `, burst N`"));
            }
        }
    }
    Ok(Rate::Limited(rate))
}

/// A number of at least 1; `what` it is, for the message.
pub(in crate::config) fn at_least_one(text: &str, what: &str) -> Result<u64, Wrong> {
    match number(text)? {
        0 => {
            Err(Wrong::new(format!("{what} of 0 would let nothing pass")).help("it is at least 1"))
        }
        number => Ok(number),
    }
}

/// The part before the first comma.
fn per(text: &str) -> Result<RateDecl, Wrong> {
    let so_much = |amount: &str, count: &str, unit: &str, units: &[(&str, u64)]| {
        let amount = at_least_one(amount, "an amount")?;
        let length = window(at_least_one(count, "a window")?, unit, units)?;
        let within = Within::Window {
            length,
            burst: None,
        };
        Ok(RateDecl { amount, within })
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    match words.as_slice() {
        [short] if short.contains('/') => {
            let (amount, unit) = short.split_once('/').unwrap_or_default();
            so_much(amount, "1", unit, &SHORT)
        }
        [amount, "concurrent"] => Ok(RateDecl {
            amount: at_least_one(amount, "an amount")?,
            within: Within::Concurrent,
        }),
        [amount, "per", "calendar", window @ ..] => {
            let amount = at_least_one(amount, "an amount")?;
            let within = Within::Calendar(Arc::new(calendar::window(window)?));
            Ok(RateDecl { amount, within })
        }
        [amount, "per", unit] => so_much(amount, "1", unit, &UNITS),
        [amount, "per", count, unit] => so_much(amount, count, unit, &UNITS),
        [] => Err(Wrong::new("an amount is missing").help(FORMS)),
        [only] => {
            at_least_one(only, "an amount").map_err(|wrong| wrong.or_forms(only))?;
            Err(Wrong::new(format!("`{only}` says no window"))
                .help(format!("write `{only} per minute`, for example")))
        }
        [_, word] => Err(Wrong::new(format!("`{text}` is not an amount"))
            .help(FORMS)
            .meant(nearest(word, ["concurrent"]))),
        _ => Err(Wrong::new(format!("`{text}` is not an amount")).help(FORMS)),
    }
}

impl Wrong {
    /// A number that is wrong stays a wrong number; a word is no amount.
    fn or_forms(self, text: &str) -> Self {
        match nearest(text, ["unlimited"]) {
            Some(word) => Self::new(format!("`{text}` is not an amount")).meant(Some(word)),
            None if text.parse::<f64>().is_ok() => self,
            None => Self::new(format!("`{text}` is not an amount")).help(FORMS),
        }
    }
}

/// `count` of a unit in its long word.
pub(super) fn long_window(count: u64, unit: &str) -> Result<Duration, Wrong> {
    window(count, unit, &UNITS)
}

/// `count` of the unit, in the long words (`minutes`) or the short.
fn window(count: u64, unit: &str, units: &[(&str, u64)]) -> Result<Duration, Wrong> {
    let one = unit
        .strip_suffix('s')
        .filter(|one| !one.is_empty())
        .unwrap_or(unit);
    if one == "month" {
        return Err(Wrong::new("a month has no fixed length")
            .help("write `per calendar month`: from the first of one to the first of the next"));
    }
    let Some((_, seconds)) = units.iter().find(|(name, _)| *name == unit || *name == one) else {
        let known = units.iter().map(|(name, _)| *name);
        let list: Vec<&str> = known.clone().collect();
        return Err(Wrong::new(format!("`{unit}` is not a unit of time"))
            .help(format!("use {}", list.join(", ")))
            .meant(nearest(one, known)));
    };
    match count.checked_mul(*seconds) {
        Some(seconds) if seconds <= 366 * 86_400 => Ok(Duration::from_secs(seconds)),
        Some(_) | None => Err(
            Wrong::new(format!("a window of {count} {unit} is too long")).help("at most 366 days"),
        ),
    }
}
