//! One request, from its head to the head of its answer: the whole story on one page.

mod body;
mod check;
mod exchange;
mod forward;
mod headers;
mod in_force;
mod jitter;
mod names;
mod outbound;
mod peer;
mod rate;
mod request_id;
mod respond;
mod turn;

pub use body::{Body, BodyError, Upload};
pub use peer::{Peer, Scheme};

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::{ArcSwap, Cache};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Method, Request, Response};

use crate::limiter::{Limiter, Outcome};
use crate::policy::{Policy, UpstreamTimeouts};
use crate::request::{Facts, Opening};
use crate::route::effective_host;
use crate::snapshot::Snapshot;
use crate::telemetry::{AccessSink, Events};
use body::{Content, Leftover, UploadState};
use exchange::Exchange;
use forward::{Way, forward};
use in_force::InForce;
use outbound::{Line, Outbound};
use request_id::RequestIds;
use respond::{After, Rejection};
use turn::Turns;

/// The snapshot of the moment, at the price of one plain load.
type Current = Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>;

/// Everything that one worker answers requests with.
pub struct Gateway {
    snapshots: RefCell<Current>,
    in_force: RefCell<Rc<InForce>>,
    limiter: Limiter,
    events: Events,
    access: Option<AccessSink>,
    request_ids: RequestIds,
    turns: Turns,
}

impl Gateway {
    /// A worker's gateway. Must be called on the worker's runtime.
    #[must_use]
    pub fn new(
        snapshots: Arc<ArcSwap<Snapshot>>,
        limiter: Limiter,
        events: Events,
        access: Option<AccessSink>,
    ) -> Self {
        let mut cache = Cache::new(snapshots);
        let in_force = InForce::new(Arc::clone(cache.load()), &events, None);
        Self {
            snapshots: RefCell::new(cache),
            in_force: RefCell::new(Rc::new(in_force)),
            limiter,
            events,
            access,
            request_ids: RequestIds::default(),
            turns: Turns::default(),
        }
    }

    /// The same gateway, where only so many requests wait their turn at once.
    #[cfg(test)]
    pub(crate) fn with_room_for(self, waiting: usize) -> Self {
        Self {
            turns: Turns::of(waiting),
            ..self
        }
    }

    /// The events of this worker.
    #[must_use]
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Answers one request, under one policy from start to finish. Never fails: every failure is an answer.
    pub async fn handle(&self, peer: Peer, request: Request<Incoming>) -> Response<Body> {
        let now = self.in_force();
        let (head, incoming) = request.into_parts();
        let upload = Upload::new(&head, incoming, UpstreamTimeouts::default().idle);
        let (progress, leftover) = (Rc::clone(upload.progress()), upload.leftover());
        let mut exchange = self.begin(now, peer, &head, &upload);
        let mut answer = match self.serve(&mut exchange, peer, &head, upload).await {
            Ok(answer) => {
                exchange.answered(answer.status());
                answer
            }
            Err(rejection) => {
                let unread =
                    leftover != Leftover::Small && progress.state() != UploadState::Finished;
                let after = if unread { After::Close } else { After::Keep };
                let answer = rejection.answer(exchange.now.policy(), &exchange.request_id, after);
                exchange.rejected(&rejection, answer.status());
                answer
            }
        };
        exchange.now.rate.clear(answer.headers_mut());
        // A client that is told it has nothing left might not follow the redirect.
        if !answer.status().is_redirection() {
            exchange.now.rate.add(answer.headers_mut(), &exchange.shown);
        }
        if answer.body().is_own() {
            exchange.now.cors.add(&head.headers, answer.headers_mut());
        }
        answer.map(|content| Body::new(content, exchange))
    }

