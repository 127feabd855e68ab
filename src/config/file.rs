//! What was typed: every section of the file, its words read and its places kept, nothing resolved yet.

mod amounts;
mod answers;
mod clients;
mod cors;
mod cost;
mod headers;
mod limits;
mod overrides;
mod paths;
mod plans;
mod reply;
mod slots;
mod store;
mod upstreams;

pub(super) use amounts::{Algorithm, Allow};
pub(super) use cost::CostDecl;
pub(super) use limits::LimitDecl;
pub(super) use overrides::OverrideDecl;
pub(super) use plans::PlanSource;
pub(super) use upstreams::{RouteDecl, UpstreamDecl};

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use super::decode::{self, At, Fields, Shape, Zero};
use super::matcher::{self, Place, Typed};
use super::node::{Kind, Node};
use super::report::{Findings, Span};
use super::units;
use crate::identify::ClientRules;
use crate::policy::{AccessLog, Cors, Drain, HeaderFields, IfDown, Mode, Secret, StoreSpec};
use crate::route::PathRules;

/// A file, as it was typed.
#[derive(Debug)]
pub(super) struct File {
    pub(super) listen: Vec<SocketAddr>,
    pub(super) admin: SocketAddr,
    pub(super) workers: NonZeroUsize,
    pub(super) store: StoreSpec,
    /// Where the store was named.
    pub(super) store_span: Option<Span>,
    pub(super) store_if_down: IfDown,
    pub(super) secret: Option<Secret>,
    pub(super) clients: ClientRules,
    pub(super) upstreams: Vec<UpstreamDecl>,
    /// None: left out.
    pub(super) routes: Option<Vec<RouteDecl>>,
    pub(super) skip: Vec<Typed>,
    pub(super) limits: Vec<LimitDecl>,
    /// Where a request's plan comes from; none: each limit with plans says so.
    pub(super) plan: Option<At<PlanSource>>,
    pub(super) mode: Mode,
    pub(super) paths: PathRules,
    pub(super) headers: HeaderFields,
    pub(super) cors: Option<Cors>,
    pub(super) drain: Drain,
    pub(super) access_log: Option<AccessLog>,
}

const TOP: Shape = Shape {
    what: "the file",
    known: &[
        "listen",
        "admin",
        "workers",
        "store",
        "secret",
        "trusted_proxies",
        "clients",
        "upstream",
        "upstreams",
        "routes",
        "skip",
        "limits",
        "defaults",
        "plan",
        "mode",
        "paths",
        "headers",
        "cors",
        "drain",
        "access_log",
        "include",
    ],
    later: &[
        "max_connections",
        "max_connections_per_ip",
        "max_connection_age",
        "timeouts",
    ],
};

const DEFAULT_LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 8080);
const DEFAULT_ADMIN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9900);
const MAX_WORKERS: u64 = 1024;

impl File {
    /// Reads every section of `root`. Something is always returned, so that what follows can find its errors too.
    pub(super) fn read(root: &Node, found: &mut Findings) -> Option<Self> {
        let visible = without_extensions(root);
        let top = Fields::open(&visible, &TOP, found)?;
        let clients = clients::clients(&top, found);
        let (store, store_if_down) = top
            .get("store")
            .map_or_else(store::default, |node| store::read(node, found));
        let plan = top
            .get("plan")
            .and_then(|node| plans::source(node, clients.ipv6_prefix, found));
        let limits = limits::read(&top, clients.ipv6_prefix, found);
        Some(Self {
            listen: listen(&top, found),
            admin: admin(&top, found),
            workers: workers(&top, found),
            store,
            store_span: top.entry("store").map(|(key, _)| key.span),
            store_if_down,
            secret: top
                .get("secret")
                .and_then(|node| decode::secret(node, "the secret", found)),
            clients,
            upstreams: upstreams::upstreams(&top, found),
            routes: top
                .entry("routes")
                .map(|(_, node)| upstreams::routes(node, found)),
            skip: top
                .get("skip")
                .map(|node| matcher::list(node, Place::Elsewhere, found))
                .unwrap_or_default(),
            limits,
            plan,
            mode: top
                .get("mode")
                .and_then(|node| mode(node, found))
                .unwrap_or_default(),
            paths: top
                .get("paths")
                .map(|node| paths::paths(node, found))
                .unwrap_or_default(),
            headers: top
                .get("headers")
                .map(|node| headers::headers(node, found))
                .unwrap_or_default(),
            cors: top.get("cors").and_then(|node| cors::cors(node, found)),
            drain: drain(&top, found),
            access_log: access_log(&top, found),
        })
    }
}

/// The file without its `x-...`, which exist for anchors only.
fn without_extensions(root: &Node) -> Node {
    let kind = match &root.kind {
        Kind::Mapping(entries) => {
            let keep =
                |(key, _): &&(Node, Node)| !key.text().is_some_and(|name| name.starts_with("x-"));
            Kind::Mapping(entries.iter().filter(keep).cloned().collect())
        }
        kind => kind.clone(),
    };
    Node {
        span: root.span,
        kind,
    }
}

