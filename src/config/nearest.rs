//! The word that somebody meant.

/// Of `known` the word nearest to `typed`, where one is near enough to be meant.
pub(super) fn nearest<'k>(
    typed: &str,
    known: impl IntoIterator<Item = &'k str>,
) -> Option<&'k str> {
    let typed: Vec<char> = typed
        .chars()
        .take(64)
        .flat_map(char::to_lowercase)
        .collect();
    known
        .into_iter()
        .map(|word| {
            (
                distance(
                    &typed,
                    &word
                        .chars()
                        .flat_map(char::to_lowercase)
                        .collect::<Vec<_>>(),
                ),
                word,
            )
        })
        .filter(|(distance, word)| *distance <= allowed(word, typed.len()))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A third of the word may be wrong, at least one letter; of one or two letters none.
fn allowed(word: &str, typed: usize) -> usize {
    match word.chars().count().max(typed) {
        0..=2 => 0,
        length => (length / 3).max(1),
    }
}

/// How many letters to insert, remove, replace or swap with their neighbour.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, y) in b.iter().enumerate() {
            let mut least = (last[j] + usize::from(x != y))
                .min(last[j + 1] + 1)
                .min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_understood_and_a_stranger_is_not() {
        assert_eq!(nearest("limt", ["limits", "listen"]), Some("limits"));
        assert_eq!(nearest("lsiten", ["limits", "listen"]), Some("listen"));
        assert_eq!(
            nearest("Sliding-Window", ["sliding_window", "sliding_log"]),
            Some("sliding_window")
        );
        assert_eq!(nearest("whatever", ["limits", "listen"]), None);
        assert_eq!(nearest("", ["ip"]), None);
        assert_eq!(nearest("x", []), None);
    }
}
