//! One request from its head to the end of its answer, and what is recorded then.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::body::{Progress, UploadState};
use super::in_force::InForce;
use super::respond::{CLIENT_GONE, Rejection};
use crate::limiter::{Admission, Met, Refusal, Shown};
use crate::policy::{Policy, UpstreamSpec};
use crate::request::Client;
use crate::telemetry::access::masked;
use crate::telemetry::{AccessEntry, AccessSink, Decided};

/// A request that is being answered. Recorded exactly once: at the end of the answer, or when it is dropped before.
#[derive(Debug)]
pub(super) struct Exchange {
    pub(super) now: Rc<InForce>,
    pub(super) method: Method,
    /// Names the request in every log.
    pub(super) request_id: HeaderValue,
    /// Index into `Policy::routes`.
    pub(super) route: Option<usize>,
    /// What the client is told about its limits.
    pub(super) shown: Vec<Shown>,
    /// The limits that the upstream is told of: `Sluice-Over-Limit`.
    pub(super) over: Option<HeaderValue>,
    /// A limit reads the trailers of the answer.
    pub(super) reads_trailers: bool,
    began: Instant,
    upload: Rc<Progress>,
    /// The status of the answer, as records call it; [`CLIENT_GONE`] until there is one.
    code: u16,
    sent: u64,
    line: Option<Box<Line>>,
    ended: bool,
}

/// How an answer ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ended {
    /// All of it was handed to the connection.
    Complete,
    /// The upstream broke off.
    Broken,
    /// The client left.
    Gone,
}

/// What only the access log needs.
#[derive(Debug)]
struct Line {
    sink: AccessSink,
    entry: AccessEntry,
}

impl Exchange {
    pub(super) fn begin(
        now: Rc<InForce>,
        method: Method,
        upload: Rc<Progress>,
        request_id: HeaderValue,
    ) -> Self {
        Self {
            now,
            method,
            request_id,
            route: None,
            shown: Vec::new(),
            over: None,
            reads_trailers: false,
            began: Instant::now(),
            upload,
            code: CLIENT_GONE,
            sent: 0,
            line: None,
            ended: false,
        }
    }

    /// A line of the access log will be written.
    pub(super) fn log(&mut self, sink: AccessSink, entry: AccessEntry) {
        self.line = Some(Box::new(Line { sink, entry }));
    }

    fn entry(&mut self) -> Option<&mut AccessEntry> {
        self.line.as_mut().map(|line| &mut line.entry)
    }

    /// Who asks, and whom.
    pub(super) fn identified(&mut self, client: &Client, host: &str) {
        let Some(entry) = self.entry() else { return };
        entry.client = client.address;
        entry.host = host.to_owned();
    }

    /// Which route it takes.
    pub(super) fn routed(&mut self, route: usize) {
        self.route = Some(route);
        let now = Rc::clone(&self.now);
        if let (Some(entry), Some(route)) = (self.entry(), now.policy().routes.get(route)) {
            entry.route = route.name.clone();
        }
    }

    /// Its limits let it pass.
    pub(super) fn judged(&mut self, admission: &mut Admission) {
        self.shown = std::mem::take(&mut admission.shown);
        self.over = over(&admission.met, self.now.policy());
        self.reads_trailers = admission.wants_trailers();
        let delay = Duration::from(admission.delay);
        self.fared(&admission.met);
        if let Some(entry) = self.entry() {
            entry.delay = delay;
            entry.decision = overall(&admission.met);
        }
    }

    /// A limit said no.
    pub(super) fn refused(&mut self, refusal: Refusal) -> Rejection {
        if let Refusal::Limited { shown, met, .. } = &refusal {
            self.shown.clone_from(shown);
            self.fared(met);
        }
        refusal.into()
    }

    fn fared(&mut self, met: &Met) {
        let now = &self.now;
        let Some(line) = self.line.as_deref_mut() else {
            return;
        };
        let named = met.iter().filter_map(|&(limit, decided)| {
            Some((now.policy().limits.get(limit)?.name.clone(), decided))
        });
        line.entry.limits = named.collect();
    }

