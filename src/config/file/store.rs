//! `store`: this process's memory, or Redis.

mod cluster;
mod sentinel;
mod tls;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use super::super::decode::{self, Fields, Shape, Zero};
use super::super::node::{Kind, Node};
use super::super::report::Findings;
use super::super::units::{self, RedisUrl, Transport, Wrong};
use super::limits::if_down;
use crate::policy::{IfDown, RedisAddress, RedisSpec, Secret, StoreSpec, TlsSpec};

const MAX_KEYS: usize = 1_000_000;
/// So many gateways at most share a store.
const MAX_INSTANCES: u64 = 10_000;
const LONGEST_DEADLINE: Duration = Duration::from_secs(10);
const STORE: Shape = Shape {
    what: "`store`",
    known: &[
        "redis",
        "cluster",
        "sentinel",
        "memory",
        "username",
        "password",
        "tls",
        "prefix",
        "deadline",
        "if_down",
        "instances",
    ],
    later: &[],
};
/// The fields that say which store it is.
const KINDS: [&str; 4] = ["redis", "cluster", "sentinel", "memory"];
const MEMORY: Shape = Shape {
    what: "`memory`",
    known: &["max_keys"],
    later: &[],
};

/// The store of a file that names none.
pub(super) fn default() -> (StoreSpec, IfDown) {
    (StoreSpec::Memory { max_keys: MAX_KEYS }, IfDown::default())
}

/// The store, and what limits do without it unless they say otherwise.
pub(super) fn read(node: &Node, found: &mut Findings) -> (StoreSpec, IfDown) {
    match &node.kind {
        Kind::Mapping(_) => mapping(node, found).unwrap_or_else(default),
        Kind::Scalar { .. } | Kind::Sequence(_) if node.text() == Some("memory") => default(),
        Kind::Scalar { .. } | Kind::Sequence(_) => (
            url(node, found).map_or_else(|| default().0, StoreSpec::Redis),
            IfDown::default(),
        ),
    }
}

fn url(node: &Node, found: &mut Findings) -> Option<RedisSpec> {
    let text = decode::secret_text(node, "a store", found)?;
    // Reports mask what stands before an `@`; where words end inside it, better the whole.
    if text.contains('@') && text.contains(|c: char| c.is_whitespace() || c == '"') {
        found.hide(node.span);
    }
    let result = units::redis(&text).map_err(|wrong| match text.as_str() {
        word if !word.contains("://") => Wrong::new("this is not a store")
            .help("it is `memory`, a URL as `redis://HOST:6379`, or a mapping")
            .meant(super::super::nearest::nearest(word, ["memory"])),
        _ => wrong,
    });
    let RedisUrl {
        address,
        transport,
        username,
        password,
        database,
    } = found.take(node.span, result)?;
    Some(RedisSpec {
        username,
        password: password.map(Secret::new),
        database,
        ..at(address, transport)
    })
}

/// A Redis of which nothing else is said.
fn at(address: RedisAddress, transport: Transport) -> RedisSpec {
    RedisSpec {
        address,
        tls: match transport {
            Transport::Plain => None,
            Transport::Tls => Some(TlsSpec::default()),
        },
        username: None,
        password: None,
        database: 0,
        prefix: Arc::from("sluice"),
        deadline: Duration::from_millis(25),
        local_max_keys: MAX_KEYS,
        instances: None,
    }
}

fn mapping(node: &Node, found: &mut Findings) -> Option<(StoreSpec, IfDown)> {
    let fields = Fields::open(node, &STORE, found)?;
    let down = fields
        .get("if_down")
        .and_then(|node| if_down(node, found))
        .unwrap_or_default();
    let named: Vec<_> = KINDS
        .into_iter()
        .filter_map(|kind| Some((kind, fields.entry(kind)?)))
        .collect();
    for ((_, (key, _)), (_, (first, _))) in named.iter().skip(1).zip(named.iter().cycle()) {
        found
            .error(
                key.span,
                "there is one store: `redis`, `cluster`, `sentinel` or `memory`",
            )
            .also(first.span, "the other");
    }
    // All that are given are read, so that all that is wrong is said at once.
    let read: Vec<_> = named
        .iter()
        .filter_map(|(kind, (_, node))| match *kind {
            "redis" => Some(url(node, found)),
            "cluster" => Some(cluster::read(node, found)),
            "sentinel" => Some(sentinel::read(node, found)),
            _ => None,
        })
        .collect();
    let spec = match (read.into_iter().next(), fields.entry("memory")) {
        (Some(spec), _) => StoreSpec::Redis(redis_of(&fields, spec, found)?),
        (None, Some((_, node))) => memory_of(&fields, node, found),
        (None, None) => {
            found.error(node.span, "which store?").help(
                "it is `redis: URL`, `cluster: [URL, ..]`, `sentinel: {master, nodes}` or `memory: {max_keys: 1000000}`",
            );
            return None;
        }
    };
    Some((spec, down))
}

