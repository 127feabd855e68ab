//! The one place where a failure becomes an answer.

mod cors;
mod problem;
mod reply;

use std::time::Duration;

use hyper::header::{self, HeaderValue};
use hyper::{Response, StatusCode};

pub(super) use cors::CorsFields;

use super::body::{Content, UploadState};
use super::request_id::X_REQUEST_ID;
use crate::limit::Retry;
use crate::limiter::{Met, Refusal};
use crate::policy::Policy;
use crate::telemetry::Decided;
use crate::upstream::ConnectError;
use problem::Problem;
use reply::Told;

/// What a client may ask for of the gateway as a whole, and of any route.
const METHODS: HeaderValue =
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// What records call the answer to a client that left before it.
pub(super) const CLIENT_GONE: u16 = 499;

/// Why a request is answered by the gateway.
#[derive(Debug)]
#[non_exhaustive]
pub(super) enum Rejection {
    /// Its head says something that the gateway cannot act on.
    Malformed(&'static str),
    /// How long its body is cannot be told for sure.
    Framing,
    /// CONNECT, TRACE.
    Method,
    /// Its target is too long.
    TargetTooLong,
    /// It expects something other than `100-continue`.
    Expectation,
    /// It has passed this gateway already.
    Loop,
    /// No route matches.
    NoRoute,
    /// A limit.
    Refused(Refusal),
    /// Too many requests wait their turn already.
    Crowded {
        /// When its own turn would have come.
        retry: Duration,
    },
    /// The client sent the rest of its body too slowly.
    SlowUpload,
    /// The client left; nobody reads the answer.
    ClientGone,
    /// No connection to the upstream.
    Connect(ConnectError),
    /// The upstream broke off, or answered something that is not HTTP.
    Upstream(Fault),
}

/// What becomes of the client's connection after an answer that the gateway makes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum After {
    /// Another request may come.
    Keep,
    /// Nobody can tell where another request would begin.
    Close,
}

/// What an upstream did with a request that was sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Fault {
    /// It closed the connection before the head of its answer was complete.
    Closed,
    /// Its answer is not HTTP, or not one that was asked for.
    Protocol,
    /// Its answer did not begin in time.
    Silent,
}

impl Rejection {
    /// What an upload that broke is answered; none for one that did not.
    pub(super) fn of_upload(state: UploadState) -> Option<Self> {
        Some(match state {
            UploadState::Gone => Self::ClientGone,
            UploadState::Slow => Self::SlowUpload,
            UploadState::Malformed => Self::Malformed("the body is not what its head announces"),
            UploadState::Flowing | UploadState::Finished => return None,
        })
    }

    /// What the records call it: the status, or 499 where nobody was there to be answered.
    pub(super) fn code(&self) -> u16 {
        if let Self::ClientGone = self {
            CLIENT_GONE
        } else {
            self.status().as_u16()
        }
    }

