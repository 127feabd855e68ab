//! Redis as a store.

pub mod script;
