//! The composition root: policy -> store -> snapshot -> workers -> wait -> drain.

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
use tokio::sync::watch;

use crate::admin::{self, AdminState};
use crate::gateway::Gateway;
use crate::limiter::Limiter;
use crate::policy::Policy;
use crate::reload;
use crate::server::{self, Drained};
use crate::snapshot::Snapshot;
use crate::store::{Shared, Store};
use crate::telemetry::{AccessSink, Events, Registry};

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

/// Serves `policy` until told to stop; `announce` is called once the gateway listens.
///
/// # Errors
/// An address cannot be bound, or a thread or runtime cannot be made.
pub fn run(policy: Policy, source: Source, announce: impl FnOnce(&Addresses)) -> io::Result<Ended> {
    let registry = Registry::new();
    let events = Events::new(&registry);
    let listeners = server::bind(&policy.listen, policy.workers)?;
    let admin = std::net::TcpListener::bind(policy.admin)?;
    let addresses = Addresses { listen: listeners.addresses().to_vec(), admin: admin.local_addr()? };

    let process = Process {
        shared: Shared::new(&policy.store, policy.secret.as_ref()),
        access: AccessSink::stdout(&registry),
        ready: Arc::new(AtomicBool::new(true)),
        snapshots: Arc::new(ArcSwap::from_pointee(Snapshot::first(policy))),
        registry,
        events,
    };
    let (stop, stopped) = watch::channel(false);
    let workers = process.start_workers(listeners, &stopped)?;
    tracing::info!(listen = %join(&addresses.listen), admin = %addresses.admin, "the gateway is listening");
    announce(&addresses);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(process.operate(source, admin, &stop))?;
    let ended = wait_for(workers);
    process.access.flush();
    tracing::info!(?ended, "the gateway has ended");
    Ok(ended)
}

/// What all threads share.
struct Process {
    registry: Registry,
    events: Events,
    shared: Arc<Shared>,
    access: AccessSink,
    ready: Arc<AtomicBool>,
    snapshots: Arc<ArcSwap<Snapshot>>,
}

impl Process {
    /// One thread a worker, each with its own listeners, store connection and upstream connections.
    fn start_workers(
        &self,
        listeners: server::Listeners,
        stop: &watch::Receiver<bool>,
    ) -> io::Result<Vec<JoinHandle<io::Result<Drained>>>> {
        listeners
            .into_workers()
            .enumerate()
            .map(|(number, sockets)| {
                let (registry, shared, access) = (self.registry.clone(), Arc::clone(&self.shared), self.access.clone());
                let (snapshots, stop) = (Arc::clone(&self.snapshots), stop.clone());
                std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
                    server::run_worker(sockets, stop, || {
                        let events = Events::new(&registry);
                        let policy = Arc::clone(&snapshots.load().policy);
                        let store = Store::open(&policy.store, &shared, events.clone());
                        let limiter = Limiter::new(store, events.clone());
                        Rc::new(Gateway::new(snapshots, limiter, events, access))
                    })
                })
            })
            .collect()
    }

    /// Answers operators, reloads, and waits for the signal to stop; then lets the workers drain.
    async fn operate(
        &self,
        source: Source,
        admin: std::net::TcpListener,
        stop: &watch::Sender<bool>,
    ) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let state = AdminState::new(self.registry.clone(), Arc::clone(&self.ready), config_page(&self.snapshots));
        let endpoint = tokio::spawn(admin::serve(admin, state, stop.subscribe()));
        let reloading = tokio::spawn(self.reloading(source)?);

        first_of(&mut terminate, &mut interrupt).await;
        let drain = self.snapshots.load().policy.drain;
        tracing::info!(wait = ?drain.wait, grace = ?drain.grace, "stopping");
        self.ready.store(false, Ordering::Release);
        reloading.abort();
        // A second signal ends the wait, not the grace.
        tokio::select! {
            () = tokio::time::sleep(drain.wait) => (),
            () = first_of(&mut terminate, &mut interrupt) => (),
        }
        stop.send_replace(true);
        endpoint.abort();
        Ok(())
    }
}
