//! `sentinel`: who knows where the Redis is.

use std::sync::Arc;

use super::super::super::decode::{self, Fields, Shape};
use super::super::super::node::Node;
use super::super::super::report::Findings;
use super::super::super::units::{self, Transport, Wrong};
use super::at;
use crate::policy::{RedisAddress, RedisSpec, Secret, SentinelNode, SentinelSpec};

const SENTINEL: Shape = Shape {
    what: "`sentinel`",
    known: &["master", "nodes"],
    later: &[],
};

/// A Redis that sentinels name.
pub(super) fn read(node: &Node, found: &mut Findings) -> Option<RedisSpec> {
    let fields = Fields::open(node, &SENTINEL, found)?;
    for name in SENTINEL.known {
        if fields.get(name).is_none() {
            found
                .error(fields.span, format!("`sentinel` has no `{name}`"))
                .help("as in `{master: mymaster, nodes: [redis://10.0.0.1:26379]}`");
        }
    }
    let master = fields
        .get("master")
        .and_then(|node| decode::parsed(node, "the name of a master", name, found));
    let listed = fields.get("nodes")?;
    let nodes = decode::one_or_many(listed);
    if nodes.is_empty() {
        found
            .error(listed.span, "at least one sentinel is to be asked")
            .help("write `nodes: [redis://HOST:26379]`");
    }
    let nodes: Vec<_> = nodes
        .iter()
        .map(|node| one(node, found).map(|(transport, spec)| (node, transport, spec)))
        .collect();
    let nodes: Vec<_> = nodes.into_iter().collect::<Option<_>>()?;
    let &(first, transport, _) = nodes.first()?;
    if let Some((other, ..)) = nodes.iter().find(|(_, other, _)| *other != transport) {
        found
            .error(other.span, "some sentinels have TLS, and some have not")
            .also(first.span, "the other kind")
            .help("the scheme holds for all of them and for the master: `rediss://` or `redis://`");
        return None;
    }
    let address = RedisAddress::Sentinel(SentinelSpec {
        master: master?.value,
        nodes: nodes.into_iter().map(|(.., spec)| spec).collect(),
    });
    Some(at(address, transport))
}

fn one(node: &Node, found: &mut Findings) -> Option<(Transport, SentinelNode)> {
    let text = decode::secret_text(node, "a sentinel", found)?;
    if text.contains('@') && text.contains(|c: char| c.is_whitespace() || c == '"') {
        found.hide(node.span);
    }
    let url = found.take(node.span, units::sentinel(&text))?;
    match url.address {
        RedisAddress::Tcp { host, port } => Some((
            url.transport,
            SentinelNode {
                host,
                port,
                username: url.username,
                password: url.password.map(Secret::new),
            },
        )),
        RedisAddress::Unix(_) | RedisAddress::Cluster(_) | RedisAddress::Sentinel(_) => None,
    }
}

fn name(text: &str) -> Result<Arc<str>, Wrong> {
    let plausible = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || !text.chars().all(plausible) {
        return Err(Wrong::new(format!("`{text}` is not the name of a master"))
            .help("letters, digits, `.`, `-` and `_`, as in the `sentinel monitor` line"));
    }
    Ok(Arc::from(text))
}