    /// The story: check, identify, route, open, admit, wait, forward. Each stage takes what the one before it returned.
    async fn serve(
        &self,
        exchange: &mut Exchange,
        peer: Peer,
        head: &Parts,
        mut upload: Upload,
    ) -> Result<Response<Content>, Rejection> {
        check::request(head)?;
        if head.method == Method::OPTIONS && head.uri.path() == "*" {
            return Ok(respond::options());
        }
        let now = Rc::clone(&exchange.now);
        let policy = now.policy();

        let host = effective_host(head).map_err(|invalid| Rejection::Malformed(invalid.0))?;
        let target = policy
            .paths
            .read(&head.uri)
            .map_err(|invalid| Rejection::Malformed(invalid.0))?;
        let client = policy.clients.identify(peer.address, &head.headers);
        exchange.identified(&client, &host);

        let facts = Facts {
            head,
            client,
            host: &host,
            target: &target,
            route: None,
            route_params: &[],
            body: None,
        };
        let hit = policy.route_index.first(&facts).ok_or(Rejection::NoRoute)?;
        let route = policy.routes.get(hit.entry).ok_or(Rejection::NoRoute)?;
        exchange.routed(hit.entry);
        upload.set_pause(route.timeouts.idle);

        let way = Way::of(&now, route, head).ok_or(Rejection::NoRoute)?;
        let line = Line::of(head, &target)?;

        let facts = Facts {
            route: Some(&route.name),
            route_params: &hit.params,
            ..facts
        };
        let opening = opening(policy, &facts, &mut upload).await?;
        let facts = Facts {
            body: opening.as_ref(),
            ..facts
        };
        let limits = &now.instruments.limits;
        let mut admission = match self.limiter.admit(policy, limits, &facts).await {
            Ok(admission) => admission,
            Err(refusal) => {
                return Err(exchange.refused(jitter::later(refusal, policy.headers.retry_jitter)));
            }
        };
        exchange.judged(&mut admission);

        // Whoever leaves while waiting has spent the place.
        let delay = admission.delay.into();
        if self.turns.wait(delay).await.is_err() {
            admission.settle(Outcome::NotSent);
            return Err(Rejection::Crowded { retry: delay });
        }

        exchange.forwarded(way.upstream.spec());
        let outbound = Outbound::new(exchange, peer, &client, head, line, upload);
        let (answer, took) = forward(&way, admission, outbound).await?;
        exchange.heard(took);
        Ok(answer)
    }

    /// The policy of the moment: one plain load, unless there is a new one.
    fn in_force(&self) -> Rc<InForce> {
        let mut snapshots = self.snapshots.borrow_mut();
        let snapshot = snapshots.load();
        let mut in_force = self.in_force.borrow_mut();
        if !Arc::ptr_eq(&in_force.snapshot, snapshot) {
            let next = InForce::new(Arc::clone(snapshot), &self.events, Some(&in_force));
            *in_force = Rc::new(next);
        }
        Rc::clone(&in_force)
    }

    fn begin(&self, now: Rc<InForce>, peer: Peer, head: &Parts, upload: &Upload) -> Exchange {
        let request_id = self.request_ids.of(&head.headers);
        let line = now
            .policy()
            .access_log
            .as_ref()
            .zip(self.access.as_ref())
            .map(|(log, sink)| {
                (
                    sink.clone(),
                    exchange::entry(peer.address, head, &log.mask_query, &request_id),
                )
            });
        let mut exchange = Exchange::begin(
            now,
            head.method.clone(),
            Rc::clone(upload.progress()),
            request_id,
        );
        if let Some((sink, entry)) = line {
            exchange.log(sink, entry);
        }
        exchange
    }
}

/// The beginning of the body, where a limit that the request meets counts by it; nothing was spent yet.
async fn opening(
    policy: &Policy,
    facts: &Facts<'_>,
    upload: &mut Upload,
) -> Result<Option<Opening>, Rejection> {
    if !policy.counts_by_body(facts) {
        return Ok(None);
    }
    let opening = upload.open().await;
    opening
        .map(Some)
        .map_err(|state| Rejection::of_upload(state).unwrap_or(Rejection::ClientGone))
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway")
            .field("in_force", &self.in_force)
            .finish_non_exhaustive()
    }
}
