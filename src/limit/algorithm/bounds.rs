//! What every algorithm asks of its amounts, so that each number stays exact.

use std::time::Duration;

use super::InvalidMeter;
use crate::time::Micros;

/// The longest window, about 35 years: a moment of this century and two windows stay below 2^53.
const LONGEST_WINDOW: Micros = Micros::new(1 << 50);

/// That `amount` is at least 1 and at most `most`.
pub(super) fn amount(amount: u64, most: u64) -> Result<(), InvalidMeter> {
    if amount == 0 {
        return Err(InvalidMeter(
            "an amount of 0 would never let anything pass: it is at least 1".to_owned(),
        ));
    }
    if amount > most {
        let text = format!(
            "an amount of {amount} is too large to be counted exactly: at most {most} fits"
        );
        return Err(InvalidMeter(text));
    }
    Ok(())
}

/// That `window` is at least `least` and not too long.
pub(super) fn window(window: Micros, least: Micros) -> Result<(), InvalidMeter> {
    if window < least {
        let text = format!(
            "a window of {} is too short: it is at least {}",
            words(window),
            words(least)
        );
        return Err(InvalidMeter(text));
    }
    if window > LONGEST_WINDOW {
        let text = format!(
            "a window of {} is too long to be counted exactly: at most 35 years fit",
            words(window)
        );
        return Err(InvalidMeter(text));
    }
    Ok(())
}

/// A span as people write it: `1h 30m`.
pub(super) fn words(span: Micros) -> String {
    humantime::format_duration(Duration::from(span)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_which_number_is_wrong_and_what_fits() {
        let text = |result: Result<(), InvalidMeter>| result.unwrap_err().to_string();
        assert!(text(amount(0, 5)).contains("at least 1"));
        assert!(
            text(amount(10_001, 10_000))
                .contains("10001 is too large to be counted exactly: at most 10000 fits")
        );
        assert!(
            text(window(Micros::new(9_000), Micros::new(10_000)))
                .contains("9ms is too short: it is at least 10ms")
        );
        assert!(text(window(Micros::new(1 << 51), Micros::new(1))).contains("at most 35 years"));
        assert_eq!(window(Micros::SECOND, Micros::new(1)), Ok(()));
    }
}
