//! Asks sentinels where the master is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisError, Value};

use super::super::StoreError;
use super::connection::ask;
use super::dial::Dial;
use super::fault::{Connection, Fault};
use crate::policy::{RedisSpec, SentinelSpec};

/// How long one sentinel may take to answer.
const ASK: Duration = Duration::from_millis(250);
/// How often they are asked whether it is still the same.
const LOOK: Duration = Duration::from_secs(1);

/// The sentinels of a master.
#[derive(Debug)]
pub(super) struct Sentinels {
    master: String,
    nodes: Vec<Dial>,
    /// Whose turn it is: one that is away, or that has heard nothing yet, is not asked first every time.
    turn: AtomicUsize,
    spec: RedisSpec,
}

impl Sentinels {
    pub(super) fn new(sentinels: &SentinelSpec, spec: &RedisSpec) -> Self {
        let nodes = sentinels.nodes.iter().map(|node| {
            Dial::tcp(&node.host, node.port, spec)
                .for_user(node.username.clone(), node.password.clone())
        });
        Self {
            master: sentinels.master.to_string(),
            nodes: nodes.collect(),
            turn: AtomicUsize::new(0),
            spec: spec.clone(),
        }
    }

    /// Where the master is, by the first sentinel that says so.
    pub(super) async fn master(&self) -> Result<Dial, Fault> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % self.nodes.len().max(1);
        let (later, first) = self.nodes.split_at(turn);
        let mut silence = Vec::new();
        for node in first.iter().chain(later) {
            match self.ask(node, &mut None).await {
                Ok((host, port)) => return Ok(Dial::tcp(&host, port, &self.spec)),
                Err(why) => silence.push(format!("{node}: {why}")),
            }
        }
        Err(Fault {
            kind: "sentinel",
            detail: format!(
                "no sentinel says where the master `{}` is: {}",
                self.master,
                silence.join("; ")
            ),
            error: StoreError::Unreachable,
            connection: Connection::Useless,
        })
    }

    /// Waits until most sentinels that answer name another master. A master that was replaced takes writes, and closes
    /// nothing, until the sentinels make it a replica, which they do much later.
    pub(super) async fn replaced(&self, current: &Dial) {
        let mut kept: Vec<_> = self.nodes.iter().map(|node| (node, None)).collect();
        loop {
            tokio::time::sleep(LOOK).await;
            let (mut same, mut other) = (0, 0);
            for (node, connection) in &mut kept {
                match self.ask(node, connection).await {
                    Ok((host, port)) if Dial::tcp(&host, port, &self.spec).is_at(current) => {
                        same += 1;
                    }
                    Ok(_) => other += 1,
                    Err(_) => {}
                }
            }
            if other > same {
                return;
            }
        }
    }

    /// Asks one sentinel, on the connection that was kept where there is one.
    async fn ask(
        &self,
        node: &Dial,
        kept: &mut Option<MultiplexedConnection>,
    ) -> Result<(String, u16), String> {
        let asked = tokio::time::timeout(ASK, self.try_ask(node, kept.take()));
        match asked.await {
            Ok(Ok((connection, reply))) => {
                *kept = Some(connection);
                match reply {
                    Value::Nil => Err("it knows no master of this name".to_owned()),
                    reply => redis::from_redis_value(reply)
                        .map_err(|_other| "its reply is not an address".to_owned()),
                }
            }
            Ok(Err(error)) => Err(error.to_string()),
            Err(_elapsed) => Err("no answer within 250 ms".to_owned()),
        }
    }

    async fn try_ask(
        &self,
        node: &Dial,
        kept: Option<MultiplexedConnection>,
    ) -> Result<(MultiplexedConnection, Value), RedisError> {
        let mut connection = match kept {
            Some(connection) => connection,
            None => {
                let config = AsyncConnectionConfig::new().set_response_timeout(None);
                node.connect(&config).await?
            }
        };
        let question = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg(&self.master)
            .to_owned();
        let reply = ask(&mut connection, &question).await?;
        Ok((connection, reply))
    }
}

/// Refuses a server that is no master: sentinels may be late.
pub(super) async fn check_role(connection: &mut MultiplexedConnection) -> Result<(), Fault> {
    let reply = match ask(connection, &redis::cmd("ROLE")).await {
        Ok(reply) => reply,
        // Then the first write tells.
        Err(error) if error.code() == Some("NOPERM") => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    match reply {
        Value::Array(parts) if parts.first() == Some(&Value::BulkString(b"master".to_vec())) => {
            Ok(())
        }
        _ => Err(Fault {
            kind: "readonly",
            detail: "the server that the sentinels name is not a master".to_owned(),
            error: StoreError::Refused,
            connection: Connection::Useless,
        }),
    }
}
