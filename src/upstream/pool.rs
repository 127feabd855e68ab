//! The idle connections to one server, and the lease of one of them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::error::Error as StdError;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper::header::HeaderValue;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use super::Server;
use super::connect::ConnectError;

/// How many idle connections to one server a worker keeps.
const KEPT: usize = 64;
/// How long a connection may take to come to rest after the end of an answer.
const REST: Duration = Duration::from_secs(5);
/// The longest head of an answer, in bytes; a longer one is a broken answer.
const HEAD_BYTES: usize = 64 * 1024;
/// The most fields of an answer.
const HEAD_FIELDS: usize = 200;

/// A connection that carries one request and is then given back, or closed when dropped.
pub struct Lease<B> {
    connection: SendRequest<B>,
    address: SocketAddr,
    server: Rc<Server<B>>,
    reused: bool,
}

/// Why a request has no answer.
pub enum SendFailure<B> {
    /// No byte of it was written: it may be sent again, whatever it is.
    Unsent(Box<Request<B>>),
    /// It was written, in part or whole, and no answer came.
    Lost(hyper::Error),
}

/// Idle connections, the one that was used last at the back.
pub(super) struct Parked<B>(RefCell<VecDeque<Idle<B>>>);

struct Idle<B> {
    connection: SendRequest<B>,
    address: SocketAddr,
    since: Instant,
}

/// The idle connection that was used last: the one least likely to be closed by the server at this moment.
pub(super) fn take<B>(server: &Rc<Server<B>>, limit: Duration) -> Option<Lease<B>> {
    let mut parked = server.parked.0.borrow_mut();
    while let Some(idle) = parked.pop_back() {
        if idle.connection.is_ready() && idle.since.elapsed() < limit {
            let Idle {
                connection,
                address,
                ..
            } = idle;
            return Some(Lease {
                connection,
                address,
                server: Rc::clone(server),
                reused: true,
            });
        }
    }
    None
}

/// A new connection, within `limit`.
pub(super) async fn open<B>(
    server: &Rc<Server<B>>,
    limit: Duration,
) -> Result<Lease<B>, ConnectError>
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let (stream, address) = server.addresses.connect(limit).await?;
    // Writes nothing, so it cannot fail or wait for the server.
    let (connection, driver) = Builder::new()
        .max_headers(HEAD_FIELDS)
        .max_header_size(HEAD_BYTES)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|_error| ConnectError::Refused)?;
    // What goes wrong on the connection is told to the request that it carries.
    spawn_local(async move { drop(driver.await) });
    Ok(Lease {
        connection,
        address,
        server: Rc::clone(server),
        reused: false,
    })
}

impl<B> Lease<B> {
    /// What this server sees as `Host`; none: the client's.
    #[must_use]
    pub fn host(&self) -> Option<&HeaderValue> {
        self.server.host.as_ref()
    }

    /// The server's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it has carried other requests, so that the server may close it as this one is sent.
    #[must_use]
    pub fn is_reused(&self) -> bool {
        self.reused
    }
}

impl<B> Lease<B>
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    /// Sends the request and waits for the head of the answer; dropping the future cancels the exchange and closes the
    /// connection.
    ///
    /// # Errors
    /// See [`SendFailure`].
    pub async fn send(
        &mut self,
        request: Request<B>,
    ) -> Result<Response<Incoming>, SendFailure<B>> {
        self.connection
            .try_send_request(request)
            .await
            .map_err(|mut error| match error.take_message() {
                Some(request) => SendFailure::Unsent(Box::new(request)),
                None => SendFailure::Lost(error.into_error()),
            })
    }

    /// Keeps the connection for a later request; to be called at the end of the answer.
    pub fn give_back(self) {
        let Self {
            mut connection,
            address,
            server,
            ..
        } = self;
        if connection.is_ready() {
            server.parked.put(connection, address);
        } else if !connection.is_closed() {
            // The request is still being sent, or the driver has not run since the answer ended.
            spawn_local(async move {
                if let Ok(Ok(())) = timeout(REST, connection.ready()).await {
                    server.parked.put(connection, address);
                }
            });
        }
    }
}

impl<B> Parked<B> {
    fn put(&self, connection: SendRequest<B>, address: SocketAddr) {
        let mut parked = self.0.borrow_mut();
        if parked.len() == KEPT {
            parked.pop_front();
        }
        parked.push_back(Idle {
            connection,
            address,
            since: Instant::now(),
        });
    }

    pub(super) fn tidy(&self, limit: Duration, known: &[SocketAddr]) {
        self.0.borrow_mut().retain(|idle| {
            !idle.connection.is_closed()
                && idle.since.elapsed() < limit
                && known.contains(&idle.address)
        });
    }
}

impl<B> Default for Parked<B> {
    fn default() -> Self {
        Self(RefCell::default())
    }
}

impl<B> fmt::Debug for Lease<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("address", &self.address)
            .field("reused", &self.reused)
            .finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for SendFailure<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsent(_) => f.write_str("Unsent"),
            Self::Lost(error) => f.debug_tuple("Lost").field(error).finish(),
        }
    }
}
