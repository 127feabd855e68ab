//! How what waits travels: many requests and settlements in one call.

use std::sync::Arc;

use super::super::StoreError;
use super::queue::{Ask, Item, Queue};
use super::script::{Call, ForeignValue, MAX_KEYS};
use super::settlement::{Settlement, Settling};
use super::way::{NoRuling, Redirect, Way};
use crate::limit::{Charge, Ruling};

/// So many settlements travel in one call at most.
const SETTLEMENTS_A_CALL: usize = 256;

/// One call, and who waits for its answers.
#[derive(Debug)]
pub(super) struct Batch {
    call: Call,
    way: Way,
    asks: Vec<Ask>,
    settlements: Vec<Settling>,
    queue: Arc<Queue>,
}

impl Batch {
    /// A call that carries `first`.
    pub(super) fn new(queue: Arc<Queue>, way: Way, first: Item) -> Self {
        let mut batch = Self {
            call: Call::new(),
            way,
            asks: Vec::new(),
            settlements: Vec::new(),
            queue,
        };
        batch.add(first);
        batch
    }

    /// How it travels.
    pub(super) fn way(&self) -> Way {
        self.way
    }

    /// A request that has more keys than any call should carry travels first, and so alone.
    pub(super) fn has_room_for(&self, charges: &[Charge]) -> bool {
        self.call.has_room_for(charges)
    }

    pub(super) fn has_room_for_a_settlement(&self) -> bool {
        self.settlements.len() < SETTLEMENTS_A_CALL && self.call.key_count() < MAX_KEYS
    }

    pub(super) fn add(&mut self, item: Item) {
        match item {
            Item::Ask(ask) => {
                self.call.judge(&ask.charges);
                self.asks.push(ask);
            }
            Item::Settle(settling) => {
                match &settling.settlement {
                    Settlement::GiveBack(receipt) => self.call.give_back(receipt),
                    Settlement::Spend(charge) => self.call.spend(charge),
                }
                self.settlements.push(settling);
            }
        }
    }

    /// What is sent.
    pub(super) fn call(&self) -> &Call {
        &self.call
    }

    /// How many requests it carries.
    pub(super) fn requests(&self) -> usize {
        self.asks.len()
    }

    /// Hands every request its ruling. Returns how many met a value that is not ours.
    pub(super) fn deliver(mut self, rulings: Vec<Result<Ruling, ForeignValue>>) -> usize {
        let mut foreign = 0;
        for (ask, ruling) in self.asks.drain(..).zip(rulings) {
            match ruling {
                Ok(ruling) => ask.rule(ruling, &self.queue),
                Err(ForeignValue) => {
                    foreign += 1;
                    ask.reply(Err(StoreError::Refused.into()));
                }
            }
        }
        self.settlements.clear();
        foreign
    }

    /// Tells every request that there is no ruling. Settlements are lost: they may have arrived, and go at most once.
    pub(super) fn fail(mut self, error: &StoreError) {
        for ask in self.asks.drain(..) {
            ask.reply(Err(error.clone().into()));
        }
    }

    /// Tells every request the other way. The call did nothing, so settlements go that way too.
    pub(super) fn redirect(mut self, redirect: &Redirect) {
        for ask in self.asks.drain(..) {
            ask.reply(Err(NoRuling::Redirected(redirect.clone())));
        }
        for settling in std::mem::take(&mut self.settlements) {
            self.queue.elsewhere(settling, Some(redirect));
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for _ in &self.settlements {
            self.queue.events.settlement_dropped();
        }
        self.queue.arrived();
    }
}