fn memory_of(fields: &Fields<'_>, memory: &Node, found: &mut Findings) -> StoreSpec {
    for name in [
        "username",
        "password",
        "tls",
        "prefix",
        "deadline",
        "if_down",
        "instances",
    ] {
        if let Some((key, value)) = fields.entry(name) {
            if matches!(name, "username" | "password") {
                found.hide(value.span);
            }
            found
                .error(key.span, format!("the memory store has no `{name}`"))
                .help("it belongs to a Redis");
        }
    }
    StoreSpec::Memory {
        max_keys: max_keys(memory, found),
    }
}

/// One Redis: where it is, and what the other fields say. All are read, even where that is wrong.
fn redis_of(
    fields: &Fields<'_>,
    spec: Option<RedisSpec>,
    found: &mut Findings,
) -> Option<RedisSpec> {
    let username = fields
        .get("username")
        .and_then(|node| decode::secret(node, "the user", found));
    let password = fields
        .get("password")
        .and_then(|node| decode::secret(node, "the password", found));
    let prefix = fields
        .get("prefix")
        .and_then(|node| decode::parsed(node, "a prefix", prefix, found));
    let deadline = fields
        .get("deadline")
        .and_then(|node| decode::duration(node, "a deadline", Zero::Refused, found));
    if let Some(deadline) = deadline
        .as_ref()
        .filter(|given| given.value > LONGEST_DEADLINE)
    {
        found
            .error(
                deadline.span,
                "a request cannot wait that long for the store",
            )
            .help("at most 10s");
    }
    let instances = fields
        .get("instances")
        .and_then(|node| decode::number(node, "`instances`", 1, MAX_INSTANCES, found));
    let tls = fields.get("tls").and_then(|node| tls::read(node, found));
    let mut spec = spec?;
    if let Some((key, _)) = fields.entry("tls")
        && spec.tls.is_none()
    {
        found
            .error(key.span, "this connection has no TLS")
            .help("the URL of a Redis with TLS begins with `rediss://`");
    }
    spec.tls = tls.or(spec.tls);
    for (name, in_url) in [
        ("username", spec.username.is_some()),
        ("password", spec.password.is_some()),
    ] {
        if let Some((key, _)) = fields
            .entry(name)
            .filter(|(_, value)| in_url && !value.is_empty())
        {
            found
                .error(key.span, format!("the {name} is in the URL already"))
                .help("remove one of the two");
        }
    }
    spec.username = username
        .map(|name| name.expose().to_owned())
        .or(spec.username);
    spec.password = password.or(spec.password);
    spec.prefix = prefix.map_or(spec.prefix, |prefix| prefix.value);
    spec.deadline = deadline.map_or(spec.deadline, |deadline| deadline.value);
    spec.instances = instances
        .and_then(|given| u32::try_from(given.value).ok())
        .and_then(NonZeroU32::new);
    Some(spec)
}

fn max_keys(node: &Node, found: &mut Findings) -> usize {
    if node.is_empty() {
        return MAX_KEYS;
    }
    let given = Fields::open(node, &MEMORY, found)
        .and_then(|fields| fields.get("max_keys"))
        .and_then(|node| decode::number(node, "`max_keys`", 1, 1 << 40, found));
    given
        .and_then(|keys| usize::try_from(keys.value).ok())
        .unwrap_or(MAX_KEYS)
}

/// The first part of every key: it must not decide the slot of a cluster, nor look like another part.
fn prefix(text: &str) -> Result<Arc<str>, Wrong> {
    let plausible = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if text.is_empty() || text.len() > 64 || !text.chars().all(plausible) {
        return Err(Wrong::new(format!("`{text}` is not a prefix"))
            .help("at most 64 letters, digits, `-`, `_`, `.` and `:`"));
    }
    Ok(Arc::from(text))
}
