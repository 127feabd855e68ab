//! One request, from its head to the head of its answer: the whole story on one page.

mod body;
mod check;
mod exchange;
mod forward;
mod headers;
mod in_force;
mod names;
mod rate;
mod respond;

pub use body::{Body, BodyError, Upload};

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, Cache};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Response, Uri};
use tokio::time::sleep;

use crate::limiter::{Limiter, Refusal};
use crate::policy::UpstreamTimeouts;
use crate::request::{Client, Facts, Target};
use crate::route::effective_host;
use crate::snapshot::Snapshot;
use crate::telemetry::{AccessSink, Events};
use body::{Content, Leftover, Trailers, UploadState};
use exchange::Exchange;
use forward::{Outbound, Way, forward};
use headers::{Framing, Rewrite};
use in_force::InForce;
use respond::Rejection;

/// The other end of a client's connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Peer {
    /// Its address.
    pub address: SocketAddr,
    /// What it speaks with us.
    pub scheme: Scheme,
}

/// Whether a connection is encrypted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Scheme {
    /// It is not.
    #[default]
    Http,
    /// It is.
    Https,
}

/// The snapshot of the moment, at the price of one plain load.
type Current = Cache<Arc<ArcSwap<Snapshot>>, Arc<Snapshot>>;

/// Everything that one worker answers requests with.
pub struct Gateway {
    snapshots: RefCell<Current>,
    in_force: RefCell<Rc<InForce>>,
    limiter: Limiter,
    events: Events,
    access: Option<AccessSink>,
    /// The number of the next request; begins anywhere.
    serial: Cell<u64>,
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
        let serial = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), std::process::id());
        Self {
            snapshots: RefCell::new(cache),
            in_force: RefCell::new(Rc::new(in_force)),
            limiter,
            events,
            access,
            serial: Cell::new(serial),
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
                exchange.rejected(&rejection);
                let mut answer = rejection.answer(exchange.now.policy());
                answer.headers_mut().insert(headers::X_REQUEST_ID, exchange.request_id.clone());
                let unread = progress.state() != UploadState::Finished && leftover != Leftover::Small;
                if unread || matches!(rejection, Rejection::Framing) {
                    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
                }
                answer
            }
        };
        // A client that is told it has nothing left might not follow the redirect.
        if !answer.status().is_redirection() {
            exchange.now.rate.add(answer.headers_mut(), &exchange.shown);
        }
        answer.map(|content| Body::new(content, exchange))
    }

    /// The story: check, identify, route, admit, wait, forward. Each stage takes what the one before it returned.
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
        let target = policy.paths.read(&head.uri).map_err(|invalid| Rejection::Malformed(invalid.0))?;
        let client = policy.clients.identify(peer.address, &head.headers);
        exchange.identified(&client, &host);

        let facts = Facts { head, client, host: &host, target: &target, route: None, route_params: &[] };
        let hit = policy.route_index.first(&facts).ok_or(Rejection::NoRoute)?;
        let route = policy.routes.get(hit.entry).ok_or(Rejection::NoRoute)?;
        exchange.routed(hit.entry);
        upload.set_pause(route.timeouts.idle);

        let facts = Facts { route: Some(&route.name), route_params: &hit.params, ..facts };
        let admitted = self.limiter.admit(policy, &now.instruments.limits, &facts).await;
        let mut admission = admitted.inspect_err(|refusal| {
            if let Refusal::Limited { shown, .. } = refusal {
                exchange.judged(shown.clone(), Duration::ZERO);
            }
        })?;
        exchange.judged(std::mem::take(&mut admission.shown), admission.delay.into());

        // Whoever leaves while waiting has spent the place.
        if admission.delay.get() > 0 {
            sleep(admission.delay.into()).await;
        }

        let upstream = now.upstream(route.upstream).ok_or(Rejection::NoRoute)?;
        let events = now.instruments.upstreams.get(route.upstream).ok_or(Rejection::NoRoute)?;
        if let Some(entry) = exchange.entry() {
            entry.upstream = Some(upstream.spec().name.clone());
        }
        let trailers = if headers::takes_trailers(&head.headers) { Trailers::Forward } else { Trailers::Drop };
        let way = Way { upstream, events, timeouts: route.timeouts, trailers };
        let uri = forwarded_target(&head.uri, &target).ok_or(Rejection::Malformed("the target is not a path"))?;
        let outbound = outbound(exchange, peer, head, &client, uri, upload)?;
        let (answer, took) = forward(&way, admission, outbound).await?;
        if let Some(entry) = exchange.entry() {
            entry.upstream_took = Some(took);
        }
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
        let request_id = self.request_id(head);
        let line = now.policy().access_log.as_ref().zip(self.access.as_ref()).map(|(log, sink)| {
            (sink.clone(), exchange::entry(peer.address, head, &log.mask_query, &request_id))
        });
        let mut exchange = Exchange::begin(now, head.method.clone(), Rc::clone(upload.progress()), request_id);
        if let Some((sink, entry)) = line {
            exchange.log(sink, entry);
        }
        exchange
    }

    /// The name that the request came with, if it is harmless in any log; else a new one.
    fn request_id(&self, head: &Parts) -> HeaderValue {
        let harmless = |id: &&HeaderValue| {
            (1..=64).contains(&id.len())
                && id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
        };
        if let Some(id) = head.headers.get(headers::X_REQUEST_ID).filter(harmless) {
            return id.clone();
        }
        let serial = self.serial.replace(self.serial.get().wrapping_add(1));
        HeaderValue::try_from(format!("{serial:016x}")).unwrap_or(HeaderValue::from_static("0"))
    }
}

/// The request as the upstream will see it.
fn outbound(
    exchange: &Exchange,
    peer: Peer,
    head: &Parts,
    client: &Client,
    uri: Uri,
    body: Upload,
) -> Result<Outbound, Rejection> {
    let host = host_as_sent(head).ok_or(Rejection::Malformed("the host is not a field value"))?;
    let rewrite = Rewrite {
        client,
        rules: &exchange.now.policy().clients,
        counted: &exchange.now.counted,
        scheme: peer.scheme.as_str(),
        host: &host,
        framing: Framing::of(&head.method, &body),
        request_id: &exchange.request_id,
    };
    let fields = headers::request(head, &rewrite);
    Ok(Outbound { method: head.method.clone(), uri, fields, body })
}

/// The host as the client wrote it: of an absolute target its authority, else the `Host` field.
fn host_as_sent(head: &Parts) -> Option<HeaderValue> {
    match head.uri.authority() {
        Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
        None => head.headers.get(header::HOST).cloned(),
    }
}

/// The normalised path with the query as sent.
fn forwarded_target(sent: &Uri, target: &Target) -> Option<Uri> {
    let same = sent.path() == target.exact;
    let path_and_query = match (sent.path_and_query(), &target.query) {
        (Some(sent), _) if same => sent.clone(),
        (_, None) => PathAndQuery::try_from(target.exact.as_str()).ok()?,
        (_, Some(query)) => PathAndQuery::try_from(format!("{}?{query}", target.exact)).ok()?,
    };
    Some(Uri::from(path_and_query))
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gateway").field("in_force", &self.in_force).finish_non_exhaustive()
    }
}
