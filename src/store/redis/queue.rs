//! What waits for Redis, in order of arrival.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::super::StoreError;
use super::batch::Batch;
use crate::limit::{Charge, Receipt, Ruling};
use crate::telemetry::Events;

/// So many charges wait at most.
const CHARGES: usize = 1024;
/// So many settlements wait at most.
const SETTLEMENTS: usize = 4096;

/// The answer to a request: what was spent goes back unless someone takes it.
type Answer = Result<Spent, StoreError>;

/// What waits for one worker's connection.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    /// Told when something waits, or when the queue closes.
    ready: Notify,
    /// Told when nothing waits nor travels.
    idle: Notify,
    pub(super) events: Events,
}

#[derive(Debug)]
struct Waiting {
    items: VecDeque<Item>,
    charges: usize,
    settlements: usize,
    link: Link,
    /// A call is under way.
    travelling: bool,
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
enum Item {
    Ask(Ask),
    Settle(Settlement),
}

/// What is only told, never asked.
#[derive(Debug)]
pub(super) enum Settlement {
    /// Gives back what a receipt says.
    GiveBack(Receipt),
    /// Spends without asking.
    Spend(Charge),
}

#[derive(Debug)]
pub(super) struct Ask {
    pub(super) charges: Vec<Charge>,
    answer: oneshot::Sender<Answer>,
}

/// A ruling on its way to the request that asked for it. If nobody takes it, because the deadline passed or the client
/// hung up, what was spent is given back: nothing of the request went upstream.
#[derive(Debug)]
pub(super) struct Spent {
    ruling: Ruling,
    /// What was asked; empty once the ruling is taken.
    charges: Vec<Charge>,
    queue: Arc<Queue>,
}

impl Spent {
    /// Takes the ruling; what it spent stays spent.
    pub(super) fn keep(mut self) -> Ruling {
        self.charges.clear();
        Ruling {
            at: self.ruling.at,
            decisions: std::mem::take(&mut self.ruling.decisions),
        }
    }
}

impl Drop for Spent {
    fn drop(&mut self) {
        for (charge, decision) in self.charges.drain(..).zip(&self.ruling.decisions) {
            if let Some(mark) = decision.mark {
                self.queue.give_back(charge.receipt(mark));
            }
        }
    }
}

impl Queue {
    pub(super) fn new(events: Events) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                items: VecDeque::new(),
                charges: 0,
                settlements: 0,
                link: Link::Hopeful,
                travelling: false,
                full: false,
            }),
            ready: Notify::new(),
            idle: Notify::new(),
            events,
        }
    }

    /// Puts a request's question into the queue.
    pub(super) fn ask(&self, charges: &[Charge]) -> Result<oneshot::Receiver<Answer>, StoreError> {
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
            answer,
        }));
        drop(waiting);
        self.ready.notify_one();
        Ok(wait)
    }

    /// Puts a receipt behind what waits already.
    pub(super) fn give_back(&self, receipt: Receipt) {
        self.settle(Settlement::GiveBack(receipt));
    }

    /// Puts a charge that is not asked for behind what waits already.
    pub(super) fn spend(&self, charge: Charge) {
        self.settle(Settlement::Spend(charge));
    }

    fn settle(&self, settlement: Settlement) {
        let mut waiting = self.lock();
        if waiting.settlements >= SETTLEMENTS || waiting.link == Link::Closed {
            drop(waiting);
            self.events.settlement_dropped();
            return;
        }
        waiting.settlements += 1;
        waiting.items.push_back(Item::Settle(settlement));
        drop(waiting);
        self.ready.notify_one();
    }

    /// Takes what travels next; none where nothing waits. Requests whose client or deadline is gone are left out.
    pub(super) fn take(self: &Arc<Self>) -> Option<Batch> {
        let mut batch = Batch::new(Arc::clone(self));
        let mut waiting = self.lock();
        while let Some(item) = waiting.items.front() {
            match item {
                Item::Ask(ask) if !batch.has_room_for(&ask.charges) => break,
                Item::Settle(_) if !batch.has_room_for_a_settlement() => break,
                Item::Ask(_) | Item::Settle(_) => {}
            }
            match waiting.items.pop_front() {
                Some(Item::Ask(ask)) => {
                    waiting.charges -= ask.charges.len();
                    if !ask.answer.is_closed() {
                        batch.ask(ask);
                    }
                }
                Some(Item::Settle(settlement)) => {
                    waiting.settlements -= 1;
                    batch.settle(&settlement);
                }
                None => {}
            }
        }
        waiting.full = false;
        waiting.travelling = !batch.is_empty();
        if batch.is_empty() {
            drop(waiting);
            self.idle.notify_waiters();
            return None;
        }
        Some(batch)
    }

    /// Says that what was taken has arrived, or never will.
    pub(super) fn arrived(&self) {
        let mut waiting = self.lock();
        waiting.travelling = false;
        if waiting.items.is_empty() {
            self.idle.notify_waiters();
        }
    }

    /// Says how the connection is. Requests that wait for one that is down are told so; settlements go on
    /// waiting.
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
                ask.reply(Err(StoreError::Unreachable));
            }
        }
    }

    pub(super) fn is_down(&self) -> bool {
        self.lock().link != Link::Hopeful
    }

    pub(super) fn close(&self) {
        self.set_link(Link::Closed);
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
                if waiting.items.is_empty() && !waiting.travelling {
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

impl Ask {
    /// Hands the ruling to whoever waits.
    pub(super) fn rule(mut self, ruling: Ruling, queue: &Arc<Queue>) {
        let charges = std::mem::take(&mut self.charges);
        self.reply(Ok(Spent {
            ruling,
            charges,
            queue: Arc::clone(queue),
        }));
    }

    pub(super) fn reply(self, answer: Answer) {
        // When nobody waits any more, the answer is dropped here, and gives back what it spent.
        drop(self.answer.send(answer));
    }
}
