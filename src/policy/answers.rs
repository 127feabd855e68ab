//! Which answers a limit counts.

use hyper::StatusCode;

/// What a limit counts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Count {
    /// Every request.
    #[default]
    Every,
    /// Only requests that are answered so: a charge is made on entry, and given back when the answer is another.
    Answers(Answers),
}

/// A set of statuses, 100 to 599.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Answers([u64; 8]);

impl Answers {
    /// Adds a status; what is not from 100 to 599 changes nothing.
    pub fn insert(&mut self, status: u16) {
        if let Some((word, bit)) = place(status)
            && let Some(word) = self.0.get_mut(word)
        {
            *word |= bit;
        }
    }

    /// Whether a status is in the set.
    #[must_use]
    pub fn contains(&self, status: StatusCode) -> bool {
        let bits = place(status.as_u16()).and_then(|(word, bit)| Some(self.0.get(word)? & bit));
        bits.is_some_and(|bits| bits != 0)
    }
}

/// The word and the bit of a status.
fn place(status: u16) -> Option<(usize, u64)> {
    let offset = status.checked_sub(100).filter(|offset| *offset < 500)?;
    Some((usize::from(offset / 64), 1 << (offset % 64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_nothing_else() {
        let mut set = Answers::default();
        for status in [100, 401, 599, 99, 600, u16::MAX] {
            set.insert(status);
        }
        let held: Vec<u16> = (100..600)
            .filter(|status| set.contains(StatusCode::from_u16(*status).unwrap()))
            .collect();
        assert_eq!(held, [100, 401, 599]);
    }
}
