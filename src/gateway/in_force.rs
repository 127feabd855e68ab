//! What one worker needs to serve under one snapshot, made when it first sees it.

use std::rc::Rc;
use std::sync::Arc;

use hyper::header::HeaderName;

use super::body::Upload;
use super::rate::RateFields;
use super::respond::CorsFields;
use crate::limit::key::Source;
use crate::policy::Policy;
use crate::snapshot::{Instruments, Snapshot};
use crate::telemetry::Events;
use crate::upstream::Upstream;

/// A snapshot with this worker's cells and connections.
#[derive(Debug)]
pub(super) struct InForce {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) instruments: Instruments,
    pub(super) rate: RateFields,
    pub(super) cors: CorsFields,
    /// The fields that limits count by.
    pub(super) counted: Vec<HeaderName>,
    upstreams: Vec<Rc<Upstream<Upload>>>,
}

impl InForce {
    /// Upstreams whose definition did not change since `before` keep their connections.
    pub(super) fn new(snapshot: Arc<Snapshot>, events: &Events, before: Option<&Self>) -> Self {
        let policy = &snapshot.policy;
        let known = before
            .map(|before| before.upstreams.as_slice())
            .unwrap_or_default();
        let upstreams = policy.upstreams.iter().map(|spec| {
            let kept = known.iter().find(|upstream| upstream.spec() == spec);
            kept.map_or_else(|| Upstream::new(Arc::clone(spec)), Rc::clone)
        });
        Self {
            upstreams: upstreams.collect(),
            instruments: Instruments::resolve(policy, events),
            rate: RateFields::compile(policy),
            cors: CorsFields::compile(policy),
            counted: counted(policy),
            snapshot,
        }
    }

    pub(super) fn policy(&self) -> &Policy {
        &self.snapshot.policy
    }

    pub(super) fn upstream(&self, index: usize) -> Option<&Rc<Upstream<Upload>>> {
        self.upstreams.get(index)
    }
}

fn counted(policy: &Policy) -> Vec<HeaderName> {
    let sources = policy
        .limits
        .iter()
        .flat_map(|limit| limit.per.parts.iter().flatten());
    let names = sources.filter_map(|source| match source {
        Source::Header(name) | Source::TrustedHeader(name) => Some(name.clone()),
        _ => None,
    });
    names.collect()
}
