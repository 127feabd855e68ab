//! Carries what waits to the server: one call at a time, on a connection that is rebuilt for ever.

use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::Shared;
use super::batch::Batch;
use super::connection::{Connector, Detour, Link};
use super::fault::{Connection, Fault};
use super::queue::{self, Queue};
use super::script::{Call, ForeignValue};
use crate::limit::algorithm::FixedWindow;
use crate::limit::{Charge, ChargeId, Cost, Key, Meter, Ruling, Stake, When};
use crate::telemetry::Events;
use crate::time::Micros;

/// How long a call may take before its connection is given up; longer where the deadline is.
const CALL: Duration = Duration::from_millis(500);
/// How often an idle pump looks around.
const TICK: Duration = Duration::from_millis(250);
/// How long a connection may be idle before it is asked for a sign of life.
const IDLE: Duration = Duration::from_secs(1);
/// How often the secret that gateways share is looked after: it must outlive a database that is emptied.
const RENEW: Duration = Duration::from_secs(10);
/// The wait after the first failed attempt to connect, and after many.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(25), Duration::from_millis(500));

/// One worker's way to its server.
#[derive(Debug)]
pub(super) struct Pump {
    pub(super) connector: Connector,
    pub(super) queue: Arc<Queue>,
    pub(super) shared: Arc<Shared>,
    pub(super) events: Events,
    /// How long a request waits; every such span without an answer is a failure.
    pub(super) deadline: Duration,
}

impl Pump {
    /// Connects, serves until the connection breaks, and again, until the handle is dropped.
    pub(super) async fn run(self) {
        let (first, longest) = BACKOFF;
        let mut backoff = first;
        while !self.queue.is_closed() {
            match self.connect().await {
                Ok(mut link) => {
                    backoff = first;
                    self.shared.guard.linked();
                    self.queue.set_link(queue::Link::Hopeful);
                    let fault = self.serve(&mut link).await;
                    self.shared.guard.unlinked();
                    if let Some(fault) = fault {
                        self.report(&fault);
                    }
                }
                Err(fault) => {
                    self.report(&fault);
                    self.shared.guard.failed();
                    self.queue.set_link(queue::Link::Down);
                    tokio::time::sleep(jitter(backoff)).await;
                    backoff = (backoff * 2).min(longest);
                }
            }
        }
    }

    /// Makes a connection and tries it. Requests wait for it no longer than one deadline.
    async fn connect(&self) -> Result<Link, Fault> {
        let mut attempt = pin!(async {
            let mut link = self.connector.connect().await?;
            tokio::time::timeout(CALL, self.introduce(&mut link))
                .await
                .unwrap_or_else(|_elapsed| Err(Fault::silent("no answer to a first call")))?;
            Ok(link)
        });
        if let Ok(made) = tokio::time::timeout(self.deadline, &mut attempt).await {
            return made;
        }
        self.queue.set_link(queue::Link::Down);
        attempt.await
    }

    /// The first questions on a connection: what the server lacks, what the secret is, and whether it counts.
    async fn introduce(&self, link: &mut Link) -> Result<(), Fault> {
        for want in link.wants(self.connector.prefix()).await? {
            self.events.store_error(want.kind, &want.detail);
        }
        self.agree(link).await?;
        self.try_out(link).await
    }

    /// Agrees on the secret that gateways share.
    async fn agree(&self, link: &mut Link) -> Result<(), Fault> {
        link.agree(&self.connector.secret_key(), &self.shared.keys)
            .await
    }

    /// Carries calls until the connection breaks or the handle is dropped.
    async fn serve(&self, link: &mut Link) -> Option<Fault> {
        let mut last = Instant::now();
        let mut agreed = last;
        loop {
            if agreed.elapsed() >= RENEW {
                match self.wait(self.agree(link)).await {
                    Err(fault) if fault.connection == Connection::Useless => return Some(fault),
                    Err(fault) => self.report(&fault),
                    Ok(()) => {}
                }
                agreed = Instant::now();
            }
            tokio::select! {
                biased;
                () = self.queue.ready() => {}
                fault = link.lost() => return Some(fault),
                () = tokio::time::sleep(TICK) => {
                    if let Err(fault) = self.look_around(link, &mut last).await {
                        return Some(fault);
                    }
                    continue;
                }
            }
            // Whoever is ready to ask does so first: a lone request waits for nobody, a busy round travels together.
            tokio::task::yield_now().await;
            while let Some(batch) = self.queue.take() {
                if let Some(fault) = self.carry(link, batch).await {
                    return Some(fault);
                }
                last = Instant::now();
            }
            if self.queue.is_closed() {
                return None;
            }
        }
    }

