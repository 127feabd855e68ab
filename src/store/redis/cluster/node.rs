//! A node of a cluster, as the whole process sees it, and what a pump knows of the node that it serves.

use std::sync::{Arc, Weak};

use super::super::settlement::Settling;
use super::super::way::Redirect;
use super::route::Router;
use super::slots::Slot;
use super::topology::Topology;
use crate::policy::NodeAddress;
use crate::store::guard::Guard;

/// One node.
#[derive(Debug)]
pub(in crate::store::redis) struct Node {
    pub(super) address: NodeAddress,
    pub(super) guard: Arc<Guard>,
}

/// A node among the others, and the worker that asks it.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct Member {
    pub(super) node: Arc<Node>,
    pub(super) topology: Arc<Topology>,
    pub(super) router: Weak<Router>,
}

impl Member {
    /// A tag whose keys lie on the node, as far as is known.
    pub(in crate::store::redis) fn tag(&self) -> Option<String> {
        self.topology.map().tag_on(&self.node)
    }

    /// Whether the node has this key, as far as is known.
    pub(in crate::store::redis) fn has(&self, key: &str) -> bool {
        let map = self.topology.map();
        map.owner(Slot::of(key))
            .is_some_and(|owner| Arc::ptr_eq(owner, &self.node))
    }

    /// Something is wrong with the node: perhaps others have its slots by now.
    pub(in crate::store::redis) fn troubled(&self) {
        self.topology.want();
    }

    /// Sends a settlement, which the node did nothing with, where it belongs.
    pub(in crate::store::redis) fn send_on(
        &self,
        settling: Settling,
        redirect: Option<&Redirect>,
    ) -> Sent {
        match self.router.upgrade() {
            Some(router) => {
                router.send_on(settling, redirect.map(|redirect| (redirect, &*self.node)));
                Sent::On
            }
            None => Sent::Nowhere,
        }
    }
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::store::redis) enum Sent {
    On,
    Nowhere,
}
