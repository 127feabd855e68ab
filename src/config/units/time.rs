//! Spans of time: `500ms`, `10s`, `1h30m`.

use std::time::Duration;

use super::Wrong;

/// Suffix and milliseconds, from the longest.
const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];
/// The longest span: longer ones are slips.
const LONGEST: u64 = 366 * 86_400_000;

/// A span as people write it: whole numbers, each with its unit, the largest unit first.
pub(in crate::config) fn duration(text: &str) -> Result<Duration, Wrong> {
    const FORMS: &str = "write it as `500ms`, `10s`, `5m`, `1h30m` or `7d`";
    let wrong = |why: String| Err(Wrong::new(why).help(FORMS));
    if text.is_empty() {
        return wrong("a duration is missing".into());
    }
    if text.starts_with('-') {
        return wrong(format!("`{text}` is negative"));
    }
    if text.contains(char::is_whitespace) {
        let tight: String = text.split_whitespace().collect();
        return Err(match duration(&tight) {
            Ok(_) => {
                Wrong::new(format!("`{text}` has a blank in it")).help(format!("write `{tight}`"))
            }
            Err(_) => Wrong::new(format!("`{text}` is not a duration")).help(FORMS),
        });
    }
    let (mut rest, mut total, mut largest) = (text, 0_u64, u64::MAX);
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let length = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, next) = after.split_at(length);
        if number.is_empty() || unit.starts_with(['.', ',']) {
            return wrong(format!("`{text}` is not a duration"));
        }
        if unit.is_empty() {
            return Err(Wrong::new(format!("`{text}` has no unit"))
                .help(format!("write `{text}s` for seconds")));
        }
        let Some((_, millis)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(Wrong::new(format!("`{unit}` is not a unit of time"))
                .help("use ms, s, m, h, d or w"));
        };
        if *millis >= largest {
            return wrong(format!("`{text}` is not a duration"));
        }
        let span = number
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(*millis));
        total = match span.and_then(|span| total.checked_add(span)) {
            Some(total) if total <= LONGEST => total,
            Some(_) | None => {
                return Err(Wrong::new(format!("`{text}` is too long")).help("at most 366d"));
            }
        };
        (rest, largest) = (next, *millis);
    }
    Ok(Duration::from_millis(total))
}

/// A span in its largest whole unit, as `1m`, `90s`, `500ms`: for names.
pub(in crate::config) fn short(span: Duration) -> String {
    let millis = span.as_millis();
    for (unit, length) in UNITS {
        let length = u128::from(length);
        if unit != "w" && millis >= length && millis.is_multiple_of(length) {
            return format!("{}{unit}", millis / length);
        }
    }
    format!("{millis}ms")
}

/// A window after "per": `minute`, `10 minutes`.
pub(in crate::config) fn window_in_words(span: Duration) -> String {
    const WORDS: [(&str, u128); 5] = [
        ("week", 604_800_000),
        ("day", 86_400_000),
        ("hour", 3_600_000),
        ("minute", 60_000),
        ("second", 1000),
    ];
    let millis = span.as_millis();
    for (word, length) in WORDS {
        match millis / length {
            0 => {}
            1 if millis == length => return word.to_owned(),
            count if millis.is_multiple_of(length) => return format!("{count} {word}s"),
            _ => {}
        }
    }
    format!("{millis} ms")
}

/// A span as people say it: `1 minute`, `10 minutes`.
pub(in crate::config) fn span_in_words(span: Duration) -> String {
    let words = window_in_words(span);
    if words.starts_with(|c: char| c.is_ascii_digit()) {
        words
    } else {
        format!("1 {words}")
    }
}

/// A span for reading, cut to what matters: `600 ms`, `1.5 s`, `72 s`, `2 h`.
pub(in crate::config) fn in_words(micros: u64) -> String {
    const STEPS: [(&str, u64); 5] = [
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1000),
    ];
    for (unit, length) in STEPS {
        let whole = micros / length;
        let exact = micros.is_multiple_of(length);
        if (exact && whole > 0 && (whole < 120 || unit == "d" || unit == "ms"))
            || (whole >= 10 && unit != "min")
        {
            return format!("{whole} {unit}");
        }
        if whole > 0 && matches!(unit, "s" | "ms") {
            let tenths = micros / (length / 10);
            let point = if tenths.is_multiple_of(10) {
                String::new()
            } else {
                format!(".{}", tenths % 10)
            };
            return format!("{}{point} {unit}", tenths / 10);
        }
    }
    format!("{micros} us")
}
