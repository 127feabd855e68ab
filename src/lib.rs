//! sluice: a reverse proxy that limits rates.

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
