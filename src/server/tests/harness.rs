//! The house under test: upstreams that do as they are told, a client that says exactly what it is given.

use std::cell::RefCell;
use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::timeout;

use crate::gateway::Gateway;
use crate::identify::ClientRules;
use crate::limiter::Limiter;
use crate::policy::{
    AccessLog, Drain, HostRule, Mode, Policy, Route, ServerSpec, StoreSpec, UpstreamSpec,
    UpstreamTimeouts,
};
use crate::route::{Index, Matcher, PathRules, Width};
use crate::server::{Bound, ClientTimeouts, Drained, Signal, run_worker, runtime, signal};
use crate::snapshot::Snapshot;
use crate::store::{Clock, Shared, Store};
use crate::telemetry::access::Lines;
use crate::telemetry::{AccessSink, Events, Registry};

/// How long anything in a test may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs a test on a worker's runtime.
pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = runtime().unwrap();
    runtime.block_on(async { timeout(PATIENCE, test).await.expect("the test hangs") });
}

/// A worker that serves.
pub(super) struct House {
    pub(super) address: SocketAddr,
    pub(super) signal: Signal,
    pub(super) worker: JoinHandle<std::io::Result<Drained>>,
    pub(super) snapshots: Arc<ArcSwap<Snapshot>>,
    pub(super) registry: Registry,
    access: AccessSink,
    lines: Lines,
}

impl House {
    pub(super) fn open(policy: Policy) -> Self {
        Self::with(policy, ClientTimeouts::default())
    }

    pub(super) fn with(policy: Policy, timeouts: ClientTimeouts) -> Self {
        Self::serving(policy, timeouts, |gateway| gateway)
    }

    /// One in which only so many requests wait their turn at once.
    pub(super) fn with_room_for(policy: Policy, waiting: usize) -> Self {
        Self::serving(policy, ClientTimeouts::default(), |gateway| {
            gateway.with_room_for(waiting)
        })
    }

    fn serving(
        policy: Policy,
        timeouts: ClientTimeouts,
        change: impl FnOnce(Gateway) -> Gateway,
    ) -> Self {
        let bound = Bound::bind(&["127.0.0.1:0".parse().unwrap()], NonZeroUsize::MIN).unwrap();
        let address = bound.addresses()[0];
        let sockets = bound.into_workers().remove(0);
        let registry = Registry::new();
        let (access, lines) = AccessSink::collecting(&registry).unwrap();
        let events = Events::new(&registry);
        let shared = Shared::new(&policy.store, None, Clock::system(), &events).unwrap();
        let limiter = Limiter::new(Store::open(&policy.store, &shared, &events)).unwrap();
        let snapshots = Arc::new(ArcSwap::from_pointee(Snapshot::first(Arc::new(policy))));
        let gateway = Gateway::new(
            Arc::clone(&snapshots),
            limiter,
            events,
            Some(access.clone()),
        );
        let (signal, stop) = signal();
        let gateway = Rc::new(change(gateway));
        let worker = spawn_local(run_worker(sockets, gateway, timeouts, stop));
        Self {
            address,
            signal,
            worker,
            snapshots,
            registry,
            access,
            lines,
        }
    }

    pub(super) async fn client(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// The access log so far.
    pub(super) fn log(&self) -> Vec<String> {
        self.access.flush(PATIENCE / 4);
        self.lines.all()
    }

    /// One exchange on a connection of its own, read to the end of the connection.
    pub(super) async fn ask(&self, request: &str) -> String {
        let mut client = self.client().await;
        client.say(request).await;
        client.hear_all().await
    }
}

/// A client's connection.
pub(super) struct Client(pub(super) TcpStream);

impl Client {
    pub(super) async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until what came ends with `end`.
    pub(super) async fn hear(&mut self, end: &str) -> String {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            match self.0.read_u8().await {
                Ok(byte) => heard.push(byte),
                Err(error) => panic!("{error} after {:?}", String::from_utf8_lossy(&heard)),
            }
        }
        String::from_utf8(heard).unwrap()
    }

