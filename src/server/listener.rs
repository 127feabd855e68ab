//! Listening sockets: claimed once, one of each for every worker.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinSet, yield_now};
use tokio::time::timeout;

use super::connection::{self, ClientTimeouts};
use super::drain::{Drained, Stop};
use crate::gateway::{Gateway, Peer, Scheme};

/// How many connections wait to be accepted, at most (the system may have a lower bound).
const BACKLOG: i32 = 1024;
/// The first pause after an accept that failed for want of something; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The addresses of a gateway, claimed for all of its workers.
#[derive(Debug)]
pub struct Bound {
    addresses: Vec<SocketAddr>,
    workers: Vec<Sockets>,
}

/// One worker's listening sockets.
#[derive(Debug)]
pub struct Sockets(Vec<(Arc<str>, std::net::TcpListener)>);

/// An address that cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// Why not.
    pub source: io::Error,
}

impl Bound {
    /// Claims `addresses` for `workers`. A port of 0 is replaced by a free one, the same for every worker.
    ///
    /// # Errors
    /// The first address that cannot be listened on, as one whose port is in use.
    pub fn bind(addresses: &[SocketAddr], workers: NonZeroUsize) -> Result<Self, BindError> {
        let mut bound = Self {
            addresses: Vec::with_capacity(addresses.len()),
            workers: (0..workers.get()).map(|_| Sockets(Vec::new())).collect(),
        };
        for &address in addresses {
            bound
                .claim(address, stack(address, addresses))
                .map_err(|source| BindError { address, source })?;
        }
        Ok(bound)
    }

    fn claim(&mut self, configured: SocketAddr, stack: Stack) -> io::Result<()> {
        // Sockets that share a port do not notice another process that shares it too; one that does not share does.
        let probe = listen(configured, Port::Alone, stack)?;
        let address = probe.local_addr()?;
        drop(probe);
        let label: Arc<str> = configured.to_string().into();
        for worker in &mut self.workers {
            worker
                .0
                .push((Arc::clone(&label), listen(address, Port::Shared, stack)?));
        }
        self.addresses.push(address);
        Ok(())
    }

    /// Where clients connect, in the order that was given, with the ports that were chosen.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The sockets, one set for each worker.
    #[must_use]
    pub fn into_workers(self) -> Vec<Sockets> {
        self.workers
    }
}

impl Sockets {
    pub(super) fn into_listeners(self) -> io::Result<Vec<(Arc<str>, TcpListener)>> {
        self.0
            .into_iter()
            .map(|(label, socket)| Ok((label, TcpListener::from_std(socket)?)))
            .collect()
    }
}

/// Whether an IPv6 socket takes IPv4 clients too, as the system would have it.
#[derive(Clone, Copy)]
enum Stack {
    AsUsual,
    Separate,
}

/// `[::]` beside `0.0.0.0` on one port means each for its own.
fn stack(address: SocketAddr, all: &[SocketAddr]) -> Stack {
    let beside = |other: &SocketAddr| {
        other.is_ipv4() && other.port() == address.port() && address.port() != 0
    };
    if address.is_ipv6() && address.ip().is_unspecified() && all.iter().any(beside) {
        Stack::Separate
    } else {
        Stack::AsUsual
    }
}

#[derive(Clone, Copy)]
enum Port {
    Alone,
    Shared,
}

fn listen(address: SocketAddr, port: Port, stack: Stack) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    if let Port::Shared = port {
        socket.set_reuse_port(true)?;
    }
    if let Stack::Separate = stack {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts until told to stop, then waits for the connections within the grace.
pub(super) async fn serve(
    label: Arc<str>,
    listener: TcpListener,
    gateway: Rc<Gateway>,
    timeouts: ClientTimeouts,
    mut stop: Stop,
) -> Drained {
    let mut connections = JoinSet::new();
    let mut hears = stop.clone();
    let mut pause = FIRST_PAUSE;
    let grace = loop {
        let accepted = tokio::select! {
            biased;
            grace = stop.wait() => break grace,
            Some(_ended) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok(connection) => {
                pause = FIRST_PAUSE;
                start(
                    &mut connections,
                    &label,
                    connection,
                    &gateway,
                    timeouts,
                    &hears,
                );
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(error) => {
                // Out of descriptors or memory: those who hang up give some back.
                tracing::warn!(listener = &*label, %error, "cannot accept connections");
                gateway.events().connection_refused("resources");
                // Stopping need not wait for the pause.
                drop(timeout(pause, hears.wait()).await);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    };
    // Who was already connected in the system's queue is served; whoever comes later is refused.
    while let Some(Ok(connection)) = pending(&listener).await {
        start(
            &mut connections,
            &label,
            connection,
            &gateway,
            timeouts,
            &hears,
        );
    }
    drop(listener);
    finish(connections, grace).await
}

fn start(
    connections: &mut JoinSet<()>,
    label: &str,
    (stream, address): (TcpStream, SocketAddr),
    gateway: &Rc<Gateway>,
    timeouts: ClientTimeouts,
    stop: &Stop,
) {
    let peer = Peer {
        address,
        scheme: Scheme::Http,
    };
    let counted = gateway.events().connection(label);
    let (gateway, stop) = (Rc::clone(gateway), stop.clone());
    connections.spawn_local(async move {
        connection::serve(stream, peer, gateway, timeouts, stop).await;
        drop(counted);
    });
}

/// The next connection that waits already.
async fn pending(listener: &TcpListener) -> Option<io::Result<(TcpStream, SocketAddr)>> {
    timeout(Duration::from_millis(1), listener.accept())
        .await
        .ok()
}

async fn finish(mut connections: JoinSet<()>, grace: Duration) -> Drained {
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(grace, all).await.is_ok() {
        return Drained::default();
    }
    yield_now().await;
    while connections.try_join_next().is_some() {}
    let cut = connections.len();
    connections.shutdown().await;
    Drained { cut }
}

/// Failures of a connection that was never there, rather than of the listener.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source.kind() {
            io::ErrorKind::AddrInUse => {
                write!(f, "cannot listen on {}: another process does", self.address)
            }
            _ => write!(f, "cannot listen on {}", self.address),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
