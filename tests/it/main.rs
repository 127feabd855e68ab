//! Black-box tests: the binary on real sockets, a real `redis-server`, a scripted upstream. No test waits for time to
//! pass; what depends on time is tested where the clock is an argument.

mod support;

mod admission;
mod configuration;
mod documentation;
mod identity;
mod operating;
mod proxying;
mod rate_fields;
mod reloading;
mod storing;
