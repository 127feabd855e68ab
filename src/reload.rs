//! A changed file or SIGHUP -> load -> compile -> swap, or say why not.
//!
//! The file is looked at once a second (its inode, time and length, through symbolic links), which also notices the
//! swapped links of a mounted `ConfigMap`, an editor's rename, and a file that was away for a while. A change counts when
//! it has stood still for one look, so a file that is being written is not read half. Whatever is wrong with the new
//! file, the policy in force stays as it is: nothing is torn down before the swap.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::signal::unix::Signal;
use tokio::time::MissedTickBehavior;

use crate::config::{self, Colour, Loaded};
use crate::policy::Policy;
use crate::snapshot::Snapshot;
use crate::telemetry::Events;

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What can be told of files without reading them; none where one is not there.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Stamp(Vec<Option<FileStamp>>);

/// Which file it is, when it was written, how long it is.
#[derive(Clone, Debug, Eq, PartialEq)]
struct FileStamp {
    device: u64,
    inode: u64,
    written: (i64, i64),
    length: u64,
}

impl Stamp {
    fn of(files: &[PathBuf]) -> Self {
        let stamp = |meta: Metadata| FileStamp {
            device: meta.dev(),
            inode: meta.ino(),
            written: (meta.mtime(), meta.mtime_nsec()),
            length: meta.len(),
        };
        Self(
            files
                .iter()
                .map(|file| std::fs::metadata(file).ok().map(stamp))
                .collect(),
        )
    }
}

/// What a reload needs.
#[derive(Debug)]
pub struct Reload {
    /// The file.
    pub path: PathBuf,
    /// What `${NAME}` stands for.
    pub environment: fn(&str) -> Option<String>,
    /// Where the policy in force is.
    pub snapshots: Arc<ArcSwap<Snapshot>>,
    /// What is in force, in words.
    pub in_words: Arc<ArcSwap<String>>,
    /// Where the result is told.
    pub events: Events,
}

impl Reload {
    /// Reloads whenever `hangup` arrives or one of the `files` that the policy was read from has changed, until dropped.
    pub async fn watch(self, mut files: Vec<PathBuf>, mut hangup: Signal) {
        let mut in_force = Stamp::of(&files);
        let mut last_look = in_force.clone();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                arrived = hangup.recv() => {
                    if arrived.is_none() {
                        return;
                    }
                    self.apply(&mut files);
                    in_force = Stamp::of(&files);
                    last_look = in_force.clone();
                }
                _ = looks.tick() => {
                    let look = Stamp::of(&files);
                    if look != in_force && look == last_look {
                        self.apply(&mut files);
                        in_force = Stamp::of(&files);
                        last_look = in_force.clone();
                    } else {
                        last_look = look;
                    }
                }
            }
        }
    }

    /// Reads the file anew; `files` becomes what it was read from, so that a new include is watched too.
    fn apply(&self, files: &mut Vec<PathBuf>) {
        match config::load(&self.path, &self.environment) {
            Err(report) => {
                tracing::error!(
                    "the configuration is not valid; the policy in force stays:\n{}",
                    report.render(Colour::Off)
                );
                self.events.reloaded("invalid");
            }
            Ok(loaded) => {
                for warning in loaded.warnings.lines() {
                    tracing::warn!("{warning}");
                }
                files.clone_from(&loaded.files);
                self.swap(&loaded);
            }
        }
    }

    fn swap(&self, loaded: &Loaded) {
        let (current, policy) = (self.snapshots.load_full(), &loaded.policy);
        let fixed = fixed_fields_that_differ(&current.policy, policy);
        if !fixed.is_empty() {
            tracing::error!(
                fields = fixed.join(", "),
                "these fields take effect only at a restart; the policy in force stays"
            );
            self.events.reloaded("restart_required");
            return;
        }
        let changed = changed_names(&current.policy, policy);
        self.snapshots
            .store(Arc::new(current.next(Arc::new(policy.clone()))));
        self.in_words.store(Arc::new(loaded.explain()));
        tracing::info!(changed = changed.join(", "), "a new policy is in force");
        self.events.reloaded("ok");
    }
}

/// What is set up once at the start and cannot be swapped.
fn fixed_fields_that_differ(current: &Policy, next: &Policy) -> Vec<&'static str> {
    [
        ("listen", current.listen != next.listen),
        ("admin", current.admin != next.admin),
        ("workers", current.workers != next.workers),
        ("store", current.store != next.store),
        ("secret", current.secret != next.secret),
    ]
    .into_iter()
    .filter_map(|(field, differs)| differs.then_some(field))
    .collect()
}

/// Limits and routes that the new policy adds, changes or drops, for the log.
fn changed_names(current: &Policy, next: &Policy) -> Vec<String> {
    let mut changed = Vec::new();
    differences(
        "limit",
        &current.limits,
        &next.limits,
        |limit| &limit.name,
        &mut changed,
    );
    differences(
        "route",
        &current.routes,
        &next.routes,
        |route| &route.name,
        &mut changed,
    );
    changed
}

/// The names of those of `after` that are not among `before`, and of those that are gone.
fn differences<T: PartialEq>(
    what: &str,
    before: &[T],
    after: &[T],
    name: impl Fn(&T) -> &str,
    changed: &mut Vec<String>,
) {
    let new = after.iter().filter(|one| !before.contains(one));
    changed.extend(new.map(|one| format!("{what} {}", name(one))));
    let gone = before
        .iter()
        .filter(|one| !after.iter().any(|other| name(other) == name(one)));
    changed.extend(gone.map(|one| format!("{what} {} (gone)", name(one))));
}
