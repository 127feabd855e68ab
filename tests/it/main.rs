//! Black-box tests: the binary on real sockets, a real `redis-server`, a scripted upstream. No test but one
//! waits for time to pass; what depends on time is tested where the clock is an argument.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::let_underscore_must_use,
    clippy::print_stderr,
    reason = "a test that cannot go on fails, and says why"
)]
#![expect(
    clippy::too_many_lines,
    reason = "a table of cases is one list, however long"
)]

mod support;

mod admission;
mod blocking;
mod bodies;
mod calendar;
mod cluster;
mod concurrent;
mod configuration;
mod cors;
mod costs;
mod documentation;
mod fields;
mod identity;
mod operating;
mod plans;
mod proxying;
mod queueing;
mod rate_fields;
mod redis_black_hole;
mod redis_failures;
mod redis_rights;
mod redis_sentinel;
mod redis_tls;
mod reloading;
mod remembering;
mod replies;
mod settling;
mod sharing;
mod skew;
mod storing;
mod together;
mod trying;