    /// Tries a server that the breaker keeps requests from; asks an idle one for a sign of life.
    async fn look_around(&self, link: &mut Link, last: &mut Instant) -> Result<(), Fault> {
        if self.shared.guard.claim_probe() {
            let started = Instant::now();
            match self.wait(self.try_out(link)).await {
                Ok(()) if started.elapsed() <= self.deadline => self.shared.guard.recovered(),
                Ok(()) => {}
                Err(fault) if fault.connection == Connection::Useless => return Err(fault),
                Err(fault) => self.report(&fault),
            }
        } else if last.elapsed() >= IDLE {
            match self.wait(link.ping()).await {
                Err(fault) if fault.connection == Connection::Useless => return Err(fault),
                Err(_) | Ok(()) => {}
            }
        } else {
            return Ok(());
        }
        *last = Instant::now();
        Ok(())
    }

    /// Sends a batch and hands out what comes back. Gives the fault after which the connection is of no use.
    async fn carry(&self, link: &mut Link, batch: Batch) -> Option<Fault> {
        let started = Instant::now();
        let reply = self
            .wait(link.call(batch.call(), |detour| self.note(detour)))
            .await;
        let took = started.elapsed();
        self.events.store_call(took, batch.requests());
        let fault = match reply.and_then(|reply| decode(&reply, batch.call())) {
            Ok(rulings) => {
                if took <= self.deadline {
                    self.shared.guard.succeeded();
                }
                if batch.deliver(rulings) > 0 {
                    self.events
                        .store_error("foreign_value", &"a key holds a value that is not sluice's");
                }
                return None;
            }
            Err(fault) => fault,
        };
        if took <= self.deadline {
            self.shared.guard.failed();
        }
        batch.fail(&fault.error);
        if fault.connection == Connection::Useless {
            return Some(fault);
        }
        self.report(&fault);
        None
    }

    /// Waits for an answer; every deadline that goes by without it is a failure, and after [`CALL`] none is expected.
    async fn wait<T>(&self, answer: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let started = Instant::now();
        let longest = CALL.max(self.deadline * 2);
        let mut answer = pin!(answer);
        let mut late = 0_u32;
        while started.elapsed() < longest {
            if let Ok(answer) = tokio::time::timeout(self.deadline, &mut answer).await {
                return answer;
            }
            late = late.saturating_add(1);
            self.shared.guard.failed();
            if late == 1 {
                self.events
                    .store_error("timeout", &"no answer within the deadline");
            }
        }
        Err(Fault::silent(
            "no answer to a call: the connection is given up",
        ))
    }

    /// Makes a call that writes, as the calls of requests do, to a key of its own.
    async fn try_out(&self, link: &mut Link) -> Result<(), Fault> {
        let meter = FixedWindow::new(1 << 32, Micros::SECOND)
            .map_err(|error| Fault::garbled(&error.to_string()))?;
        let mut call = Call::new();
        call.judge(&[Charge {
            key: Key::new(format!("{}:1:{{}}:trial:fw1s:", self.connector.prefix())),
            meter: Meter::FixedWindow(meter),
            cost: Cost::ONE,
            id: ChargeId::new(0),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }]);
        let reply = link.call(&call, |detour| self.note(detour)).await?;
        decode(&reply, &call)?;
        Ok(())
    }

    fn note(&self, detour: Detour) {
        self.events.store_error(detour.kind(), &detour);
    }

    fn report(&self, fault: &Fault) {
        self.events.store_error(fault.kind, &fault.detail);
    }
}

/// The rulings of a reply, one for each request that was sent.
fn decode(reply: &[u8], call: &Call) -> Result<Vec<Result<Ruling, ForeignValue>>, Fault> {
    let (_at, rulings) = call
        .decode(reply)
        .map_err(|error| Fault::garbled(&error.to_string()))?;
    Ok(rulings)
}

/// Between half and the whole of `span`, so that the workers of many gateways do not come back at once.
fn jitter(span: Duration) -> Duration {
    let half = span / 2;
    let draw = RandomState::new().hash_one(());
    half + Duration::from_micros(draw % (u64::try_from(half.as_micros()).unwrap_or(0) + 1))
}
