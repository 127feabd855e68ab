//! The two traps of YAML that everybody falls into: a comma in flow style, and a value that YAML cannot start with.

use super::mask::Masked;
use super::nearest::nearest;

/// The methods that people write.
pub(super) const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE",
];

/// What is said where a comma cut a value in two.
pub(super) const COMMA: &str = "the comma ended the value: quote it, or write one item per line";

/// Whether `text` is what a comma leaves of a value: it begins with `burst`, `at most` or `in`, or is a bare status or
/// method.
pub(super) fn cut_by_comma(text: &str) -> bool {
    let text = text.trim();
    let status = matches!(
        text.as_bytes(),
        [b'1'..=b'5', b'0'..=b'9', b'0'..=b'9'] | [b'1'..=b'5', b'x', b'x']
    );
    status
        || METHODS.contains(&text)
        || ["burst ", "at most ", "in "]
            .iter()
            .any(|start| text.starts_with(start))
}

/// For a value around `at` that YAML cannot read, the same line with the value in quotes.
pub(super) fn unquoted(text: &str, at: usize) -> Option<String> {
    let from = text
        .get(..at)?
        .rfind('\n')
        .map_or(0, |end| end.saturating_add(1));
    let line = text.get(from..)?.lines().next()?;
    let line = Masked::new(line, []).into_text();
    quoted_line(&line).map(|line| format!("quote it: `{line}`"))
}

fn quoted_line(line: &str) -> Option<String> {
    let line = line.split(" #").next()?.trim();
    let start = match line.find(": ") {
        Some(colon) if !line.starts_with(['[', '{', '"']) => colon.saturating_add(2),
        _ if line.starts_with("- ") => 2,
        _ => return None,
    };
    let (before, value) = line.split_at_checked(start)?;
    let (dash, value) = match value.trim().strip_prefix("- ") {
        Some(rest) => ("- ", rest.trim()),
        None => ("", value.trim()),
    };
    if value.contains('"') {
        return None;
    }
    let inner = value
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    match inner {
        Some(inner) if !inner.contains(['[', ']']) => {
            let items: Vec<String> = inner
                .split(',')
                .map(|item| quoted_item(item.trim()))
                .collect();
            Some(format!("{before}{dash}[{}]", items.join(", ")))
        }
        _ if value.starts_with([
            '*', '[', '{', '&', '!', '@', '`', '%', '|', '>', '?', '-', ',', ']', '}',
        ]) || value.contains(": ") =>
        {
            Some(format!("{before}{dash}\"{value}\""))
        }
        _ => None,
    }
}

fn quoted_item(item: &str) -> String {
    let risky = item.starts_with(['*', '&', '!', '@', '`', '%', ':'])
        || item.contains(['{', '}', '[', ']']);
    if risky {
        format!("\"{item}\"")
    } else {
        item.to_owned()
    }
}

/// The method that was meant by a word that is none of the usual ones.
pub(super) fn meant_method(word: &str) -> Option<&'static str> {
    nearest(word, METHODS).filter(|method| *method != word)
}

#[cfg(test)]
mod tests {
    use super::{cut_by_comma, quoted_line};

    #[test]
    fn what_a_comma_leaves_is_recognised() {
        for text in [
            "burst 20",
            "at most 10",
            "in Europe/Paris",
            "403",
            "5xx",
            "POST",
        ] {
            assert!(cut_by_comma(text), "{text}");
        }
        for text in ["10 per second", "burst", "/x", "GET /x", "4030", "inside"] {
            assert!(!cut_by_comma(text), "{text}");
        }
    }

    #[test]
    fn the_quoted_line_is_shown() {
        assert_eq!(
            quoted_line("  when: *.jpg").as_deref(),
            Some("when: \"*.jpg\"")
        );
        assert_eq!(
            quoted_line("listen: [::]:8080").as_deref(),
            Some("listen: \"[::]:8080\"")
        );
        assert_eq!(
            quoted_line("when: [/users/{id}, /x]").as_deref(),
            Some("when: [\"/users/{id}\", /x]")
        );
        assert_eq!(quoted_line("- {a").as_deref(), Some("- \"{a\""));
        assert_eq!(quoted_line("nothing").as_deref(), None);
    }
}
