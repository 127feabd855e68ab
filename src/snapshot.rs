//! A policy in force, and what each worker counts under it.

use std::sync::Arc;

use crate::policy::Policy;
use crate::telemetry::{Events, LimitEvents, RouteEvents, UpstreamEvents};

/// A policy in force. A reload makes a new one; a request keeps the one that it began under to its end.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What the configuration means.
    pub policy: Arc<Policy>,
    /// Which snapshot it is, from 1.
    pub generation: u64,
}

/// The cells that one worker counts in under one snapshot, found once so that no request looks one up by name.
#[derive(Clone, Debug)]
pub struct Instruments {
    /// By index into [`Policy::limits`].
    pub limits: Vec<LimitEvents>,
    /// By index into [`Policy::upstreams`].
    pub upstreams: Vec<UpstreamEvents>,
    routes: Vec<RouteEvents>,
    unrouted: RouteEvents,
}

impl Snapshot {
    /// The first policy of the process.
    #[must_use]
    pub fn first(policy: Arc<Policy>) -> Self {
        Self {
            policy,
            generation: 1,
        }
    }

    /// The snapshot after this one.
    #[must_use]
    pub fn next(&self, policy: Arc<Policy>) -> Self {
        Self {
            policy,
            generation: self.generation.saturating_add(1),
        }
    }
}

impl Instruments {
    /// The cells of everything that `policy` names.
    #[must_use]
    pub fn resolve(policy: &Policy, events: &Events) -> Self {
        Self {
            limits: policy
                .limits
                .iter()
                .map(|limit| events.limit(&limit.name))
                .collect(),
            upstreams: policy
                .upstreams
                .iter()
                .map(|upstream| events.upstream(&upstream.name))
                .collect(),
            routes: policy
                .routes
                .iter()
                .map(|route| events.route(&route.name))
                .collect(),
            unrouted: events.route("none"),
        }
    }

    /// The cells of a route, by index into [`Policy::routes`]; none where nothing matched.
    #[must_use]
    pub fn route(&self, route: Option<usize>) -> &RouteEvents {
        route
            .and_then(|route| self.routes.get(route))
            .unwrap_or(&self.unrouted)
    }
}