    /// The answer's status, where a limit does not set its own.
    fn status(&self) -> StatusCode {
        match self {
            // A request that was cut off is an incomplete one (RFC 9112 section 8).
            Self::Malformed(_) | Self::Framing | Self::ClientGone => StatusCode::BAD_REQUEST,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Refused(Refusal::Limited { .. }) => StatusCode::TOO_MANY_REQUESTS,
            Self::Refused(Refusal::StoreDown { .. }) | Self::Crowded { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Self::Refused(_) => StatusCode::BAD_REQUEST,
            Self::SlowUpload => StatusCode::REQUEST_TIMEOUT,
            Self::Connect(ConnectError::Timeout | ConnectError::ResolveTimeout)
            | Self::Upstream(Fault::Silent) => StatusCode::GATEWAY_TIMEOUT,
            Self::Connect(_) | Self::Upstream(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Why, in a word of a closed set, for the access log.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) => "malformed",
            Self::Framing => "framing",
            Self::Method => "method",
            Self::TargetTooLong => "target_too_long",
            Self::Expectation => "expectation",
            Self::Loop => "loop",
            Self::NoRoute => "no_route",
            Self::Refused(Refusal::Limited { .. }) => "limited",
            Self::Refused(Refusal::StoreDown { .. }) => "store_down",
            Self::Refused(Refusal::Unkeyed { .. }) => "no_key",
            Self::Refused(Refusal::AmbiguousKey { .. }) => "ambiguous_key",
            Self::Refused(Refusal::AmbiguousPlan { .. }) => "ambiguous_plan",
            Self::Crowded { .. } => "too_many_waiting",
            Self::SlowUpload => "slow_upload",
            Self::ClientGone => "client_gone",
            Self::Connect(_) | Self::Upstream(_) => self.proxy_error().unwrap_or("upstream"),
        }
    }

    /// How the request fared with its limits as a whole, where that is what ended it.
    pub(super) fn decided(&self) -> Option<Decided> {
        match self {
            Self::Refused(Refusal::Limited {
                retry: Retry::Never,
                ..
            }) => Some(Decided::Never),
            Self::Refused(Refusal::Limited { met, .. }) => Some(refused(met)),
            Self::Refused(Refusal::StoreDown { .. }) => Some(Decided::StoreDown),
            _ => None,
        }
    }

    /// The error type of `Proxy-Status` (RFC 9209 section 2.3), where the way to the upstream failed.
    fn proxy_error(&self) -> Option<&'static str> {
        Some(match self {
            Self::Connect(ConnectError::Resolve) => "dns_error",
            Self::Connect(ConnectError::ResolveTimeout) => "dns_timeout",
            Self::Connect(ConnectError::Refused) => "connection_refused",
            Self::Connect(ConnectError::Timeout) => "connection_timeout",
            Self::Upstream(Fault::Closed) => "connection_terminated",
            Self::Upstream(Fault::Protocol) => "http_protocol_error",
            Self::Upstream(Fault::Silent) => "http_response_timeout",
            Self::Loop => "proxy_loop_detected",
            _ => return None,
        })
    }

    /// The answer: as the limit says that rejected, else a problem (RFC 9457).
    pub(super) fn answer(
        &self,
        policy: &Policy,
        request_id: &HeaderValue,
        after: After,
    ) -> Response<Content> {
        let told = Told::of(self, policy);
        let status = told.map_or_else(|| self.status(), |told| told.reply.status);
        let own = told.and_then(|told| told.content(request_id));
        let (content, content_type) = own.unwrap_or_else(|| {
            let problem = Problem::of(self, status, policy);
            (Content::Made(problem.to_json()), Some(PROBLEM))
        });
        let mut answer = Response::new(content);
        *answer.status_mut() = status;
        let fields = answer.headers_mut();
        if let Some(content_type) = content_type {
            fields.insert(header::CONTENT_TYPE, content_type);
        }
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(told) = told {
            told.set(fields);
        }
        fields.insert(X_REQUEST_ID, request_id.clone());
        if after == After::Close || matches!(self, Self::Framing | Self::SlowUpload) {
            fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // With a redirect it would mean to wait before following (RFC 9110 section 10.2.3).
        if let Some(seconds) = self.retry_after().filter(|_| !status.is_redirection()) {
            fields.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if let Self::Method = self {
            fields.insert(header::ALLOW, METHODS);
        }
        if let Some(error) = self.proxy_error()
            && let Ok(value) =
                HeaderValue::try_from(format!("{}; error={error}", super::headers::PSEUDONYM))
        {
            fields.insert("proxy-status", value);
        }
        answer
    }

    /// Whole seconds, rounded up, at least one; none where waiting cannot help.
    pub(super) fn retry_after(&self) -> Option<u64> {
        match self {
            Self::Refused(Refusal::Limited {
                retry: Retry::After(span),
                ..
            }) => Some(span.ceil_seconds().max(1)),
            Self::Refused(Refusal::StoreDown { retry, .. }) | Self::Crowded { retry } => {
                Some(crate::time::Micros::from(*retry).ceil_seconds().max(1))
            }
            _ => None,
        }
    }
}

/// How a refused request fared as a whole: one that met a block was blocked, whatever else it was over.
fn refused(met: &Met) -> Decided {
    let blocked = |(_, decided): &(usize, Decided)| *decided == Decided::Blocked;
    if met.iter().any(blocked) {
        Decided::Blocked
    } else {
        Decided::Rejected
    }
}

/// The answer to `OPTIONS *`: what the gateway itself can do.
pub(super) fn options() -> Response<Content> {
    let mut answer = Response::new(Content::Empty);
    *answer.status_mut() = StatusCode::NO_CONTENT;
    answer.headers_mut().insert(header::ALLOW, METHODS);
    answer
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}
