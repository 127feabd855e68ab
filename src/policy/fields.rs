//! In which fields clients are told about their limits.

use std::time::Duration;

/// In which fields clients are told about their limits.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HeaderFields {
    /// `RateLimit-Policy` and `RateLimit`.
    pub ratelimit: RateLimitDialect,
    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`.
    pub legacy: LegacyReset,
    /// The most by which a rejected client is told to wait longer than it must; default 0.
    pub retry_jitter: Duration,
}

/// How `RateLimit-Policy` and `RateLimit` are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum RateLimitDialect {
    /// As draft-ietf-httpapi-ratelimit-headers-11 says.
    #[default]
    Draft11,
    /// Not at all.
    Off,
}

/// What `X-RateLimit-Reset` says.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum LegacyReset {
    /// None of the three fields is sent.
    #[default]
    Off,
    /// Seconds from now.
    Delta,
    /// Seconds since the Unix epoch.
    Epoch,
}
