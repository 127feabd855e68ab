//! Rates, durations, numbers, addresses: the words of a value, and back into words.

mod address;
mod block;
mod rate;
mod time;

pub(super) use address::{RedisUrl, Scheme, Transport, cidr, endpoint, redis, sentinel, server};
pub(super) use block::{BlockWords, block};
pub(super) use rate::{Rate, RateDecl, Within, at_least_one, rate};
pub(super) use time::{duration, in_words, short, span_in_words, window_in_words};

/// Why a value is refused: what is wrong with it, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Wrong {
    pub(super) title: String,
    pub(super) help: Option<String>,
}

impl Wrong {
    pub(super) fn new(title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            help: None,
        }
    }

    pub(super) fn help(self, text: impl Into<String>) -> Self {
        Self {
            help: Some(text.into()),
            ..self
        }
    }

    /// A form that is documented and not built.
    pub(super) fn later(what: &str) -> Self {
        Self::new(format!("`{what}` is not there yet"))
    }

    /// Names the word that was meant, if there is one.
    pub(super) fn meant(self, word: Option<&str>) -> Self {
        match word {
            Some(word) => self.help(format!("did you mean `{word}`?")),
            None => self,
        }
    }
}

/// The largest number that a value may be; what an algorithm holds is checked later and is less.
const MAX_NUMBER: u64 = 1 << 52;

/// A whole number, written in digits.
pub(super) fn number(text: &str) -> Result<u64, Wrong> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<u64>() {
            Ok(number) if number <= MAX_NUMBER => Ok(number),
            Ok(_) | Err(_) => {
                Err(Wrong::new(format!("`{text}` is too large")).help("at most 4503599627370496"))
            }
        };
    }
    let number = text.parse::<f64>().is_ok();
    Err(match text.strip_prefix('-') {
        Some(_) if number => {
            Wrong::new(format!("`{text}` is negative")).help("a number here is at least 0")
        }
        _ if number => Wrong::new(format!("`{text}` is not a whole number"))
            .help("write it in digits, as `1000`"),
        _ if text.is_empty() => Wrong::new("a number is missing"),
        _ => Wrong::new(format!("`{text}` is not a number")).help("write it in digits, as `1000`"),
    })
}

/// A share from 0 to 1 with at most three decimals, in thousandths.
pub(super) fn thousandths(text: &str) -> Result<u32, Wrong> {
    let wrong = || {
        Wrong::new(format!("`{text}` is not a share")).help("write a number from 0 to 1, as `0.25`")
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let decimals = decimals.trim_end_matches('0');
    let digits = format!("{whole}{decimals:0<3}");
    if whole.len() != 1 || decimals.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    digits
        .parse()
        .ok()
        .filter(|share| *share <= 1000)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests;
