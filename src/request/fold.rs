//! Folding: what a lenient API may take for the same text, brought to one spelling.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// A decoded segment of a path without its `;parameters` and without blanks around it.
pub(crate) fn bare_segment(decoded: &str) -> &str {
    decoded.split(';').next().unwrap_or_default().trim()
}

/// A decoded segment of a path as the wide reading has it: bare, lower-cased, without dots and blanks at its end
/// (which Windows strips from file names). Empty when nothing else is left.
pub(crate) fn fold_segment(decoded: &str) -> Cow<'_, str> {
    let text =
        bare_segment(decoded).trim_end_matches(|end: char| end == '.' || end.is_whitespace());
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
    }
    // Both ways: a reader that compares upper-case takes the long s for an s, one that compares lower-case the Kelvin
    // sign for a k.
    Cow::Owned(
        text.chars()
            .flat_map(char::to_uppercase)
            .flat_map(char::to_lowercase)
            .collect(),
    )
}

/// A segment of a path as it was sent, decoded once and folded; where nothing would be left, only decoded and lower-cased.
pub(crate) fn fold_value(sent: &str) -> Cow<'_, str> {
    match percent_decode_str(sent).decode_utf8_lossy() {
        Cow::Borrowed(text) => match fold_segment(text) {
            folded if folded.is_empty() => Cow::Owned(text.to_lowercase()),
            folded => folded,
        },
        Cow::Owned(text) => match fold_segment(&text) {
            folded if folded.is_empty() => Cow::Owned(text.to_lowercase()),
            folded => Cow::Owned(folded.into_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lenient_spellings_fold_into_one() {
        for sent in [
            "bob",
            "BOB",
            "b%6fb",
            "bob;v=1",
            "bob.",
            "bob%20",
            "%20bob..%20.",
            "Bob%3Bx",
        ] {
            assert_eq!(fold_value(sent), "bob", "{sent}");
        }
        assert_eq!(fold_value("%E2%84%AA%C5%BF"), "ks");
        assert_eq!(fold_value("%2562"), "%62", "decoded once");
        assert_eq!(fold_value("..."), "...", "never nothing");
        assert_eq!(fold_value(";A=1"), ";a=1");
        assert_eq!(fold_value("a%2Fb"), "a/b");
    }
}
