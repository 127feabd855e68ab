//! Which nodes there are and who has which slot: once a process, learned from any node, and again whenever one says that
//! it has changed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::{Notify, watch};

use super::super::fault::Fault;
use super::node::Node;
use super::reply::slots;
use super::slots::{Range, Slot, SlotMap};
use crate::policy::{NodeAddress, RedisSpec};
use crate::store::guard::{Guard, Health};
use crate::telemetry::Events;

/// How often the map is fetched at most, and again after nobody gave it.
const SOONEST: Duration = Duration::from_millis(100);
const AGAIN: Duration = Duration::from_millis(250);
/// How often it is fetched when nothing says that it has changed.
const LATEST: Duration = Duration::from_secs(15);

/// What all workers know of a cluster.
#[derive(Debug)]
pub(in crate::store) struct Topology {
    seeds: Vec<NodeAddress>,
    map: ArcSwap<SlotMap>,
    known: watch::Sender<Known>,
    /// Every node that anyone still uses, so that all share its breaker.
    nodes: Mutex<HashMap<NodeAddress, Weak<Node>>>,
    /// When the map is fetched next, and when it was last: microseconds since `since`.
    due: AtomicU64,
    last: AtomicU64,
    since: Instant,
    earlier: Notify,
    health: Arc<Health>,
}

/// Whether there is a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Known {
    /// Not yet; requests wait for it.
    Hopeful,
    /// No node gave one: requests are told so at once.
    Lost,
    /// The so many-th.
    Map(u64),
}

impl Topology {
    /// Of a cluster that nothing is known of but `seeds`. Connects to nothing.
    pub(in crate::store) fn new(seeds: &[NodeAddress], health: &Arc<Health>) -> Arc<Self> {
        Arc::new(Self {
            seeds: seeds.to_vec(),
            map: ArcSwap::default(),
            known: watch::Sender::new(Known::Hopeful),
            nodes: Mutex::default(),
            due: AtomicU64::new(0),
            last: AtomicU64::new(0),
            since: Instant::now(),
            earlier: Notify::new(),
            health: Arc::clone(health),
        })
    }

    pub(super) fn map(&self) -> arc_swap::Guard<Arc<SlotMap>> {
        self.map.load()
    }

    pub(super) fn known(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.known.borrow() == Known::Lost
    }

    /// The node at `address`: always the same while anyone uses it.
    pub(super) fn node(&self, address: &NodeAddress) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = nodes.get(address).and_then(Weak::upgrade) {
            return node;
        }
        nodes.retain(|_, node| node.strong_count() > 0);
        let node = Arc::new(Node {
            address: address.clone(),
            guard: Guard::new(&self.health),
        });
        nodes.insert(address.clone(), Arc::downgrade(&node));
        node
    }

    /// `from` says that `slot` is at `to`: so it is, until the map says otherwise.
    pub(super) fn moved(&self, slot: Slot, to: &NodeAddress, from: &Node) -> Arc<Node> {
        let node = self.redirected(to, from);
        self.map
            .rcu(|map| Arc::new(map.with(slot, Arc::clone(&node))));
        self.want();
        node
    }

    /// The node that `from` calls `to`; without a host, it is where `from` is.
    pub(super) fn redirected(&self, to: &NodeAddress, from: &Node) -> Arc<Node> {
        if to.host.is_empty() {
            self.node(&NodeAddress {
                host: Arc::clone(&from.address.host),
                port: to.port,
            })
        } else {
            self.node(to)
        }
    }

    /// Something has changed: the map is fetched as soon as it may be.
    pub(super) fn want(&self) {
        let soonest = self
            .last
            .load(Ordering::Relaxed)
            .saturating_add(micros(SOONEST));
        let at = self.now().max(soonest);
        if self.due.fetch_min(at, Ordering::Relaxed) > at {
            self.earlier.notify_waiters();
        }
    }

    /// Waits until the map is to be fetched, and whoever calls this is the one to do it.
    pub(super) async fn due(&self) {
        loop {
            let earlier = self.earlier.notified();
            let (now, due) = (self.now(), self.due.load(Ordering::Relaxed));
            if due > now {
                let wait = tokio::time::sleep(Duration::from_micros(due - now));
                tokio::select! { () = earlier => {} () = wait => {} }
                continue;
            }
            // Should this worker end meanwhile, another one has its turn then.
            let next = now.saturating_add(micros(LATEST));
            let claimed =
                self.due
                    .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
            if claimed.is_ok() {
                self.last.store(now, Ordering::Relaxed);
                return;
            }
        }
    }

    /// Fetches the map from the first node that gives it: one that answers, else one that the configuration names.
    pub(super) async fn fetch(&self, spec: &RedisSpec, events: &Events) {
        let map = self.map.load_full();
        let mut known: Vec<_> = map.nodes().iter().collect();
        known.sort_by_key(|node| !node.guard.is_up());
        let known = known.into_iter().map(|node| &node.address);
        let mut asked: Vec<&NodeAddress> = Vec::new();
        for address in known.chain(&self.seeds) {
            if asked.contains(&address) {
                continue;
            }
            asked.push(address);
            match slots(address, spec).await {
                Ok(ranges) if !ranges.is_empty() => return self.learn(ranges),
                Ok(_) => report(
                    &Fault::garbled("the node has no map of slots"),
                    address,
                    events,
                ),
                Err(fault) => report(&fault, address, events),
            }
        }
        self.due
            .fetch_min(self.now().saturating_add(micros(AGAIN)), Ordering::Relaxed);
        self.known.send_if_modified(|known| {
            let first = *known == Known::Hopeful;
            if first {
                *known = Known::Lost;
            }
            first
        });
        if map.nodes().is_empty() {
            self.health.lost();
        }
    }

    fn learn(&self, ranges: Vec<Range<NodeAddress>>) {
        let with_nodes = ranges.into_iter().map(|range| Range {
            first: range.first,
            last: range.last,
            node: self.node(&range.node),
        });
        let map = SlotMap::new(with_nodes.collect());
        self.map.store(Arc::new(map));
        self.known.send_modify(|known| {
            *known = match *known {
                Known::Map(count) => Known::Map(count.wrapping_add(1)),
                Known::Hopeful | Known::Lost => Known::Map(0),
            }
        });
    }

    fn now(&self) -> u64 {
        micros(self.since.elapsed())
    }
}

fn report(fault: &Fault, node: &NodeAddress, events: &Events) {
    events.store_error(fault.kind, &format_args!("{node}: {}", fault.detail));
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
