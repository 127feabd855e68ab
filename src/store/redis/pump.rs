//! Carries what waits to the server: one call at a time, on a connection that is rebuilt for ever.

use std::hash::{BuildHasher, RandomState};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use super::super::Shared;
use super::super::guard::Guard;
use super::batch::Batch;
use super::cluster::Member;
use super::connection::{Connector, Detour, Link, secret_key};
use super::fault::{Connection, Fault};
use super::queue::{self, Queue};
use super::script::{Call, ForeignValue};
use super::way::Manner;
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
    pub(super) guard: Arc<Guard>,
    /// On a cluster, which node the server is.
    pub(super) member: Option<Member>,
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
                    self.guard.linked();
                    self.queue.set_link(queue::Link::Hopeful);
                    let fault = self.serve(&mut link).await;
                    self.guard.unlinked();
                    if let Some(fault) = fault {
                        self.report(&fault);
                    }
                }
                Err(fault) => {
                    self.report(&fault);
                    self.guard.failed();
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

    /// Agrees on the secret that gateways share, where this server has it.
    async fn agree(&self, link: &Link) -> Result<(), Fault> {
        let key = secret_key(self.connector.prefix());
        if self.member.as_ref().is_some_and(|member| !member.has(&key)) {
            return Ok(());
        }
        match link.agree(&key, &self.shared.keys).await {
            Err(fault) if self.is_elsewhere(&fault) => Ok(()),
            agreed => agreed,
        }
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
            loop {
                let batches = self.queue.take();
                if batches.is_empty() {
                    break;
                }
                if let Some(fault) = self.carry(link, batches).await {
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
    async fn look_around(&self, link: &Link, last: &mut Instant) -> Result<(), Fault> {
        if !self.shared.keys.is_settled() {
            self.wait(self.agree(link)).await?;
        }
        if self.guard.claim_probe() {
            let started = Instant::now();
            match self.wait(self.try_out(link)).await {
                Ok(()) if started.elapsed() <= self.deadline => self.guard.recovered(),
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

    /// Sends batches back to back; each hands out what comes back for it. Gives the fault after which the connection is
    /// of no use.
    async fn carry(&self, link: &Link, batches: Vec<Batch>) -> Option<Fault> {
        let started = Instant::now();
        let requests = batches.iter().map(Batch::requests).sum();
        let calls = batches
            .into_iter()
            .map(|batch| Box::pin(self.carry_one(link, batch, started)));
        match self.wait(first_fault(calls.collect())).await {
            Ok(fault) => fault,
            Err(silent) => {
                self.events.store_call(started.elapsed(), requests);
                Some(silent)
            }
        }
    }

    async fn carry_one(&self, link: &Link, batch: Batch, started: Instant) -> Option<Fault> {
        let manner = batch.way().manner;
        let reply = link
            .call(batch.call(), manner, |detour| self.note(detour))
            .await;
        let took = started.elapsed();
        self.events.store_call(took, batch.requests());
        let fault = match reply.and_then(|reply| decode(&reply, batch.call())) {
            Ok(rulings) => {
                if took <= self.deadline {
                    self.guard.succeeded();
                }
                if batch.deliver(rulings) > 0 {
                    self.events
                        .store_error("foreign_value", &"a key holds a value that is not sluice's");
                }
                return None;
            }
            Err(fault) => fault,
        };
        if let (Some(redirect), Some(_)) = (&fault.redirect, &self.member) {
            // The node is well, and did nothing.
            self.events.store_error(fault.kind, &fault.detail);
            batch.redirect(redirect);
            return None;
        }
        if took <= self.deadline {
            self.guard.failed();
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
            self.guard.failed();
            if let Some(member) = &self.member {
                member.troubled();
            }
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
    async fn try_out(&self, link: &Link) -> Result<(), Fault> {
        let meter = FixedWindow::new(1 << 32, Micros::SECOND)
            .map_err(|error| Fault::garbled(&error.to_string()))?;
        let tag = self.member.as_ref().and_then(Member::tag);
        let (prefix, tag) = (self.connector.prefix(), tag.unwrap_or_default());
        let mut call = Call::new();
        call.judge(&[Charge {
            key: Key::new(format!("{prefix}:1:{{{tag}}}:trial:fw1s:")),
            meter: Meter::FixedWindow(meter),
            cost: Cost::ONE,
            id: ChargeId::new(0),
            stake: Stake::Binding,
            limit: 0,
            spent: When::Admitted,
        }]);
        let reply = link
            .call(&call, Manner::Alone, |detour| self.note(detour))
            .await;
        match reply.and_then(|reply| decode(&reply, &call)) {
            Ok(_) => Ok(()),
            // A node whose slots have moved is well.
            Err(fault) if self.is_elsewhere(&fault) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// Whether a node only says that another one is to be asked.
    fn is_elsewhere(&self, fault: &Fault) -> bool {
        match &self.member {
            Some(member) if fault.redirect.is_some() => {
                member.troubled();
                true
            }
            Some(_) | None => false,
        }
    }

    fn note(&self, detour: Detour) {
        self.events.store_error(detour.kind(), &detour);
    }

    fn report(&self, fault: &Fault) {
        self.events.store_error(fault.kind, &fault.detail);
        if let Some(member) = &self.member {
            member.troubled();
        }
    }
}

/// Runs calls that are sent back to back until each has ended; the first fault of any.
async fn first_fault<F>(mut calls: Vec<Pin<Box<F>>>) -> Result<Option<Fault>, Fault>
where
    F: Future<Output = Option<Fault>>,
{
    let mut first = None;
    std::future::poll_fn(|context| {
        calls.retain_mut(|call| match call.as_mut().poll(context) {
            Poll::Ready(fault) => {
                first = first.take().or(fault);
                false
            }
            Poll::Pending => true,
        });
        if calls.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    Ok(first)
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
