//! Whose turn it is.

use std::cell::Cell;

/// Round robin: every call begins one further.
#[derive(Debug, Default)]
pub(super) struct Turn(Cell<usize>);

impl Turn {
    /// All of `items` once, beginning with the one whose turn it is.
    pub(super) fn rotate<'a, T>(&self, items: &'a [T]) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let start = self.0.get();
        self.0.set(start.wrapping_add(1));
        let (before, from) = items.split_at(start.checked_rem(items.len()).unwrap_or(0));
        from.iter().chain(before)
    }
}

#[cfg(test)]
mod tests {
    use super::Turn;

    #[test]
    fn every_item_comes_first_in_turn() {
        let turn = Turn::default();
        let seen: Vec<Vec<u8>> = (0..4)
            .map(|_| turn.rotate(&[1, 2, 3]).copied().collect())
            .collect();
        assert_eq!(seen, [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]);
        assert_eq!(turn.rotate::<u8>(&[]).count(), 0);
    }
}
