//! How what waits travels: many requests and settlements in one call.

use std::sync::Arc;

use super::super::StoreError;
use super::queue::{Ask, Queue, Settlement};
use super::script::{Call, ForeignValue, MAX_KEYS};
use crate::limit::{Charge, Ruling};

/// So many settlements travel in one call at most.
const SETTLEMENTS_A_CALL: usize = 256;

/// One call, and who waits for its answers.
#[derive(Debug)]
pub(super) struct Batch {
    call: Call,
    asks: Vec<Ask>,
    settlements: usize,
    queue: Arc<Queue>,
}

impl Batch {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self {
            call: Call::new(),
            asks: Vec::new(),
            settlements: 0,
            queue,
        }
    }

    /// A request that has more keys than any call should carry travels alone.
    pub(super) fn has_room_for(&self, charges: &[Charge]) -> bool {
        self.is_empty() || self.call.has_room_for(charges)
    }

    pub(super) fn has_room_for_a_settlement(&self) -> bool {
        self.settlements < SETTLEMENTS_A_CALL && self.call.key_count() < MAX_KEYS
    }

    pub(super) fn ask(&mut self, ask: Ask) {
        self.call.judge(&ask.charges);
        self.asks.push(ask);
    }

    pub(super) fn settle(&mut self, settlement: &Settlement) {
        match settlement {
            Settlement::GiveBack(receipt) => self.call.give_back(receipt),
            Settlement::Spend(charge) => self.call.spend(charge),
        }
        self.settlements += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.asks.is_empty() && self.settlements == 0
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
                    ask.reply(Err(StoreError::Refused));
                }
            }
        }
        self.settlements = 0;
        foreign
    }

    /// Tells every request that there is no ruling. Settlements are lost: they may have arrived, and go at most once.
    pub(super) fn fail(mut self, error: &StoreError) {
        for ask in self.asks.drain(..) {
            ask.reply(Err(error.clone()));
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        for _ in 0..self.settlements {
            self.queue.events.settlement_dropped();
        }
        self.queue.arrived();
    }
}
