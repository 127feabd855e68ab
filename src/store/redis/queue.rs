//! What waits for Redis, in order of arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::super::StoreError;
use super::batch::Batch;
use super::cluster::{Member, Sent};
use super::settlement::{Settlement, Settling};
use super::way::{Manner, NoRuling, Redirect, Way};
use crate::limit::{Charge, Receipt, Ruling};
use crate::telemetry::Events;

/// So many charges wait at most.
const CHARGES: usize = 1024;
/// So many settlements wait at most.
const SETTLEMENTS: usize = 4096;
/// So many calls go back to back at most: one for each slot.
const CALLS: usize = 64;
/// So often a settlement is sent on at most.
const HOPS: u8 = 3;

/// The answer to a request: what was spent goes back unless someone takes it.
type Answer = Result<Spent, NoRuling>;

/// What waits for one worker's connection.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Told when something waits, or when the queue closes.
    ready: Notify,
    /// Told when nothing waits nor travels.
    idle: Notify,
    pub(super) events: Events,
    /// On a cluster, which knows where else settlements may go.
    member: Option<Member>,
}

#[derive(Debug)]
struct Waiting {
    items: VecDeque<Item>,
    charges: usize,
    settlements: usize,
    link: Link,
    /// Calls that are under way.
    travelling: usize,
    /// The queue is so full that it refuses; told once for each time.
    full: bool,
}

/// How the connection is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Link {
    /// It stands, or is about to: requests wait for it.
    Hopeful,
    /// It could not be made: requests are told so at once.
    Down,
    /// Nobody holds the handle any more.
    Closed,
}

#[derive(Debug)]
pub(super) enum Item {
    Ask(Ask),
    Settle(Settling),
}

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) charges: Vec<Charge>,
    way: Way,
    answer: oneshot::Sender<Answer>,
}

/// A ruling on its way to the request that asked for it. If nobody takes it, because the deadline passed or the client
/// hung up, what was spent is given back: nothing of the request went upstream.
#[derive(Debug)]
pub(super) struct Spent {
    ruling: Ruling,
    /// What was asked; empty once the ruling is taken.
    charges: Vec<Charge>,
    way: Way,
    queue: Arc<Queue>,
}

impl Spent {
    /// What was ruled, before it is taken.
    pub(super) fn ruling(&self) -> &Ruling {
        &self.ruling
    }

    /// Takes the ruling; what it spent stays spent.
    pub(super) fn keep(mut self) -> Ruling {
        self.charges.clear();
        Ruling {
            at: self.ruling.at,
            decisions: std::mem::take(&mut self.ruling.decisions),
        }
    }
}

impl Spent {
    /// Takes the ruling and what `stays` of it; the rest is given back, and has no mark any more.
    pub(super) fn keep_where(mut self, stays: impl Fn(&Charge) -> bool) -> Ruling {
        for (charge, decision) in self.charges.drain(..).zip(&mut self.ruling.decisions) {
            if let Some(mark) = decision.mark.filter(|_| !stays(&charge)) {
                self.queue.give_back(charge.receipt(mark), self.way);
                decision.mark = None;
            }
        }
        self.keep()
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        for (charge, decision) in self.charges.drain(..).zip(&self.ruling.decisions) {
            if let Some(mark) = decision.mark {
                self.queue.give_back(charge.receipt(mark), self.way);
            }
        }
    }
}

