//! The request as its upstream sees it.

use std::rc::Rc;

use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::PathAndQuery;
use hyper::{Method, Request, Uri};

use super::body::{Progress, Upload};
use super::exchange::Exchange;
use super::headers::{self, Framing, Rewrite};
use super::peer::Peer;
use super::respond::Rejection;
use crate::request::{Client, Target};
use crate::upstream::Lease;

/// What an upstream is asked for, and as whom: read from the head before anything is spent.
#[derive(Debug)]
pub(super) struct Line {
    uri: Uri,
    host: HeaderValue,
}

/// A request ready to go, with the client's `Host`.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) method: Method,
    uri: Uri,
    fields: HeaderMap,
    pub(super) body: Upload,
}

/// What is needed to send a request without a body a second time.
#[derive(Debug)]
pub(super) struct Again {
    method: Method,
    uri: Uri,
    fields: HeaderMap,
}

impl Line {
    /// The normalised path with the query as sent, and the host as the client wrote it: of an absolute target its
    /// authority, else the `Host` field.
    pub(super) fn of(head: &Parts, target: &Target) -> Result<Self, Rejection> {
        let uri = forwarded_target(&head.uri, target);
        let host = match head.uri.authority() {
            Some(authority) => HeaderValue::from_str(authority.as_str()).ok(),
            None => head.headers.get(header::HOST).cloned(),
        };
        Ok(Self {
            uri: uri.ok_or(Rejection::Malformed("the target is not a path"))?,
            host: host.ok_or(Rejection::Malformed("the host is not a field value"))?,
        })
    }
}

fn forwarded_target(sent: &Uri, target: &Target) -> Option<Uri> {
    let same = sent.path() == target.exact;
    let path_and_query = match (sent.path_and_query(), &target.query) {
        (Some(sent), _) if same => sent.clone(),
        (_, None) => PathAndQuery::try_from(target.exact.as_str()).ok()?,
        (_, Some(query)) => PathAndQuery::try_from(format!("{}?{query}", target.exact)).ok()?,
    };
    Some(Uri::from(path_and_query))
}

impl Outbound {
    pub(super) fn new(
        exchange: &Exchange,
        peer: Peer,
        client: &Client,
        head: &Parts,
        line: Line,
        body: Upload,
    ) -> Self {
        let rewrite = Rewrite {
            client,
            rules: &exchange.now.policy().clients,
            counted: &exchange.now.counted,
            scheme: peer.scheme.as_str(),
            host: &line.host,
            framing: Framing::of(&head.method, &body),
            request_id: &exchange.request_id,
            over: exchange.over.as_ref(),
            reads_trailers: exchange.reads_trailers,
        };
        Self {
            method: head.method.clone(),
            fields: headers::request(head, &rewrite),
            uri: line.uri,
            body,
        }
    }

    /// The copy that may be sent when the first is lost: of an idempotent request (RFC 9110 section 9.2.2) without a
    /// body.
    pub(super) fn again(&self) -> Option<Again> {
        let repeatable = self.method.is_idempotent() && self.body.is_absent();
        repeatable.then(|| Again {
            method: self.method.clone(),
            uri: self.uri.clone(),
            fields: self.fields.clone(),
        })
    }

    pub(super) fn into_request(self, lease: &Lease<Upload>) -> Request<Upload> {
        let request = build(self.method, self.uri, self.fields, self.body);
        for_server(request, lease)
    }
}

impl Again {
    pub(super) fn into_request(self, progress: &Rc<Progress>) -> Request<Upload> {
        let body = Upload::empty(Rc::clone(progress));
        build(self.method, self.uri, self.fields, body)
    }
}

/// Sets the `Host` that this server is to see.
pub(super) fn for_server(mut request: Request<Upload>, lease: &Lease<Upload>) -> Request<Upload> {
    if let Some(host) = lease.host() {
        request.headers_mut().insert(header::HOST, host.clone());
    }
    request
}

fn build(method: Method, uri: Uri, fields: HeaderMap, body: Upload) -> Request<Upload> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = uri;
    *request.headers_mut() = fields;
    request
}
