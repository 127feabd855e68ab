//! Workers: listening sockets, connections, and how they end.
//!
//! A worker is one thread with a current-thread runtime of its own ([`runtime`]) and sockets of its own. [`Bound::bind`]
//! claims the addresses once for all workers; each worker then serves its share with [`run_worker`].

mod activity;
mod connection;
mod drain;
mod listener;
#[cfg(test)]
mod tests;

pub use connection::ClientTimeouts;
pub use drain::{Drained, Signal, Stop, signal};
pub use listener::{BindError, Bound, Sockets};

use std::io;
use std::rc::Rc;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tokio::task::spawn_local;

use crate::gateway::Gateway;

/// The runtime of one worker; everything that a worker does runs on the thread that calls this.
///
/// # Errors
/// When the system gives no event queue.
pub fn runtime() -> io::Result<LocalRuntime> {
    Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
}

/// Serves on the worker's sockets until told to stop, then finishes what is under way.
///
/// # Errors
/// When a socket cannot be given to the runtime.
pub async fn run_worker(
    sockets: Sockets,
    gateway: Rc<Gateway>,
    timeouts: ClientTimeouts,
    stop: Stop,
) -> io::Result<Drained> {
    let mut listeners = Vec::new();
    for (label, listener) in sockets.into_listeners()? {
        let (gateway, stop) = (Rc::clone(&gateway), stop.clone());
        listeners.push(spawn_local(listener::serve(
            label, listener, gateway, timeouts, stop,
        )));
    }
    let mut drained = Drained::default();
    for listener in listeners {
        match listener.await {
            Ok(one) => drained.add(one),
            // A listener that panicked served nobody any more; what it served is cut.
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    Ok(drained)
}