impl Queue {
    pub(super) fn new(events: Events, member: Option<Member>) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                charges: 0,
                settlements: 0,
                link: Link::Hopeful,
                travelling: 0,
                full: false,
            }),
            ready: Notify::new(),
            idle: Notify::new(),
            events,
            member,
        }
    }

    /// Puts a request's question into the queue.
    pub(super) fn ask(
        &self,
        charges: &[Charge],
        way: Way,
    ) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let (answer, wait) = oneshot::channel();
        let mut waiting = self.lock();
        if waiting.link != Link::Hopeful {
            return Err(StoreError::Unreachable);
        }
        if waiting.charges + charges.len() > CHARGES {
            let first = !std::mem::replace(&mut waiting.full, true);
            drop(waiting);
            if first {
                self.events
                    .store_error("queue_full", &"too many requests wait for the store");
            }
            return Err(StoreError::NotAsked);
        }
        waiting.charges += charges.len();
        waiting.items.push_back(Item::Ask(Ask {
            charges: charges.to_vec(),
            way,
            answer,
        }));
        drop(waiting);
        self.ready.notify_one();
        Ok(wait)
    }

    /// Gives a charge back.
    pub(super) fn give_back(&self, receipt: Receipt, way: Way) {
        self.settle(Settlement::GiveBack(receipt).by(way));
    }

    /// Puts a settlement behind what waits already.
    pub(super) fn settle(&self, settling: Settling) {
        let mut waiting = self.lock();
        if waiting.link == Link::Closed {
            drop(waiting);
            self.elsewhere(settling, None);
            return;
        }
        if waiting.settlements >= SETTLEMENTS {
            drop(waiting);
            self.events.settlement_dropped();
            return;
        }
        waiting.settlements += 1;
        waiting.items.push_back(Item::Settle(settling));
        drop(waiting);
        self.ready.notify_one();
    }

    /// Sends a settlement, which nothing was done with here, where it belongs.
    pub(super) fn elsewhere(&self, mut settling: Settling, redirect: Option<&Redirect>) {
        settling.hops += 1;
        let sent = match &self.member {
            Some(member) if settling.hops <= HOPS => member.send_on(settling, redirect),
            Some(_) | None => Sent::Nowhere,
        };
        if sent == Sent::Nowhere {
            self.events.settlement_dropped();
        }
    }

    /// Takes what travels next, back to back: one call, on a cluster one for each slot. Requests whose client or deadline
    /// is gone are left out.
    pub(super) fn take(self: &Arc<Self>) -> Vec<Batch> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut waiting = self.lock();
        while let Some(item) = waiting.items.front() {
            if item.is_forsaken() {
                waiting.pop();
                continue;
            }
            let (way, calls) = (item.way(), batches.len());
            let riding = match way.manner {
                Manner::Together => batches.iter_mut().find(|batch| batch.way() == way),
                Manner::Alone | Manner::Asking => None,
            };
            let room = match (item, &riding) {
                (_, None) => calls < CALLS,
                (Item::Ask(ask), Some(batch)) => batch.has_room_for(&ask.charges),
                (Item::Settle(_), Some(batch)) => batch.has_room_for_a_settlement(),
            };
            let Some(item) = room.then(|| waiting.pop()).flatten() else {
                break;
            };
            match riding {
                Some(batch) => batch.add(item),
                None => batches.push(Batch::new(Arc::clone(self), way, item)),
            }
        }
        waiting.full = false;
        waiting.travelling += batches.len();
        if waiting.items.is_empty() && waiting.travelling == 0 {
            self.idle.notify_waiters();
        }
        batches
    }

    /// Says that what was taken has arrived, or never will.
    pub(super) fn arrived(&self) {
        let mut waiting = self.lock();
        waiting.travelling = waiting.travelling.saturating_sub(1);
        if waiting.items.is_empty() && waiting.travelling == 0 {
            self.idle.notify_waiters();
        }
    }

    /// Says how the connection is. Requests that wait for one that is down are told so; settlements go on waiting.
    pub(super) fn set_link(&self, link: Link) {
        let mut waiting = self.lock();
        if waiting.link == Link::Closed {
            return;
        }
        waiting.link = link;
        if link == Link::Hopeful {
            return;
        }
        waiting.charges = 0;
        let (asks, settlements): (VecDeque<_>, VecDeque<_>) = std::mem::take(&mut waiting.items)
            .into_iter()
            .partition(|item| matches!(item, Item::Ask(_)));
        waiting.items = settlements;
        drop(waiting);
        for ask in asks {
            if let Item::Ask(ask) = ask {
                ask.reply(Err(StoreError::Unreachable.into()));
            }
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.lock().link != Link::Hopeful
    }

    /// Nobody asks here any more. Settlements that have not left yet go where else they belong.
    pub(super) fn close(&self) {
        self.set_link(Link::Closed);
        if self.member.is_some() {
            let mut waiting = self.lock();
            waiting.settlements = 0;
            let items = std::mem::take(&mut waiting.items);
            drop(waiting);
            for item in items {
                if let Item::Settle(settling) = item {
                    self.elsewhere(settling, None);
                }
            }
        }
        self.ready.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().link == Link::Closed
    }

    /// Waits until there may be something to take.
    pub(super) async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Waits until nothing waits nor travels.
    pub(super) async fn idle(&self) {
        loop {
            let told = self.idle.notified();
            {
                let waiting = self.lock();
                if waiting.items.is_empty() && waiting.travelling == 0 {
                    return;
                }
            }
            told.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        match &item {
            Item::Ask(ask) => self.charges -= ask.charges.len(),
            Item::Settle(_) => self.settlements -= 1,
        }
        Some(item)
    }
}

impl Item {
    fn way(&self) -> Way {
        match self {
            Self::Ask(ask) => ask.way,
            Self::Settle(settling) => settling.way,
        }
    }

    /// Whether nobody waits for it any more.
    fn is_forsaken(&self) -> bool {
        matches!(self, Self::Ask(ask) if ask.answer.is_closed())
    }
}

impl Ask {
    /// Hands the ruling to whoever waits.
    pub(super) fn rule(mut self, ruling: Ruling, queue: &Arc<Queue>) {
        let charges = std::mem::take(&mut self.charges);
        let way = self.way;
        self.reply(Ok(Spent {
            ruling,
            charges,
            way,
            queue: Arc::clone(queue),
        }));
    }

    pub(super) fn reply(self, answer: Answer) {
        // When nobody waits any more, the answer is dropped here, and gives back what it spent.
        drop(self.answer.send(answer));
    }
}
