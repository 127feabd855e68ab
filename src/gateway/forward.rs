//! Sending an admitted request to its upstream, and settling its admission by what becomes of it.

use std::rc::Rc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::{Request, Response, Version};
use tokio::time::{Instant, timeout_at};

use super::body::{Content, Progress, Relay, Trailers, Upload};
use super::headers;
use super::in_force::InForce;
use super::outbound::{Outbound, for_server};
use super::respond::{Fault, Rejection};
use crate::limiter::{Admission, Outcome};
use crate::policy::{Route, UpstreamTimeouts};
use crate::telemetry::UpstreamEvents;
use crate::upstream::{Freshness, Lease, SendFailure, Upstream};

/// Where a request goes.
#[derive(Debug)]
pub(super) struct Way<'w> {
    pub(super) upstream: &'w Upstream<Upload>,
    pub(super) events: &'w UpstreamEvents,
    pub(super) timeouts: UpstreamTimeouts,
    pub(super) trailers: Trailers,
}

impl<'w> Way<'w> {
    /// The way of a request that takes `route`.
    pub(super) fn of(now: &'w InForce, route: &Route, head: &Parts) -> Option<Self> {
        let trailers = if headers::takes_trailers(&head.headers) {
            Trailers::Forward
        } else {
            Trailers::Drop
        };
        Some(Self {
            upstream: now.upstream(route.upstream)?,
            events: now.instruments.upstreams.get(route.upstream)?,
            timeouts: route.timeouts,
            trailers,
        })
    }
}

/// Whether a byte of the request may have reached an upstream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reached {
    No,
    Perhaps,
}

/// Sends the request; consumes the admission and settles it.
pub(super) async fn forward(
    way: &Way<'_>,
    admission: Admission,
    outbound: Outbound,
) -> Result<(Response<Content>, Duration), Rejection> {
    let in_flight = way.events.begin();
    let method = outbound.method.clone();
    let began = Instant::now();
    let sent = send(way, outbound).await;
    let took = began.elapsed();
    let (answer, lease) = match sent {
        Ok(sent) => sent,
        Err((rejection, reached)) => {
            admission.settle(match reached {
                Reached::No => Outcome::NotSent,
                Reached::Perhaps => Outcome::Unknown,
            });
            way.events.answered(rejection.code(), took);
            return Err(rejection);
        }
    };
    if answer.status().is_informational() {
        // 101: an upgrade that nobody asked for. The connection speaks something else from here on.
        admission.settle(Outcome::Unknown);
        let rejection = Rejection::Upstream(Fault::Protocol);
        way.events.answered(rejection.code(), took);
        return Err(rejection);
    }
    let unsettled = admission.answered(answer.status(), answer.headers());
    way.events.answered(answer.status().as_u16(), took);
    let (mut head, incoming) = answer.into_parts();
    head.version = Version::HTTP_11;
    head.extensions.clear();
    headers::response(head.status, &mut head.headers, &method, way.trailers);
    let relay = Relay::new(
        incoming,
        lease,
        way.trailers,
        way.timeouts.idle,
        unsettled,
        in_flight,
    );
    Ok((Response::from_parts(head, Content::Relay(relay)), took))
}

type Sent = (Response<Incoming>, Lease<Upload>);

/// Sends, once more over a new connection where that cannot do the request twice.
async fn send(way: &Way<'_>, outbound: Outbound) -> Result<Sent, (Rejection, Reached)> {
    let connect = way.timeouts.connect;
    let lease = way.upstream.lease(Freshness::Any, connect).await;
    let mut lease = lease.map_err(|error| (Rejection::Connect(error), Reached::No))?;
    let progress = Rc::clone(outbound.body.progress());
    let again = lease.is_reused().then(|| outbound.again()).flatten();
    let request = outbound.into_request(&lease);
    let failure = match exchange(&mut lease, request, &progress, way.timeouts.response).await {
        Ok(answer) => return Ok((answer, lease)),
        Err(failure) => failure,
    };
    let (request, reached) = match (failure, again) {
        // The server had closed the connection; not a byte was written.
        (Failure::Unsent(request), _) => (*request, Reached::No),
        // It closed the connection as the request went out. Doing it twice does no harm, and there is no body.
        (Failure::Closed, Some(again)) => (again.into_request(&progress), Reached::Perhaps),
        (failure, _) => return Err((failure.rejection(&progress), Reached::Perhaps)),
    };
    let lease = way.upstream.lease(Freshness::New, connect).await;
    let mut lease = lease.map_err(|error| (Rejection::Connect(error), reached))?;
    let request = for_server(request, &lease);
    match exchange(&mut lease, request, &progress, way.timeouts.response).await {
        Ok(answer) => Ok((answer, lease)),
        Err(Failure::Unsent(_)) => Err((Rejection::Upstream(Fault::Closed), reached)),
        Err(failure) => Err((failure.rejection(&progress), Reached::Perhaps)),
    }
}

/// Why one attempt has no answer.
enum Failure {
    Unsent(Box<Request<Upload>>),
    Closed,
    Fault(Fault),
}

impl Failure {
    /// The client's own doing comes first: an upload that breaks takes the upstream's connection with it.
    fn rejection(&self, progress: &Progress) -> Rejection {
        Rejection::of_upload(progress.state()).unwrap_or(match self {
            Self::Fault(fault) => Rejection::Upstream(*fault),
            Self::Closed | Self::Unsent(_) => Rejection::Upstream(Fault::Closed),
        })
    }
}

/// One attempt. The time for the answer runs while the upstream is the one to be waited for.
async fn exchange(
    lease: &mut Lease<Upload>,
    request: Request<Upload>,
    progress: &Progress,
    limit: Duration,
) -> Result<Response<Incoming>, Failure> {
    progress.start();
    let mut answer = std::pin::pin!(lease.send(request));
    loop {
        let deadline = progress.last() + limit;
        match timeout_at(deadline, &mut answer).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(SendFailure::Unsent(request))) => return Err(Failure::Unsent(request)),
            Ok(Err(SendFailure::Lost(error))) if error.is_parse() => {
                return Err(Failure::Fault(Fault::Protocol));
            }
            Ok(Err(SendFailure::Lost(_))) => return Err(Failure::Closed),
            Err(_elapsed) if progress.last() + limit > Instant::now() => {}
            Err(_elapsed) => return Err(Failure::Fault(Fault::Silent)),
        }
    }
}
