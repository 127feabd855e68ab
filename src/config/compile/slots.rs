//! `N concurrent`: so much at once.

use std::sync::Arc;

use super::super::units::RateDecl;
use crate::limit::Meter;
use crate::limit::algorithm::{Concurrency, InvalidMeter, LEASE};
use crate::policy::Amount;

/// What holds one amount; clients see it as `shown_as`.
pub(super) fn amount(rate: &RateDecl, shown_as: Arc<str>) -> Result<Amount, InvalidMeter> {
    let meter = Meter::Concurrency(Concurrency::new(rate.amount, LEASE)?);
    Ok(Amount {
        meter,
        calendar: None,
        code: Arc::from("cc"),
        shown_as,
        quota: rate.amount,
        window: None,
        burst: None,
        words: Arc::from(rate.words()),
    })
}
