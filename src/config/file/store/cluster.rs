//! `cluster`: nodes that say where the others are.

use super::super::super::decode;
use super::super::super::node::Node;
use super::super::super::report::{Findings, Span};
use super::super::super::units::Transport;
use super::{at, url};
use crate::policy::{NodeAddress, RedisAddress, RedisSpec};

/// A cluster; what holds for all its nodes stands beside it.
pub(super) fn read(node: &Node, found: &mut Findings) -> Option<RedisSpec> {
    let given = decode::one_or_many(node);
    if given.is_empty() {
        found
            .error(node.span, "a cluster has at least one node")
            .help("write `cluster: [redis://HOST:6379]`; one is enough to find the others");
    }
    let nodes: Vec<_> = given
        .iter()
        .filter_map(|node| Some((one(node, found)?, node.span)))
        .collect();
    let &((_, transport), first) = nodes.first()?;
    if let Some((_, other)) = nodes.iter().find(|((_, other), _)| *other != transport) {
        found
            .error(*other, "some nodes have TLS, and some have not")
            .also(first, "the other kind")
            .help("the scheme holds for all of them: `rediss://` or `redis://`");
    }
    let mut named: Vec<(NodeAddress, Span)> = Vec::new();
    for ((address, _), span) in nodes {
        match named.iter().find(|(other, _)| *other == address) {
            Some((_, other)) => {
                found
                    .error(span, "this node is named twice")
                    .also(*other, "here first");
            }
            None => named.push((address, span)),
        }
    }
    let nodes = named.into_iter().map(|(address, _)| address).collect();
    Some(at(RedisAddress::Cluster(nodes), transport))
}

fn one(node: &Node, found: &mut Findings) -> Option<(NodeAddress, Transport)> {
    let spec = url(node, found)?;
    if spec.username.is_some() || spec.password.is_some() {
        found.hide(node.span);
        found
            .error(node.span, "a user or password holds for the whole cluster")
            .help("write `username` and `password` beside `cluster`");
    }
    if spec.database != 0 {
        found
            .error(node.span, "a cluster has no numbered databases")
            .help("leave the number out; `prefix` keeps the keys apart");
    }
    let transport = match spec.tls {
        Some(_) => Transport::Tls,
        None => Transport::Plain,
    };
    match spec.address {
        RedisAddress::Tcp { host, port } => {
            let host = host.into();
            Some((NodeAddress { host, port }, transport))
        }
        RedisAddress::Unix(_) | RedisAddress::Cluster(_) | RedisAddress::Sentinel(_) => {
            found
                .error(node.span, "a node of a cluster has no socket file")
                .help("write `redis://HOST:6379`");
            None
        }
    }
}
