//! The Lua twins against the Rust ones, on a real Redis: equal rulings, equal stored states, and none of the mistakes
//! that limiters in Redis are known for.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "what stands beside the tests fails like them"
)]

mod calendars;
mod golden;
mod leases;
mod mistakes;
mod reports;
mod returning;
mod server;
mod walk;
