//! What each path answers.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};

use crate::telemetry::Registry;

/// What the endpoint tells.
pub struct AdminState {
    /// The metrics of the process.
    pub registry: Registry,
    /// Whether the gateway takes requests: true from the first snapshot until drain.
    pub ready: Arc<AtomicBool>,
    /// What is in force, for people; secrets masked.
    pub config: Box<dyn Fn() -> String + Send + Sync>,
    /// The address that the listener is bound to.
    pub bound: IpAddr,
}

impl fmt::Debug for AdminState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdminState")
            .field("ready", &self.ready)
            .field("bound", &self.bound)
            .finish_non_exhaustive()
    }
}

const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

impl AdminState {
    /// The answer to `request`.
    pub(super) fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let path = request.uri().path();
        let probe = matches!(path, "/livez" | "/readyz");
        if !probe && !self.admits(request) {
            return say(
                StatusCode::FORBIDDEN,
                "use the address that this endpoint is bound to, or localhost\n",
            );
        }
        if !matches!(path, "/livez" | "/readyz" | "/metrics" | "/config") {
            return say(
                StatusCode::NOT_FOUND,
                "not found; there are /livez, /readyz, /metrics, /config\n",
            );
        }
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = say(StatusCode::METHOD_NOT_ALLOWED, "GET only\n");
            answer
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        match path {
            "/livez" => say(StatusCode::OK, "alive\n"),
            "/readyz" if self.ready.load(Ordering::Acquire) => say(StatusCode::OK, "ready\n"),
            "/readyz" => say(StatusCode::SERVICE_UNAVAILABLE, "not ready\n"),
            "/metrics" => respond(StatusCode::OK, METRICS, self.registry.encode()),
            _ => say(StatusCode::OK, (self.config)()),
        }
    }

    /// Whether the request names this endpoint itself. On loopback, a page in the operator's browser can reach it too, by
    /// a name of its own that it lets point here; what it cannot do is send another name than its own. Ports do not
    /// matter: a tunnel has one of its own.
    fn admits<B>(&self, request: &Request<B>) -> bool {
        if !self.bound.is_loopback() {
            return true;
        }
        let named = match request.uri().authority() {
            Some(authority) => Some(authority.clone()),
            None => {
                let mut hosts = request.headers().get_all(HOST).iter();
                let first = hosts
                    .next()
                    .and_then(|host| Authority::try_from(host.as_bytes()).ok());
                first.filter(|_| hosts.next().is_none())
            }
        };
        named.is_some_and(|named| {
            let host = named.host().trim_start_matches('[').trim_end_matches(']');
            host.eq_ignore_ascii_case("localhost") || host.parse() == Ok(self.bound)
        })
    }
}

fn say(status: StatusCode, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    respond(status, TEXT, text)
}

fn respond(status: StatusCode, kind: HeaderValue, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, kind);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
