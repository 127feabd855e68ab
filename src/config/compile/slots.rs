//! `N concurrent`: so much at once.

use std::sync::Arc;

use super::super::explain;
use super::super::file::LimitDecl;
use crate::limit::Meter;
use crate::limit::algorithm::{Concurrency, InvalidMeter, LEASE};
use crate::policy::Amount;

/// The amount of `slots` at once, as one of `count` of its limit, with what it means in words.
pub(super) fn amount(
    decl: &LimitDecl,
    slots: u64,
    count: usize,
) -> Result<(Amount, String), InvalidMeter> {
    let meter = Meter::Concurrency(Concurrency::new(slots, LEASE)?);
    let name = decl.name.value.as_str();
    let shown_as = match count {
        1 => name.to_owned(),
        _ => format!("{name}-concurrent"),
    };
    let amount = Amount {
        meter,
        local: meter,
        code: Arc::from("cc"),
        shown_as: Arc::from(shown_as),
        quota: slots,
        window: None,
        burst: None,
        words: Arc::from(format!("{slots} at once")),
    };
    Ok((amount, explain::at_once(slots)))
}
