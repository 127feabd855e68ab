//! The composition root: policy -> store -> snapshot -> workers -> wait -> drain.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use crate::admin::{self, AdminState};
use crate::config::Loaded;
use crate::gateway::Gateway;
use crate::limiter::Limiter;
use crate::reload::Reload;
use crate::server::{self, Bound, ClientTimeouts, Drained, Stop};
use crate::snapshot::Snapshot;
use crate::store::{Clock, Shared, Store};
use crate::telemetry::{AccessSink, Events, Registry};

/// How long settlements and log lines get to leave the process at its end.
const FLUSH: Duration = Duration::from_secs(2);

/// Where the policy came from, and so whether it can change.
#[derive(Debug)]
pub enum Source {
    /// A file, read again when it changes and on SIGHUP.
    File {
        /// Where it is.
        path: PathBuf,
        /// What `${NAME}` stands for.
        environment: fn(&str) -> Option<String>,
    },
    /// The command line: fixed.
    Arguments,
}

/// Where the gateway listens, once it does.
#[derive(Clone, Debug)]
pub struct Addresses {
    /// For clients.
    pub listen: Vec<SocketAddr>,
    /// For operators.
    pub admin: SocketAddr,
}

/// How the gateway ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Ended {
    /// Everything under way was finished.
    Drained,
    /// The grace period was over first, and what was left was cut.
    Cut,
}

impl Ended {
    /// 0 when nothing was cut, 1 otherwise.
    #[must_use]
    pub fn exit_code(self) -> ExitCode {
        match self {
            Self::Drained => ExitCode::SUCCESS,
            Self::Cut => ExitCode::FAILURE,
        }
    }
}

