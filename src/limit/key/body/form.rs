//! `application/x-www-form-urlencoded`.

use super::super::read::{Reading, form_decoded, split_pair};
use super::{same, value};
use crate::request::Extent;

/// The one value of `name`. The last pair does not count where the cut may have shortened it.
pub(super) fn find(name: &str, text: &[u8], extent: Extent) -> Reading<'static> {
    let complete = match extent {
        Extent::Whole => text,
        Extent::Cut => {
            let end = text.iter().rposition(|byte| ends_pair(*byte));
            end.and_then(|end| text.get(..end)).unwrap_or_default()
        }
    };
    let pairs = complete.split(|byte| ends_pair(*byte)).map(split_pair);
    let mut named = pairs.filter(|(known, _)| is(known, name));
    match (named.next(), named.next()) {
        (None, _) => Reading::Missing,
        (Some(_), Some(_)) => Reading::Twice,
        (Some((_, found)), None) => {
            let decoded = form_decoded(found.unwrap_or_default());
            std::str::from_utf8(&decoded).map_or(Reading::Missing, value)
        }
    }
}

/// No form sends a raw `;`, and some servers take it for `&`.
const fn ends_pair(byte: u8) -> bool {
    matches!(byte, b'&' | b';')
}

/// Whether some server takes `sent` for `name`: to PHP a name ends at a NUL, does not begin with a blank, and has `_` for
/// blanks and dots.
fn is(sent: &[u8], name: &str) -> bool {
    let decoded = form_decoded(sent);
    let known = decoded.split(|byte| *byte == 0).next().unwrap_or_default();
    let Ok(known) = std::str::from_utf8(known) else {
        return false;
    };
    let plain = |letter: char| match letter {
        '.' | ' ' => '_',
        letter => letter,
    };
    let name: String = name.chars().map(plain).collect();
    same(known.trim_start_matches(' ').chars().map(plain), &name)
}