    /// It goes to this upstream.
    pub(super) fn forwarded(&mut self, upstream: &UpstreamSpec) {
        if let Some(entry) = self.entry() {
            entry.upstream = Some(upstream.name.clone());
        }
    }

    /// The head of the upstream's answer came after `took`.
    pub(super) fn heard(&mut self, took: Duration) {
        if let Some(entry) = self.entry() {
            entry.upstream_took = Some(took);
        }
    }

    /// The gateway answers by itself, with this status.
    pub(super) fn rejected(&mut self, rejection: &Rejection, status: StatusCode) {
        self.code = match rejection {
            Rejection::ClientGone => CLIENT_GONE,
            _ => status.as_u16(),
        };
        if let Some(entry) = self.entry() {
            entry.reason = Some(rejection.reason());
            entry.decision = rejection.decided().unwrap_or(entry.decision);
        }
    }

    /// The upstream answers.
    pub(super) fn answered(&mut self, status: StatusCode) {
        self.code = status.as_u16();
    }

    /// A piece of the answer was handed to the connection.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent = self
            .sent
            .saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    /// The end; what follows the first is ignored.
    pub(super) fn end(&mut self, how: Ended) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let took = self.began.elapsed();
        let gone = how == Ended::Gone || self.upload.state() == UploadState::Gone;
        self.now
            .instruments
            .route(self.route)
            .ended(&self.method, self.code, took);
        let Some(line) = self.line.take() else { return };
        let Line { sink, mut entry } = *line;
        entry.status = if gone { CLIENT_GONE } else { self.code };
        entry.duration = took;
        entry.bytes_in = self.upload.bytes();
        entry.bytes_out = self.sent;
        entry.reason = match how {
            _ if gone => Some("client_gone"),
            Ended::Broken => Some("upstream_broke_off"),
            Ended::Complete | Ended::Gone => entry.reason,
        };
        let share = self
            .now
            .policy()
            .access_log
            .as_ref()
            .map_or(0, |log| log.sample_allowed);
        if sink.wants(entry.decision, share) {
            sink.write(entry);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(Ended::Gone);
    }
}

/// How a request that passed fared as a whole: what an operator would look for comes first.
fn overall(met: &Met) -> Decided {
    let order = [
        Decided::Tagged,
        Decided::ShadowRejected,
        Decided::Delayed,
        Decided::Allowed,
    ];
    let first = order
        .into_iter()
        .find(|decided| met.iter().any(|(_, one)| one == decided));
    first.unwrap_or(Decided::Skipped)
}

/// The names of the limits that tag, in the order of the file.
fn over(met: &Met, policy: &Policy) -> Option<HeaderValue> {
    let tagged = met
        .iter()
        .filter(|(_, decided)| *decided == Decided::Tagged);
    let names = tagged.filter_map(|(limit, _)| Some(&*policy.limits.get(*limit)?.name));
    let names: SmallVec<[&str; 4]> = names.collect();
    if names.is_empty() {
        return None;
    }
    HeaderValue::try_from(names.join(", ")).ok()
}

/// An entry with what is known when the head arrives.
pub(super) fn entry(
    peer: SocketAddr,
    head: &Parts,
    masked_names: &[String],
    request_id: &HeaderValue,
) -> AccessEntry {
    AccessEntry {
        time: SystemTime::now(),
        request_id: String::from_utf8_lossy(request_id.as_bytes()).into_owned(),
        client: peer.ip(),
        peer,
        method: head.method.clone(),
        host: String::new(),
        path: masked(head.uri.path(), head.uri.query(), masked_names),
        route: "none".into(),
        status: 0,
        decision: Decided::Skipped,
        limits: SmallVec::new(),
        upstream: None,
        duration: Duration::ZERO,
        upstream_took: None,
        delay: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 0,
        reason: None,
    }
}
