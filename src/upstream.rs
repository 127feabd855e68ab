//! One or more servers that answer alike: where to connect, which connection to take, what became of it.
//!
//! Everything here belongs to one worker. The body type is the caller's, so that a connection can send what the gateway
//! reads from its clients without a copy or a box.

mod balance;
mod connect;
mod pool;

pub use connect::ConnectError;
pub use pool::{Lease, SendFailure};

use std::error::Error as StdError;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::Body;
use hyper::header::HeaderValue;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::policy::{HostRule, ServerSpec, UpstreamSpec};
use balance::Turn;
use connect::Addresses;
use pool::Parked;

/// How many servers a request tries to connect to, at most.
const SERVERS_TRIED: usize = 3;

/// Whether a request may travel on a connection that has carried others.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Freshness {
    /// An idle connection if there is one.
    Any,
    /// A new one: the idle one was gone when the request was sent.
    New,
}

/// The servers of an upstream with this worker's connections to them.
pub struct Upstream<B> {
    spec: Arc<UpstreamSpec>,
    servers: Vec<Rc<Server<B>>>,
    turn: Turn,
}

/// One server with this worker's idle connections.
pub(crate) struct Server<B> {
    /// What it sees as `Host`; none: the client's.
    host: Option<HeaderValue>,
    addresses: Rc<Addresses>,
    parked: Parked<B>,
}

impl<B> Upstream<B>
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    /// The upstream without any connection yet. Must be called on a worker's runtime.
    #[must_use]
    pub fn new(spec: Arc<UpstreamSpec>) -> Rc<Self> {
        let servers = spec
            .servers
            .iter()
            .map(|server| Rc::new(Server::new(server, &spec.host)))
            .collect();
        let upstream = Rc::new(Self {
            spec,
            servers,
            turn: Turn::default(),
        });
        spawn_local(sweep(Rc::downgrade(&upstream)));
        upstream
    }

    /// What it was made from.
    #[must_use]
    pub fn spec(&self) -> &Arc<UpstreamSpec> {
        &self.spec
    }

    /// A connection for one request: an idle one, or a new one to the first server that answers within `connect`.
    ///
    /// # Errors
    /// What the last server that was tried answered.
    pub async fn lease(
        &self,
        freshness: Freshness,
        connect: Duration,
    ) -> Result<Lease<B>, ConnectError> {
        let mut failure = ConnectError::Resolve;
        for server in self.turn.rotate(&self.servers).take(SERVERS_TRIED) {
            if freshness == Freshness::Any
                && let Some(lease) = pool::take(server, self.spec.timeouts.idle)
            {
                return Ok(lease);
            }
            match pool::open(server, connect).await {
                Ok(lease) => return Ok(lease),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// Closes what has been idle for too long, or leads to an address that the name no longer has.
    fn tidy(&self) {
        for server in &self.servers {
            let known = server.addresses.known();
            server.parked.tidy(self.spec.timeouts.idle, &known);
        }
    }
}

impl<B> Server<B> {
    fn new(spec: &ServerSpec, rule: &HostRule) -> Self {
        let host = match rule {
            HostRule::Keep => None,
            HostRule::Upstream => HeaderValue::from_str(&authority(spec)).ok(),
            HostRule::Fixed(name) => HeaderValue::from_str(name).ok(),
        };
        Self {
            host,
            addresses: Rc::new(Addresses::new(spec)),
            parked: Parked::default(),
        }
    }
}

/// `host:port`, an IPv6 address in brackets, the default port left out.
fn authority(server: &ServerSpec) -> String {
    let bracketed = if server.host.contains(':') {
        format!("[{}]", server.host)
    } else {
        server.host.to_string()
    };
    if server.port == 80 {
        bracketed
    } else {
        format!("{bracketed}:{}", server.port)
    }
}

/// Tidies as long as the upstream is in use; a connection outlives its idle time by half of it at most.
async fn sweep<B>(upstream: Weak<Upstream<B>>)
where
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    loop {
        let Some(pause) = upstream
            .upgrade()
            .map(|upstream| upstream.spec.timeouts.idle / 2)
        else {
            return;
        };
        sleep(pause.clamp(Duration::from_millis(100), Duration::from_secs(30))).await;
        let Some(upstream) = upstream.upgrade() else {
            return;
        };
        upstream.tidy();
    }
}

impl<B> fmt::Debug for Upstream<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream")
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}
