//! `upstream`, `upstreams` and `routes`.

use std::sync::Arc;
use std::time::Duration;

use super::super::decode::{self, At, Fields, Shape, Zero};
use super::super::matcher::{self, Place, Typed};
use super::super::node::{Kind, Node};
use super::super::report::{Findings, Span};
use super::super::units::{self, Scheme, Wrong};
use crate::policy::{HostRule, ServerSpec, UpstreamTimeouts};

/// An upstream, as it was typed.
#[derive(Debug)]
pub(in crate::config) struct UpstreamDecl {
    pub(in crate::config) name: At<String>,
    pub(in crate::config) servers: Vec<ServerSpec>,
    pub(in crate::config) host: HostRule,
    pub(in crate::config) timeouts: TimeoutsDecl,
}

/// A route, as it was typed.
#[derive(Debug)]
pub(in crate::config) struct RouteDecl {
    pub(in crate::config) span: Span,
    /// Left out: the text of `match`.
    pub(in crate::config) name: Option<At<String>>,
    pub(in crate::config) matchers: Vec<Typed>,
    /// None: it was wrong, and noted.
    pub(in crate::config) to: Option<At<String>>,
    pub(in crate::config) timeouts: TimeoutsDecl,
}

/// Timeouts, of which some may be left out.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::config) struct TimeoutsDecl {
    connect: Option<Duration>,
    response: Option<Duration>,
    idle: Option<Duration>,
}

impl TimeoutsDecl {
    /// These, and `others` where nothing is said.
    pub(in crate::config) fn over(self, others: UpstreamTimeouts) -> UpstreamTimeouts {
        UpstreamTimeouts {
            connect: self.connect.unwrap_or(others.connect),
            response: self.response.unwrap_or(others.response),
            idle: self.idle.unwrap_or(others.idle),
        }
    }
}

const UPSTREAM: Shape = Shape {
    what: "an upstream",
    known: &["servers", "balance", "host", "timeouts"],
    later: &[
        "health",
        "eject",
        "http2",
        "tls",
        "max_connections",
        "max_waiting",
        "retries",
        "adaptive",
    ],
};
const ROUTE: Shape = Shape {
    what: "a route",
    known: &["name", "match", "to", "timeouts"],
    later: &[
        "max_body",
        "strip_prefix",
        "replace_prefix",
        "request_headers",
        "response_headers",
        "redirect",
        "errors",
    ],
};
const TIMEOUTS: Shape = Shape {
    what: "`timeouts`",
    known: &["connect", "response", "idle"],
    later: &[],
};

/// Every upstream of the file; `upstream` alone is called `default`.
pub(super) fn upstreams(top: &Fields<'_>, found: &mut Findings) -> Vec<UpstreamDecl> {
    let mut all = Vec::new();
    let (one, many) = (top.entry("upstream"), top.entry("upstreams"));
    if let Some((key, node)) = one {
        if let Some((other, _)) = many {
            found
                .error(key.span, "`upstream` stands alone")
                .also(other.span, "and here are several");
        }
        all.push(upstream(
            At {
                value: "default".to_owned(),
                span: key.span,
            },
            node,
            found,
        ));
    }
    match many {
        None if one.is_none() => {
            let span = Span {
                end: top.span.start,
                ..top.span
            };
            found
                .error(span, "there is no upstream")
                .help("write `upstream: http://localhost:3000`");
        }
        None => {}
        Some((key, node)) => match &node.kind {
            Kind::Mapping(entries) if !entries.is_empty() => {
                for (name, node) in entries {
                    let Some(text) = decode::text(name, "the name of an upstream", found) else {
                        continue;
                    };
                    all.push(upstream(
                        At {
                            value: text.to_owned(),
                            span: name.span,
                        },
                        node,
                        found,
                    ));
                }
            }
            Kind::Mapping(_) | Kind::Scalar { .. } | Kind::Sequence(_) => {
                found
                    .error(key.span, "`upstreams` is a mapping of names to upstreams")
                    .help("one upstream alone is `upstream: http://localhost:3000`");
            }
        },
    }
    all
}

