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