    /// Reads to the end of the connection, however it ends.
    pub(super) async fn hear_all(&mut self) -> String {
        let mut heard = Vec::new();
        let mut piece = [0; 4096];
        while let Ok(Ok(read @ 1..)) = timeout(PATIENCE / 4, self.0.read(&mut piece)).await {
            heard.extend_from_slice(&piece[..read]);
        }
        String::from_utf8_lossy(&heard).into_owned()
    }

    /// Whether the other side closes within a second.
    pub(super) async fn closes(&mut self) -> bool {
        let mut piece = [0; 4096];
        let gone = async { while let Ok(1..) = self.0.read(&mut piece).await {} };
        timeout(Duration::from_secs(1), gone).await.is_ok()
    }
}

/// What an upstream saw, by connection.
pub(super) type Seen = Rc<RefCell<Vec<String>>>;

/// An upstream that calls `script` with each connection and its number.
pub(super) async fn upstream<F>(script: impl Fn(Conversation) -> F + 'static) -> (SocketAddr, Seen)
where
    F: Future<Output = ()> + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Seen::default();
    let log = Rc::clone(&seen);
    spawn_local(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let number = log.borrow().len();
            log.borrow_mut().push(String::new());
            spawn_local(script(Conversation {
                stream,
                number,
                seen: Rc::clone(&log),
            }));
        }
    });
    (address, seen)
}

/// One connection to an upstream.
pub(super) struct Conversation {
    pub(super) stream: TcpStream,
    pub(super) number: usize,
    seen: Seen,
}

impl Conversation {
    /// Reads until what was read since the last call ends with `end`; false when the gateway closes before.
    pub(super) async fn hear(&mut self, end: &str) -> bool {
        let mut heard = Vec::new();
        while !heard.ends_with(end.as_bytes()) {
            let Ok(byte) = self.stream.read_u8().await else {
                return false;
            };
            heard.push(byte);
            self.seen.borrow_mut()[self.number].push(char::from(byte));
        }
        true
    }

    pub(super) async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Waits until the gateway closes.
    pub(super) async fn gone(&mut self) {
        let mut piece = [0; 4096];
        while let Ok(1..) = self.stream.read(&mut piece).await {}
    }
}

/// An upstream that answers every request without a body with this, for ever.
pub(super) async fn answering(answer: &'static str) -> (SocketAddr, Seen) {
    upstream(move |mut with| async move {
        while with.hear("\r\n\r\n").await {
            with.say(answer).await;
        }
    })
    .await
}

pub(super) const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// One upstream and a route for everything.
pub(super) fn policy(upstream: SocketAddr) -> Policy {
    let timeouts = UpstreamTimeouts {
        connect: Duration::from_millis(500),
        ..UpstreamTimeouts::default()
    };
    Policy {
        listen: Vec::new(),
        admin: "127.0.0.1:0".parse().unwrap(),
        workers: NonZeroUsize::MIN,
        store: StoreSpec::Memory { max_keys: 1000 },
        secret: None,
        clients: ClientRules::default(),
        upstreams: vec![Arc::new(UpstreamSpec {
            name: "api".into(),
            servers: vec![ServerSpec {
                host: upstream.ip().to_string().into(),
                port: upstream.port(),
            }],
            host: HostRule::Keep,
            timeouts,
        })],
        routes: vec![Route {
            name: "all".into(),
            upstream: 0,
            timeouts,
        }],
        route_index: Index::new(Width::Exact, [(0, Matcher::default())]),
        skip: Index::new(Width::Exact, []),
        limits: Vec::new(),
        body_index: Index::new(Width::Wide, []),
        limit_index: Index::new(Width::Wide, []),
        mode: Mode::Enforce,
        paths: PathRules::default(),
        headers: crate::policy::HeaderFields::default(),
        drain: Drain {
            wait: Duration::ZERO,
            grace: Duration::from_secs(5),
        },
        cors: None,
        access_log: Some(AccessLog {
            sample_allowed: 1000,
            mask_query: vec!["token".to_owned()],
        }),
    }
}

/// The same with other timeouts.
pub(super) fn with_timeouts(mut policy: Policy, change: impl Fn(&mut UpstreamTimeouts)) -> Policy {
    let mut spec = (*policy.upstreams[0]).clone();
    change(&mut spec.timeouts);
    policy.routes[0].timeouts = spec.timeouts;
    policy.upstreams[0] = Arc::new(spec);
    policy
}
