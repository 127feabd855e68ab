//! sluice: a reverse proxy that limits rates.

pub mod config;
pub mod identify;
pub mod limit;
pub mod limiter;
pub mod policy;
pub mod request;
pub mod route;
pub mod store;
pub mod telemetry;
pub mod time;
