//! From a server's name to a connected socket.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Notify;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout, timeout_at};

use super::balance::Turn;
use crate::policy::ServerSpec;

/// The system's resolver gives no time to live, so a name is asked for again after this long.
const NAME_AGE: Duration = Duration::from_secs(30);
/// After a failed look-up the next one waits this long, so that a burst of requests does not become a burst of look-ups.
const LOOKUP_PAUSE: Duration = Duration::from_secs(1);
/// How long one look-up may take.
const LOOKUP_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no connection. Nothing was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ConnectError {
    /// The name has no address.
    Resolve,
    /// No answer about the name in time.
    ResolveTimeout,
    /// The server refused, or cannot be reached.
    Refused,
    /// No connection in time.
    Timeout,
}

/// The addresses of one server, looked up again and again while it is in use.
#[derive(Debug)]
pub(super) struct Addresses {
    host: Arc<str>,
    port: u16,
    found: RefCell<Rc<[SocketAddr]>>,
    /// When the look-up is due again; none: never, the host is an address.
    due: Cell<Option<Instant>>,
    asking: Cell<bool>,
    answered: Notify,
    turn: Turn,
}

impl Addresses {
    pub(super) fn new(server: &ServerSpec) -> Self {
        let literal = server
            .host
            .parse::<IpAddr>()
            .ok()
            .map(|ip| SocketAddr::new(ip, server.port));
        Self {
            host: Arc::clone(&server.host),
            port: server.port,
            found: RefCell::new(literal.into_iter().collect()),
            due: Cell::new(literal.is_none().then(Instant::now)),
            asking: Cell::new(false),
            answered: Notify::new(),
            turn: Turn::default(),
        }
    }

    /// The addresses as last looked up.
    pub(super) fn known(&self) -> Rc<[SocketAddr]> {
        Rc::clone(&self.found.borrow())
    }

    /// A socket to the first address that answers. All of them are tried, each with an equal share of what is left of
    /// the `limit`.
    pub(super) async fn connect(
        self: &Rc<Self>,
        limit: Duration,
    ) -> Result<(TcpStream, SocketAddr), ConnectError> {
        let deadline = Instant::now() + limit;
        let addresses = self.resolve(deadline).await?;
        let mut failure = ConnectError::Resolve;
        let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        for &address in self.turn.rotate(&addresses) {
            let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
            left = left.saturating_sub(1);
            match timeout(share, dial(address)).await {
                Ok(Ok(stream)) => return Ok((stream, address)),
                Ok(Err(error)) => failure = failed(&error),
                Err(_elapsed) => failure = ConnectError::Timeout,
            }
        }
        Err(failure)
    }

    /// Old addresses serve while new ones are looked up; without any, waits for the answer.
    async fn resolve(self: &Rc<Self>, deadline: Instant) -> Result<Rc<[SocketAddr]>, ConnectError> {
        if self.due.get().is_some_and(|due| due <= Instant::now()) && !self.asking.replace(true) {
            spawn_local(Rc::clone(self).look_up());
        }
        if self.found.borrow().is_empty() && self.asking.get() {
            let answer = self.answered.notified();
            timeout_at(deadline, answer)
                .await
                .map_err(|_elapsed| ConnectError::ResolveTimeout)?;
        }
        let found = self.known();
        if found.is_empty() {
            Err(ConnectError::Resolve)
        } else {
            Ok(found)
        }
    }

    async fn look_up(self: Rc<Self>) {
        let answer = timeout(LOOKUP_LIMIT, lookup_host((&*self.host, self.port))).await;
        let found: Vec<SocketAddr> = answer
            .ok()
            .and_then(Result::ok)
            .into_iter()
            .flatten()
            .collect();
        // A resolver that is down for a while must not take the upstream down with it: what was found stays.
        let pause = if found.is_empty() {
            LOOKUP_PAUSE
        } else {
            self.found.replace(found.into());
            NAME_AGE
        };
        self.due.set(Some(Instant::now() + pause));
        self.asking.set(false);
        self.answered.notify_waiters();
    }
}

async fn dial(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn failed(error: &io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::TimedOut => ConnectError::Timeout,
        _ => ConnectError::Refused,
    }
}
