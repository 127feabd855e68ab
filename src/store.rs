//! Where the state of the limits lives: this process's memory, or Redis behind a guard.
//!
//! A store is an applier: at one instant of its clock it judges every charge of a request, and spends all of them or none.

pub mod redis;

/// Why a store gave no ruling.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer within the deadline.
    Timeout,
    /// No connection.
    Unreachable,
    /// Reachable but unwilling: loading, read-only, out of memory, not permitted, a foreign value at the key, ...
    Refused,
    /// The breaker is open, or too many charges wait: not asked.
    NotAsked,
}
