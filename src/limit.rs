//! Limiting itself, and nothing else: no waiting, no input or output, no clock, no HTTP.
//!
//! A [`Charge`] asks whether a key may spend a cost under a [`Meter`]; the answer is a [`Verdict`] with a [`Quota`]. An
//! algorithm is a pure function of state, time and cost. It exists once here and once in Lua, side by side in
//! `algorithm/`, and tests hold the two equal. The laws that every algorithm keeps stand at [`algorithm::Judge`].

#![cfg_attr(
    not(test),
    deny(
        clippy::float_arithmetic,
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

pub mod algorithm;
pub mod charge;
pub mod driver;
pub mod key;
pub mod verdict;

pub use algorithm::{Meter, State};
pub use charge::{Charge, ChargeId, Cost, Receipt, Stake, When};
pub use driver::{Decision, Ruling};
pub use key::{Derived, Found, Identity, IfMissing, Key, KeyHasher, KeySpec, Source};
pub use verdict::{Quota, Retry, Verdict};
