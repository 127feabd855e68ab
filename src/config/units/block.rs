//! What going over a limit leads to: `block for 15 minutes after 3 rejections in 10 minutes`.

use std::time::Duration;

use super::rate::long_window;
use super::{Wrong, duration, number};
use crate::config::nearest::nearest;

/// A block as it was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) struct BlockWords {
    /// How long it lasts; more than zero.
    pub(in crate::config) length: Duration,
    /// After how many rejections within how long; none: after the first.
    pub(in crate::config) after: Option<(u64, Duration)>,
}

const FORM: &str =
    "write `block for 15 minutes` or `block for 15 minutes after 3 rejections in 10 minutes`";

/// Reads what follows a rejection.
pub(in crate::config) fn block(text: &str) -> Result<BlockWords, Wrong> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [first, rest @ ..] = words.as_slice() else {
        return Err(Wrong::new("what follows is missing").help(FORM));
    };
    if *first != "block" {
        let wrong = Wrong::new(format!("`{first}` is not something that can follow"));
        return Err(wrong.help(FORM).meant(nearest(first, ["block"])));
    }
    let Some(("for", rest)) = rest.split_first().map(|(word, rest)| (*word, rest)) else {
        return Err(Wrong::new("a block says for how long").help(FORM));
    };
    let end = rest.iter().position(|word| *word == "after");
    let (length, after) = rest.split_at(end.unwrap_or(rest.len()));
    Ok(BlockWords {
        length: span(length, "a block")?,
        after: match after {
            [] => None,
            [_after, rest @ ..] => Some(rejections(rest)?),
        },
    })
}

/// `3 rejections in 10 minutes`.
fn rejections(words: &[&str]) -> Result<(u64, Duration), Wrong> {
    match words {
        [count, "rejection" | "rejections", "in", rest @ ..] => {
            Ok((several(count)?, span(rest, "the time for rejections")?))
        }
        [_, "rejection" | "rejections", ..] => {
            Err(Wrong::new("`after` says in how long so many rejections come").help(FORM))
        }
        _ => Err(
            Wrong::new("`after` is followed by a number of rejections and their time").help(FORM),
        ),
    }
}

fn several(text: &str) -> Result<u64, Wrong> {
    match number(text)? {
        0 => Err(Wrong::new("nothing is rejected 0 times").help("it is at least 1")),
        count => Ok(count),
    }
}

/// `15 minutes`, or short `15m`.
fn span(words: &[&str], what: &str) -> Result<Duration, Wrong> {
    let span = match words {
        [] => return Err(Wrong::new(format!("{what} has no length")).help(FORM)),
        [short] => duration(short)?,
        [count, unit] => long_window(number(count)?, unit)?,
        _ => {
            let text = words.join(" ");
            return Err(Wrong::new(format!("`{text}` is not a span of time")).help(FORM));
        }
    };
    if span.is_zero() {
        return Err(Wrong::new(format!("{what} of 0 is refused")).help("it is more than zero"));
    }
    Ok(span)
}
