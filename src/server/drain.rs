//! Stopping: told once, heard by every worker.

use std::time::Duration;

use tokio::sync::watch;

/// How a worker's connections ended.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Drained {
    /// How many were cut because the time was over.
    pub cut: usize,
}

/// Tells the workers to stop.
#[derive(Debug)]
pub struct Signal(watch::Sender<Option<Duration>>);

/// Hears that the worker is to stop. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<Option<Duration>>);

/// A signal, and what hears it.
#[must_use]
pub fn signal() -> (Signal, Stop) {
    let (sender, receiver) = watch::channel(None);
    (Signal(sender), Stop(receiver))
}

impl Signal {
    /// Accept no more; finish what is under way within `grace`.
    pub fn stop(&self, grace: Duration) {
        self.0.send_replace(Some(grace));
    }
}

impl Stop {
    /// Waits for the signal; gives the time for what is under way. A signal that was dropped means at once.
    pub(super) async fn wait(&mut self) -> Duration {
        match self.0.wait_for(Option::is_some).await {
            Ok(grace) => grace.unwrap_or_default(),
            Err(_dropped) => Duration::ZERO,
        }
    }
}

impl Drained {
    pub(super) fn add(&mut self, other: Self) {
        self.cut += other.cut;
    }
}
