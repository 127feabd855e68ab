//! sluice: a reverse proxy that limits rates.
//!
//! # The life of a request
//!
//! 1. **Accepted.** A worker is one thread with a runtime, listening sockets, upstream connections and a store connection
//!    of its own ([`server`]). It reads a head and hands the request to [`gateway::Gateway::handle`], which answers every
//!    request under one [`snapshot::Snapshot`] from start to end and never fails: every failure is an answer.
//! 2. **Identified.** The host is one and valid ([`route::effective_host`]), the path is read in two ways, exactly for
//!    routes and forwarding and widely for limits ([`route::PathRules`]), and the client is the peer or whom a trusted
//!    proxy names ([`identify::ClientRules`]). From here on these are [`request::Facts`].
//! 3. **Routed.** The first route that matches wins ([`route::Index`]).
//! 4. **Admitted.** Where a limit counts by a field of the body, the beginning of that is read first. Every limit that
//!    matches makes a [`limit::Charge`]: a [`limit::Key`], a [`limit::Meter`], a cost. The [`store`] judges all of them at
//!    one instant of its clock and spends all or none; the [`limiter::Limiter`] turns the [`limit::Ruling`] into a
//!    [`limiter::Admission`] or a [`limiter::Refusal`].
//! 5. **Forwarded.** What a queue delays waits its turn. The head is written anew, the body streams, and the answer
//!    streams back ([`upstream`]).
//! 6. **Settled.** The admission settles exactly once: when nothing reached the upstream, its charges are given back; an
//!    answer's head decides what counts, and what only its end can say is kept beside its body
//!    ([`limiter::Unsettled`]).
//! 7. **Recorded.** When the last byte has left, or the client has gone, the request is counted and written to the access
//!    log ([`telemetry`]).
//!
//! # The map
//!
//! A module uses only modules of lower lines; `ARCHITECTURE.md` says what each is for.
//!
//! ```text
//! 10 main
//! 9  cli
//! 8  app
//! 7  reload   admin
//! 6  server
//! 5  gateway
//! 4  snapshot   limiter
//! 3  store   upstream   config
//! 2  policy   telemetry
//! 1  limit   route   identify
//! 0  time   request
//! ```

pub mod admin;
pub mod app;
pub mod cli;
pub mod config;
pub mod gateway;
pub mod identify;
pub mod limit;
pub mod limiter;
pub mod policy;
pub mod reload;
pub mod request;
pub mod route;
pub mod server;
pub mod snapshot;
pub mod store;
pub mod telemetry;
pub mod time;
pub mod upstream;