/// Why the gateway cannot start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// An address for clients cannot be listened on.
    Listen(server::BindError),
    /// The address for operators cannot be listened on.
    Admin(SocketAddr, io::Error),
    /// The system gave no thread, runtime, signal or randomness.
    System(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(error) => write!(f, "cannot listen on {}", error.address),
            Self::Admin(address, _) => {
                write!(f, "cannot listen on {address} for operators (`admin`)")
            }
            Self::System(_) => f.write_str("the system refused what the gateway needs"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen(error) => Some(&error.source),
            Self::Admin(_, error) | Self::System(error) => Some(error),
        }
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Serves the policy of `loaded` until told to stop; `announce` is called once the gateway listens.
///
/// # Errors
/// An address cannot be listened on, or the system gives no thread, runtime, signal or randomness.
pub fn run(
    loaded: Loaded,
    source: Source,
    announce: impl FnOnce(&Addresses),
) -> Result<Ended, StartError> {
    let policy = Arc::new(loaded.policy.clone());
    let bound = Bound::bind(&policy.listen, policy.workers).map_err(StartError::Listen)?;
    let admin = std::net::TcpListener::bind(policy.admin)
        .map_err(|error| StartError::Admin(policy.admin, error))?;
    let addresses = Addresses {
        listen: bound.addresses().to_vec(),
        admin: admin.local_addr()?,
    };

    let registry = Registry::new();
    let events = Events::new(&registry);
    let process = Process {
        shared: Shared::new(
            &policy.store,
            policy.secret.as_ref(),
            Clock::system(),
            &events,
        )?,
        access: AccessSink::stdout(&registry)?,
        snapshots: Arc::new(ArcSwap::from_pointee(Snapshot::first(policy))),
        in_words: Arc::new(ArcSwap::from_pointee(loaded.explain())),
        registry,
        events,
    };
    let (stop, stopped) = server::signal();
    let workers = process.start_workers(bound, &stopped)?;
    tracing::info!(listen = %join(&addresses.listen), admin = %addresses.admin, "the gateway is listening");
    announce(&addresses);

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = runtime.block_on(process.operate(source, loaded.files, admin, stop, workers))?;
    process.access.flush(FLUSH);
    tracing::info!(?ended, "the gateway has ended");
    Ok(ended)
}

/// What all threads share.
struct Process {
    registry: Registry,
    events: Events,
    shared: Arc<Shared>,
    access: AccessSink,
    snapshots: Arc<ArcSwap<Snapshot>>,
    in_words: Arc<ArcSwap<String>>,
}

/// A worker's thread.
type Worker = JoinHandle<io::Result<Drained>>;

impl Process {
    /// One thread a worker, each with its own sockets, store connection and upstream connections.
    fn start_workers(&self, bound: Bound, stop: &Stop) -> io::Result<Vec<Worker>> {
        let start = |(number, sockets)| {
            let (registry, shared, access) = (
                self.registry.clone(),
                Arc::clone(&self.shared),
                self.access.clone(),
            );
            let (snapshots, stop) = (Arc::clone(&self.snapshots), stop.clone());
            let work = move || {
                server::runtime()?.block_on(async move {
                    let events = Events::new(&registry);
                    let store = Store::open(&snapshots.load().policy.store, &shared, &events);
                    let limiter = Limiter::new(store.clone())?;
                    let gateway = Rc::new(Gateway::new(snapshots, limiter, events, Some(access)));
                    let drained =
                        server::run_worker(sockets, gateway, ClientTimeouts::default(), stop).await;
                    store.flush(FLUSH).await;
                    drained
                })
            };
            std::thread::Builder::new()
                .name(format!("worker-{number}"))
                .spawn(work)
        };
        bound
            .into_workers()
            .into_iter()
            .enumerate()
            .map(start)
            .collect()
    }

    /// Answers operators and reloads until the signal to stop; then drains.
    async fn operate(
        &self,
        source: Source,
        files: Vec<PathBuf>,
        admin: std::net::TcpListener,
        stop: server::Signal,
        workers: Vec<Worker>,
    ) -> io::Result<Ended> {
        let mut signals = Signals::new()?;
        let ready = Arc::new(AtomicBool::new(true));
        let (end_admin, admin_ended) = oneshot::channel::<()>();
        let endpoint = self.admin(admin, Arc::clone(&ready), admin_ended)?;
        let endpoint = tokio::spawn(endpoint);
        let reloading = tokio::spawn(self.reloading(source, files, signal(SignalKind::hangup())?));

        signals.stop().await;
        reloading.abort();
        ready.store(false, Ordering::Release);
        let drain = self.snapshots.load().policy.drain;
        tracing::info!(wait = ?drain.wait, grace = ?drain.grace, "stopping");
        // A second signal ends the wait, not the grace.
        tokio::select! {
            () = tokio::time::sleep(drain.wait) => (),
            () = signals.stop() => (),
        }
        stop.stop(drain.grace);
        let ended = tokio::task::spawn_blocking(|| wait_for(workers))
            .await
            .map_err(io::Error::other)?;
        drop(end_admin);
        endpoint.await.map_err(io::Error::other)?;
        Ok(ended)
    }

    /// The admin endpoint, until `ended` is dropped.
    fn admin(
        &self,
        listener: std::net::TcpListener,
        ready: Arc<AtomicBool>,
        ended: oneshot::Receiver<()>,
    ) -> io::Result<impl Future<Output = ()> + use<>> {
        listener.set_nonblocking(true)?;
        let bound = listener.local_addr()?.ip();
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let in_words = Arc::clone(&self.in_words);
        let config = Box::new(move || in_words.load().to_string());
        let state = AdminState {
            registry: self.registry.clone(),
            ready,
            config,
            bound,
        };
        Ok(admin::serve(listener, state, async move {
            // Only ever dropped, which is the signal.
            drop(ended.await);
        }))
    }

    /// Reloads the file, where there is one; without one, SIGHUP does nothing.
    fn reloading(
        &self,
        source: Source,
        files: Vec<PathBuf>,
        hangup: Signal,
    ) -> impl Future<Output = ()> + use<> {
        let reload = match source {
            Source::Arguments => None,
            Source::File { path, environment } => Some(Reload {
                path,
                environment,
                snapshots: Arc::clone(&self.snapshots),
                in_words: Arc::clone(&self.in_words),
                events: self.events.clone(),
            }),
        };
        async move {
            match reload {
                Some(reload) => reload.watch(files, hangup).await,
                None => std::future::pending().await,
            }
            // Kept until here: a signal that nobody handles would end the process.
        }
    }
}

/// SIGTERM and SIGINT.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn stop(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
    }
}

/// Waits for the workers to end; they hold to the grace period themselves.
fn wait_for(workers: Vec<Worker>) -> Ended {
    let mut ended = Ended::Drained;
    for worker in workers {
        match worker.join() {
            Ok(Ok(drained)) if drained.cut == 0 => (),
            Ok(Ok(drained)) => {
                tracing::warn!(
                    requests = drained.cut,
                    "the grace period was over: what was under way is cut"
                );
                ended = Ended::Cut;
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "a worker could not serve");
                ended = Ended::Cut;
            }
            Err(_panicked) => {
                tracing::error!("a worker panicked");
                ended = Ended::Cut;
            }
        }
    }
    ended
}

fn join(addresses: &[SocketAddr]) -> String {
    addresses
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(",")
}
