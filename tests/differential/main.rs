//! The Lua twins against the Rust ones, on a real Redis: equal rulings, equal stored states, and none of the mistakes
//! that limiters in Redis are known for.

mod golden;
mod mistakes;
mod server;
mod walk;