fn upstream(name: At<String>, node: &Node, found: &mut Findings) -> UpstreamDecl {
    let mut decl = UpstreamDecl {
        name,
        servers: Vec::new(),
        host: HostRule::default(),
        timeouts: TimeoutsDecl::default(),
    };
    if !matches!(node.kind, Kind::Mapping(_)) {
        if matches!(node.kind, Kind::Sequence(_)) {
            found
                .error(node.span, "an upstream is a URL or a mapping")
                .help("several servers: `{servers: [URL, URL]}`");
        } else {
            decl.servers.extend(server(node, found));
        }
        return decl;
    }
    let Some(fields) = Fields::open(node, &UPSTREAM, found) else {
        return decl;
    };
    match fields.get("servers") {
        Some(node) => servers(node, &mut decl.servers, found),
        None => {
            found
                .error(decl.name.span, "an upstream needs `servers`")
                .help("as `servers: [http://10.0.0.4:9200]`");
        }
    }
    if let Some(node) = fields.get("balance") {
        decode::word(
            node,
            "a way to balance",
            &[("round_robin", ())],
            &["least_requests", "hash"],
            found,
        );
    }
    if let Some(node) = fields.get("host") {
        decl.host = decode::parsed(node, "a host", host, found)
            .map(|host| host.value)
            .unwrap_or_default();
    }
    decl.timeouts = timeouts(&fields, found);
    decl
}

fn servers(node: &Node, servers: &mut Vec<ServerSpec>, found: &mut Findings) {
    let items = decode::one_or_many(node);
    if items.is_empty() {
        found.error(node.span, "`servers` is empty");
    }
    for item in items {
        let Some(server) = server(item, found) else {
            continue;
        };
        if servers.contains(&server) {
            found.error(item.span, "this server is given twice");
        } else {
            servers.push(server);
        }
    }
}

fn server(node: &Node, found: &mut Findings) -> Option<ServerSpec> {
    let endpoint = decode::parsed(node, "the URL of a server", units::server, found)?.value;
    if endpoint.scheme == Scheme::Assumed {
        let server = &endpoint.server;
        let url = match server.host.contains(':') {
            true => format!("http://[{}]:{}", server.host, server.port),
            false => format!("http://{}:{}", server.host, server.port),
        };
        found
            .warn(node.span, "this URL has no scheme, and is taken as http")
            .help(format!("write `{url}`"));
    }
    Some(endpoint.server)
}

fn host(text: &str) -> Result<HostRule, Wrong> {
    match text {
        "keep" => Ok(HostRule::Keep),
        "upstream" => Ok(HostRule::Upstream),
        name => {
            let plausible = units::server(name).is_ok() && !name.contains('/');
            plausible
                .then(|| HostRule::Fixed(Arc::from(name)))
                .ok_or_else(|| {
                    Wrong::new(format!("`{name}` is not a host"))
                        .help("it is keep, upstream, or a name as `api.internal`")
                })
        }
    }
}

fn timeouts(fields: &Fields<'_>, found: &mut Findings) -> TimeoutsDecl {
    let Some(fields) = fields
        .get("timeouts")
        .and_then(|node| Fields::open(node, &TIMEOUTS, found))
    else {
        return TimeoutsDecl::default();
    };
    let mut span = |name: &str| {
        let node = fields.get(name)?;
        decode::duration(node, "a timeout", Zero::Refused, found).map(|span| span.value)
    };
    TimeoutsDecl {
        connect: span("connect"),
        response: span("response"),
        idle: span("idle"),
    }
}

/// Every route of the file.
pub(super) fn routes(node: &Node, found: &mut Findings) -> Vec<RouteDecl> {
    let Kind::Sequence(items) = &node.kind else {
        found
            .error(
                node.span,
                "`routes` is a list, of which the first match wins",
            )
            .help("begin each route with `- match: /path`");
        return Vec::new();
    };
    items.iter().filter_map(|item| route(item, found)).collect()
}

fn route(node: &Node, found: &mut Findings) -> Option<RouteDecl> {
    let fields = Fields::open(node, &ROUTE, found)?;
    let matchers = match fields.get("match") {
        Some(node) => matcher::list(node, Place::Route, found),
        None => {
            found
                .error(node.span, "a route needs `match`")
                .help("`match: /**` takes every request");
            Vec::new()
        }
    };
    let to = match fields.get("to") {
        Some(node) => decode::text(node, "the name of an upstream", found).map(|text| At {
            value: text.to_owned(),
            span: node.span,
        }),
        None => {
            if fields.entry("redirect").is_none() {
                found.error(node.span, "a route needs `to`, the name of an upstream");
            }
            None
        }
    };
    let name = fields.get("name").and_then(|node| {
        decode::text(node, "the name of a route", found).map(|text| At {
            value: text.to_owned(),
            span: node.span,
        })
    });
    Some(RouteDecl {
        span: node.span,
        name,
        matchers,
        to,
        timeouts: timeouts(&fields, found),
    })
}