fn listen(top: &Fields<'_>, found: &mut Findings) -> Vec<SocketAddr> {
    const ENTRY: Shape = Shape {
        what: "an entry of `listen`",
        known: &["address"],
        later: &["tls", "proxy_protocol"],
    };
    let Some(node) = top.get("listen") else {
        return vec![DEFAULT_LISTEN];
    };
    let mut addresses: Vec<At<SocketAddr>> = Vec::new();
    let items = match &node.kind {
        Kind::Sequence(items) if items.is_empty() => {
            found
                .error(node.span, "`listen` is empty")
                .help("name an address, as `0.0.0.0:8080`");
            return Vec::new();
        }
        _ => decode::one_or_many(node),
    };
    for item in items {
        let address = match &item.kind {
            Kind::Mapping(_) => {
                match Fields::open(item, &ENTRY, found).and_then(|fields| fields.get("address")) {
                    Some(address) => address,
                    None => {
                        found.error(item.span, "an entry of `listen` needs its `address`");
                        continue;
                    }
                }
            }
            Kind::Scalar { .. } | Kind::Sequence(_) => item,
        };
        let Some(address) = decode::parsed(address, "an address", units::endpoint, found) else {
            continue;
        };
        match addresses
            .iter()
            .find(|other| other.value == address.value && address.value.port() != 0)
        {
            Some(first) => {
                let first = first.span;
                found
                    .error(address.span, "this address is given twice")
                    .also(first, "first here");
            }
            None => addresses.push(address),
        }
    }
    addresses.into_iter().map(|address| address.value).collect()
}

fn admin(top: &Fields<'_>, found: &mut Findings) -> SocketAddr {
    const ADMIN: Shape = Shape {
        what: "`admin`",
        known: &["address"],
        later: &["token", "metrics", "hosts"],
    };
    let Some(node) = top.get("admin") else {
        return DEFAULT_ADMIN;
    };
    let address = match &node.kind {
        Kind::Mapping(_) => {
            Fields::open(node, &ADMIN, found).and_then(|fields| fields.get("address"))
        }
        Kind::Scalar { .. } | Kind::Sequence(_) => Some(node),
    };
    let address =
        address.and_then(|node| decode::parsed(node, "an address", units::endpoint, found));
    let Some(address) = address else {
        return DEFAULT_ADMIN;
    };
    if !address.value.ip().is_loopback() {
        found
            .warn(address.span, "the admin endpoint is open to other machines, and asks for no token")
            .help("whoever reaches it reads the metrics; bind it to `127.0.0.1`, or to a network that only operators reach");
    }
    address.value
}

fn workers(top: &Fields<'_>, found: &mut Findings) -> NonZeroUsize {
    let given = top
        .get("workers")
        .and_then(|node| decode::number(node, "`workers`", 1, MAX_WORKERS, found));
    let given = given
        .and_then(|number| usize::try_from(number.value).ok())
        .and_then(NonZeroUsize::new);
    given
        .or_else(|| std::thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}

/// `enforce` or `shadow`.
fn mode(node: &Node, found: &mut Findings) -> Option<Mode> {
    let modes = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
    decode::word(node, "a mode", &modes, &[], found).map(|mode| mode.value)
}

fn drain(top: &Fields<'_>, found: &mut Findings) -> Drain {
    const DRAIN: Shape = Shape {
        what: "`drain`",
        known: &["wait", "grace"],
        later: &[],
    };
    let mut drain = Drain {
        wait: Duration::ZERO,
        grace: Duration::from_secs(30),
    };
    let Some(fields) = top
        .get("drain")
        .and_then(|node| Fields::open(node, &DRAIN, found))
    else {
        return drain;
    };
    let span = |name: &str, default: Duration, found: &mut Findings| {
        let given = fields
            .get(name)
            .and_then(|node| decode::duration(node, name, Zero::Allowed, found));
        given.map_or(default, |span| span.value)
    };
    drain.wait = span("wait", drain.wait, found);
    drain.grace = span("grace", drain.grace, found);
    drain
}

fn access_log(top: &Fields<'_>, found: &mut Findings) -> Option<AccessLog> {
    const LOG: Shape = Shape {
        what: "`access_log`",
        known: &["sample_allowed", "mask_query"],
        later: &[],
    };
    let mut log = AccessLog {
        sample_allowed: 1000,
        mask_query: Vec::new(),
    };
    let Some(node) = top.get("access_log") else {
        return Some(log);
    };
    match node.text() {
        Some("off" | "false") => return None,
        Some("on" | "true") => return Some(log),
        Some(other) => {
            found
                .error(node.span, format!("`{other}` is not an access log"))
                .help("it is on, off or a mapping");
            return Some(log);
        }
        None => {}
    }
    let fields = Fields::open(node, &LOG, found)?;
    if let Some(node) = fields.get("sample_allowed") {
        let share = decode::parsed(node, "a share", units::thousandths, found);
        log.sample_allowed = share.map_or(1000, |share| share.value);
    }
    if let Some(node) = fields.get("mask_query") {
        let names = decode::one_or_many(node)
            .iter()
            .filter_map(|item| decode::text(item, "a name", found));
        log.mask_query = names.map(str::to_owned).collect();
    }
    Some(log)
}
