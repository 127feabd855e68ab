//! What a node of a cluster says of other nodes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use redis::{AsyncConnectionConfig, RedisError, Value};

use super::super::connection::{CONNECT, ask};
use super::super::dial::Dial;
use super::super::fault::Fault;
use super::super::way::Redirect;
use super::slots::{Range, Slot};
use crate::policy::{NodeAddress, RedisSpec};

/// Asks a node, on a connection of its own, who has which slot.
pub(super) async fn slots(
    node: &NodeAddress,
    spec: &RedisSpec,
) -> Result<Vec<Range<NodeAddress>>, Fault> {
    let asked = async {
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let mut connection = Dial::tcp(&node.host, node.port, spec)
            .connect(&config)
            .await?;
        let reply = ask(&mut connection, redis::cmd("CLUSTER").arg("SLOTS")).await?;
        ranges(&reply, node).ok_or_else(|| Fault::garbled("the map of slots is not one"))
    };
    tokio::time::timeout(CONNECT, asked)
        .await
        .unwrap_or_else(|_elapsed| Err(Fault::silent("no map of slots within 750 ms")))
}

/// Where a node of a cluster sends what it is not the one to ask. The host is empty where it does not know its own.
pub(in crate::store::redis) fn redirect(error: &RedisError) -> Option<Redirect> {
    let to = |address: &str| {
        let (host, port) = address.rsplit_once(':')?;
        Some(NodeAddress {
            host: known(host).into(),
            port: port.parse().ok()?,
        })
    };
    let (address, slot) = match error.code() {
        Some("TRYAGAIN") => return Some(Redirect::TryAgain),
        Some("MOVED" | "ASK") => error.redirect_node()?,
        _ => return None,
    };
    let (to, slot) = (to(address)?, Slot::new(u64::from(slot))?);
    Some(match error.code() {
        Some("MOVED") => Redirect::Moved { slot, to },
        _ => Redirect::Ask { to },
    })
}

/// A host, or nothing where a node says that it knows none.
fn known(host: &str) -> &str {
    if host == "?" { "" } else { host }
}

/// The reply to `CLUSTER SLOTS`: for each range its ends, its master, its replicas.
fn ranges(reply: &Value, asked: &NodeAddress) -> Option<Vec<Range<NodeAddress>>> {
    let number = |value: &Value| match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    };
    let slot = |value: &Value| Slot::new(number(value)?);
    let node = |value: &Value| {
        let Value::Array(node) = value else {
            return None;
        };
        let host = match node.first()? {
            Value::BulkString(host) => std::str::from_utf8(host).ok()?,
            Value::SimpleString(host) => host,
            Value::Nil => "",
            _ => return None,
        };
        let port = u16::try_from(number(node.get(1)?)?).ok()?;
        Some(match known(host) {
            "" => NodeAddress {
                host: Arc::clone(&asked.host),
                port,
            },
            host => NodeAddress {
                host: host.into(),
                port,
            },
        })
    };
    let range = |value: &Value| {
        let Value::Array(range) = value else {
            return None;
        };
        Some(Range {
            first: slot(range.first()?)?,
            last: slot(range.get(1)?)?,
            node: node(range.get(2)?)?,
        })
    };
    match reply {
        Value::Array(ranges) => ranges.iter().map(range).collect(),
        _ => None,
    }
}
