//! One worker's ways to the nodes of a cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::time::Instant;

use super::super::Lane;
use super::super::connection::Connector;
use super::super::queue::Spent;
use super::super::settlement::{Settlement, Settling};
use super::super::way::{Manner, NoRuling, Redirect, Way};
use super::node::{Member, Node};
use super::slots::Slot;
use super::topology::{Known, Topology};
use crate::limit::Charge;
use crate::policy::{NodeAddress, RedisSpec};
use crate::store::{Shared, StoreError};
use crate::telemetry::Events;

/// So many nodes are asked for one ruling at most: the one of the map, the right one, and who is being given the slot.
const ASKED: usize = 3;
/// So many nodes a cluster may have.
const NODES: usize = 1024;

/// The lanes of one worker, one for each node.
#[derive(Debug)]
pub(in crate::store::redis) struct Router {
    pub(super) topology: Arc<Topology>,
    lanes: Mutex<HashMap<NodeAddress, Open>>,
    spec: RedisSpec,
    shared: Arc<Shared>,
    events: Events,
    /// Itself, for the lanes that it opens.
    own: Weak<Self>,
}

/// A lane, and where it leads.
#[derive(Debug)]
struct Open {
    node: Arc<Node>,
    lane: Arc<Lane>,
}

impl Router {
    pub(super) fn new(
        topology: &Arc<Topology>,
        spec: &RedisSpec,
        shared: &Arc<Shared>,
        events: &Events,
    ) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            topology: Arc::clone(topology),
            lanes: Mutex::default(),
            spec: spec.clone(),
            shared: Arc::clone(shared),
            events: events.clone(),
            own: Weak::clone(own),
        })
    }

    /// Keeps the map fresh, taking turns with the other workers, and the lanes as the map says, for as long as anyone
    /// uses the router.
    pub(super) async fn keep(router: Weak<Self>) {
        let Some((topology, spec, events)) = router.upgrade().map(|router| {
            let Self {
                topology,
                spec,
                events,
                ..
            } = &*router;
            (Arc::clone(topology), spec.clone(), events.clone())
        }) else {
            return;
        };
        let mut known = topology.known();
        loop {
            tokio::select! {
                () = topology.due() => topology.fetch(&spec, &events).await,
                Ok(()) = known.changed() => {}
            }
            let Some(router) = router.upgrade() else {
                return;
            };
            router.reconcile();
        }
    }

    /// Opens a lane to every node of the map, and closes those to others once nobody waits there.
    fn reconcile(&self) {
        let map = self.topology.map();
        for node in map.nodes() {
            // Where there are too many, those that are used are opened.
            drop(self.lane(node));
        }
        let gone: Vec<_> = {
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            let gone = lanes.extract_if(|_, Open { node, .. }| {
                !map.nodes().iter().any(|known| Arc::ptr_eq(known, node))
            });
            gone.collect()
        };
        // Not under the lock: what waits there comes back here.
        drop(gone);
    }

    /// The lane to `node`.
    fn lane(&self, node: &Arc<Node>) -> Result<Arc<Lane>, StoreError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Open { lane, .. }) = lanes.get(&node.address) {
            return Ok(Arc::clone(lane));
        }
        if lanes.len() >= NODES {
            return Err(StoreError::NotAsked);
        }
        let member = Member {
            node: Arc::clone(node),
            topology: Arc::clone(&self.topology),
            router: Weak::clone(&self.own),
        };
        let lane = Arc::new(Lane::open(
            Connector::to(&node.address, &self.spec),
            &node.guard,
            Some(member),
            self.spec.deadline,
            &self.shared,
            &self.events,
        ));
        let open = Open {
            node: Arc::clone(node),
            lane: Arc::clone(&lane),
        };
        lanes.insert(node.address.clone(), open);
        Ok(lane)
    }

    /// Asks the node of `slot`, and where that one says so, another.
    pub(super) async fn ask(
        &self,
        slot: Slot,
        manner: Manner,
        charges: &[Charge],
        until: Instant,
    ) -> Result<Spent, NoRuling> {
        let mut node = self.owner(slot, until).await?;
        let mut way = Way { slot, manner };
        let mut refused = NoRuling::Away(StoreError::Refused);
        for _ in 0..ASKED {
            refused = match self.lane(&node)?.ask(charges, way, until).await {
                Err(NoRuling::Redirected(redirect)) => NoRuling::Redirected(redirect),
                ruling => return ruling,
            };
            match self.another(&refused, &node, manner) {
                Some((next, manner)) => (node, way.manner) = (next, manner),
                None => break,
            }
        }
        Err(refused)
    }

    /// Where to ask next, and how, after `node` refused; none where nobody else is the one to ask.
    fn another(
        &self,
        refused: &NoRuling,
        node: &Node,
        manner: Manner,
    ) -> Option<(Arc<Node>, Manner)> {
        match refused {
            NoRuling::Redirected(Redirect::Moved { slot, to }) => {
                Some((self.topology.moved(*slot, to, node), manner))
            }
            NoRuling::Redirected(Redirect::Ask { to }) => {
                Some((self.topology.redirected(to, node), Manner::Asking))
            }
            NoRuling::Redirected(Redirect::TryAgain) | NoRuling::Away(_) => None,
        }
    }

    /// Whose slot it is. Before there is a map, requests wait for it.
    async fn owner(&self, slot: Slot, until: Instant) -> Result<Arc<Node>, StoreError> {
        if let Some(owner) = self.topology.map().owner(slot) {
            return Ok(Arc::clone(owner));
        }
        let mut known = self.topology.known();
        let hope = known.wait_for(|known| *known != Known::Hopeful);
        match tokio::time::timeout_at(until, hope).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return Err(StoreError::Timeout),
        }
        if let Some(owner) = self.topology.map().owner(slot) {
            return Ok(Arc::clone(owner));
        }
        self.topology.want();
        Err(StoreError::Unreachable)
    }

    /// Sends a settlement to the node of its key.
    pub(super) fn settle(&self, settlement: Settlement) {
        let way = settlement.way();
        self.send_on(settlement.by(way), None);
    }

    /// Sends a settlement to where it belongs: as `redirect` says, else as the map does.
    pub(in crate::store::redis) fn send_on(
        &self,
        mut settling: Settling,
        redirect: Option<(&Redirect, &Node)>,
    ) {
        let slot = settling.way.slot;
        let node = match redirect {
            Some((Redirect::Moved { slot, to }, from)) => {
                settling.way.manner = Manner::Together;
                Some(self.topology.moved(*slot, to, from))
            }
            Some((Redirect::Ask { to }, from)) => {
                settling.way.manner = Manner::Asking;
                Some(self.topology.redirected(to, from))
            }
            Some((Redirect::TryAgain, _)) => {
                settling.way.manner = Manner::Alone;
                self.topology.map().owner(slot).map(Arc::clone)
            }
            None => self.topology.map().owner(slot).map(Arc::clone),
        };
        match node.and_then(|node| self.lane(&node).ok()) {
            Some(lane) => lane.queue.settle(settling),
            None => self.events.settlement_dropped(),
        }
    }

    /// Whether the node of `key` answers, or is about to.
    pub(super) fn is_hopeful(&self, key: &str) -> bool {
        let map = self.topology.map();
        match map.owner(Slot::of(key)) {
            Some(node) => self.lane(node).is_ok_and(|lane| lane.is_hopeful()),
            None => !self.topology.is_lost(),
        }
    }

    /// Waits until nothing waits nor travels.
    pub(super) async fn idle(&self) {
        // What one node refuses goes to another one, so two rounds.
        for _ in 0..2 {
            let lanes: Vec<_> = {
                let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                lanes.values().map(|open| Arc::clone(&open.lane)).collect()
            };
            for lane in lanes {
                lane.queue.idle().await;
            }
        }
    }
}
