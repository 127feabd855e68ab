//! The admin endpoint: health, metrics, and what is in force.
//!
//! It lives on a runtime of its own, so that a scrape never waits behind traffic, and is for operators alone: it is
//! never served on the public port.

mod answer;
mod probe;

pub use answer::AdminState;
pub use probe::{ProbeError, probe};

use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How many operators' connections are served at once; more wait in the listener's backlog.
const MOST_CONNECTIONS: usize = 64;
/// How long a client may take to send a head, or leave a connection idle.
const HEAD: Duration = Duration::from_secs(30);
/// How long a connection lives; a scraper opens the next one.
const AGE: Duration = Duration::from_secs(300);
/// How long answers under way get when the endpoint stops.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait after the system refused to accept (no file descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves operators on `listener` until `stop` resolves, then finishes what is under way within a second.
///
/// Needs a Tokio runtime with time and I/O; runs its connections as tasks of that runtime and leaves none behind.
pub async fn serve(listener: TcpListener, state: AdminState, stop: impl Future<Output = ()>) {
    let state = Arc::new(state);
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let (ending, ended) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        tokio::select! {
            () = &mut stop => break,
            Some(_) = connections.join_next() => {}
            (place, accepted) = accepted => match accepted {
                Ok((stream, _)) => {
                    let connection = serve_connection(stream, Arc::clone(&state), ended.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin endpoint cannot accept");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop((listener, ending));
    let finished = async { while connections.join_next().await.is_some() {} };
    if timeout(GRACE, finished).await.is_err() {
        connections.shutdown().await;
    }
}

async fn serve_connection(
    stream: TcpStream,
    state: Arc<AdminState>,
    mut ended: watch::Receiver<()>,
) {
    let service = service_fn(move |request| {
        let answer = state.answer(&request);
        async move { Ok::<_, Infallible>(answer) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let served = async {
        tokio::select! {
            result = connection.as_mut() => return result,
            // Errs when the sender is dropped, which is the signal.
            _ = ended.changed() => connection.as_mut().graceful_shutdown(),
        }
        connection.await
    };
    match timeout(AGE, served).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an operator's connection ended"),
    }
}

#[cfg(test)]
mod tests;
