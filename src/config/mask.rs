//! A text in which secrets are hidden, for showing its lines.

use std::ops::Range;

/// What stands for a secret.
const MASK: &str = "***";
/// Fields whose values are secret.
const FIELDS: [&str; 4] = ["password", "secret", "token", "username"];

/// A text without its secrets, and where its other parts went.
pub(super) struct Masked {
    text: String,
    /// In order, apart from each other.
    hidden: Vec<Range<usize>>,
    /// How many bytes were removed up to the end of each.
    removed: Vec<usize>,
}

impl Masked {
    /// Hides `secrets`, and whatever looks like one: what a report shows may not even be YAML.
    pub(super) fn new(text: &str, secrets: impl IntoIterator<Item = Range<usize>>) -> Self {
        let mut found: Vec<Range<usize>> = secrets
            .into_iter()
            .filter(|range| worth_hiding(text, range))
            .collect();
        found.extend(user_info(text));
        found.extend(FIELDS.iter().flat_map(|field| values(text, field)));
        found.sort_by_key(|range| range.start);
        let mut hidden: Vec<Range<usize>> = Vec::new();
        for range in found {
            match hidden.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => hidden.push(range),
            }
        }
        let mut masked = String::with_capacity(text.len());
        let mut at = 0;
        for range in &hidden {
            masked.push_str(text.get(at..range.start).unwrap_or_default());
            masked.push_str(MASK);
            at = range.end;
        }
        masked.push_str(text.get(at..).unwrap_or_default());
        Self {
            text: masked,
            removed: hidden
                .iter()
                .scan(0_usize, |sum, range| {
                    *sum = sum.saturating_add(range.len());
                    Some(*sum)
                })
                .collect(),
            hidden,
        }
    }

    /// Where the byte at `offset` of the text went.
    pub(super) fn place(&self, offset: usize) -> usize {
        let before = self.hidden.partition_point(|range| range.end <= offset);
        let removed = match before.checked_sub(1) {
            Some(last) => self.removed.get(last).copied().unwrap_or_default(),
            None => 0,
        };
        let own = match self.hidden.get(before) {
            Some(range) if offset > range.start => range.start.saturating_add(MASK.len()),
            Some(_) | None => offset,
        };
        own.saturating_add(before.saturating_mul(MASK.len()))
            .saturating_sub(removed)
    }

    /// The text.
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

/// Text for a message, without what stands before the `@` of an address.
pub(super) fn shown(text: &str) -> String {
    Masked::new(text, user_info(text)).into_text()
}

/// Names of variables and files are no secrets, and help to find what is wrong.
fn worth_hiding(text: &str, range: &Range<usize>) -> bool {
    let value = text
        .get(range.clone())
        .unwrap_or_default()
        .trim_matches(['"', '\'']);
    !(value.is_empty() || value.starts_with("file:") || is_variable(value))
}

fn is_variable(value: &str) -> bool {
    value
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| !name.contains([':', '}']))
}

/// What stands between `://` and the last `@` of a word.
fn user_info(text: &str) -> Vec<Range<usize>> {
    let words = text.match_indices("://").filter_map(|(at, sign)| {
        let start = at.saturating_add(sign.len());
        let word = text
            .get(start..)?
            .split(|c: char| c.is_whitespace() || c == '"')
            .next()?;
        let end = start.saturating_add(word.rfind('@')?);
        (end > start).then_some(start..end)
    });
    words
        .filter(|range| !is_variable(text.get(range.clone()).unwrap_or_default()))
        .collect()
}

/// What follows `FIELD:` on its line.
fn values(text: &str, field: &str) -> Vec<Range<usize>> {
    let hits = text.match_indices(field).filter_map(|(at, _)| {
        let bounded = text
            .get(..at)?
            .chars()
            .next_back()
            .is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != '-');
        let after = at.saturating_add(field.len());
        let rest = text.get(after..)?.lines().next()?;
        let colon = rest.find(|c: char| !matches!(c, '"' | '\'' | ' '))?;
        let value = rest.get(colon..)?.strip_prefix(':')?;
        let start = after
            .saturating_add(rest.len())
            .saturating_sub(value.trim_start().len());
        let range = start..start.saturating_add(value.trim().len());
        (bounded && worth_hiding(text, &range) && !is_comment(text.get(range.clone())?))
            .then_some(range)
    });
    hits.collect()
}

fn is_comment(value: &str) -> bool {
    value.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::{Masked, shown};

    #[test]
    fn secrets_are_hidden_and_places_kept() {
        let text = "a: redis://me:pw@h/0 # x\npassword: hunter2\nsecret: ${NAME}\nb: 1\n";
        let masked = Masked::new(text, []);
        assert_eq!(
            masked.place(text.find("h/0").unwrap()),
            "a: redis://***@".len()
        );
        let b = masked.place(text.find("b: 1").unwrap());
        let text = masked.into_text();
        assert_eq!(
            text,
            "a: redis://***@h/0 # x\npassword: ***\nsecret: ${NAME}\nb: 1\n"
        );
        assert!(text[b..].starts_with("b: 1"));
    }

    #[test]
    fn a_message_shows_no_password() {
        assert_eq!(shown("redis://u:p@ss@host"), "redis://***@host");
        assert_eq!(shown("http://host"), "http://host");
    }
}
