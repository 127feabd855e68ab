//! One connection to one Redis: how it is made, how a call is sent on it, and what its errors mean.
//!
//! The crate's own reconnecting is not used: it keeps a connection on which nothing is answered, one to a server that has
//! become a replica, and one that failed to log in.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisError, Value};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::super::StoreError;
use super::super::secret::Keys;
use super::dial::Dial;
use super::fault::{Connection, Fault};
use super::needs::{self, Want};
use super::script::{self, Call};
use super::sentinel::{self, Sentinels};
use super::way::Manner;
use crate::policy::{NodeAddress, RedisAddress, RedisSpec};
use crate::time::Micros;

/// How long a connection may take to be made and answered on.
pub(super) const CONNECT: Duration = Duration::from_millis(750);
/// How long the shared secret outlives the last gateway that connected.
const SECRET_DAYS: u64 = 30;

/// Makes connections.
#[derive(Debug)]
pub(super) struct Connector {
    target: Target,
    prefix: Arc<str>,
    script: redis::Script,
}

/// Where the server is.
#[derive(Debug)]
enum Target {
    Fixed(Box<Dial>),
    Named(Arc<Sentinels>),
    /// Many: each is connected to by its own address.
    Cluster,
}

/// A connection that was answered on.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// The hash of the script.
    hash: String,
    /// The user may not ask the server for its time: this machine's counts.
    own_clock: AtomicBool,
    lost: watch::Receiver<bool>,
    /// Ends when the sentinels name another server.
    replaced: Option<Watch>,
}

/// A task that ends with this.
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Who says what time it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Clock {
    Server,
    /// The user may not ask the server.
    Gateway,
}

/// What went another way than it should, without a call having failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Detour {
    /// The server had lost the script.
    NoScript,
    /// The server does not tell its time.
    NoTime,
}

/// The key of the secret that gateways share.
pub(super) fn secret_key(prefix: &str) -> String {
    format!("{prefix}:1:secret")
}

impl Connector {
    pub(super) fn new(spec: &RedisSpec) -> Self {
        Self::at(
            match &spec.address {
                RedisAddress::Tcp { host, port } => {
                    Target::Fixed(Box::new(Dial::tcp(host, *port, spec)))
                }
                RedisAddress::Unix(path) => Target::Fixed(Box::new(Dial::unix(path, spec))),
                RedisAddress::Sentinel(sentinels) => {
                    Target::Named(Arc::new(Sentinels::new(sentinels, spec)))
                }
                RedisAddress::Cluster(_) => Target::Cluster,
            },
            spec,
        )
    }

    /// To one node of a cluster.
    pub(super) fn to(node: &NodeAddress, spec: &RedisSpec) -> Self {
        let dial = Dial::tcp(&node.host, node.port, spec);
        Self::at(Target::Fixed(Box::new(dial)), spec)
    }

    fn at(target: Target, spec: &RedisSpec) -> Self {
        Self {
            target,
            prefix: Arc::clone(&spec.prefix),
            script: redis::Script::new(script::text()),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Connects, logs in, and loads the script.
    pub(super) async fn connect(&self) -> Result<Link, Fault> {
        let found;
        let dial = match &self.target {
            Target::Fixed(dial) => dial,
            Target::Named(sentinels) => {
                found = sentinels.master().await?;
                &found
            }
            Target::Cluster => return Err(Fault::garbled("a cluster is no server")),
        };
        tokio::time::timeout(CONNECT, self.try_connect(dial))
            .await
            .unwrap_or_else(|_elapsed| Err(Fault::silent("no connection within 750 ms")))
    }

    async fn try_connect(&self, dial: &Dial) -> Result<Link, Fault> {
        let (lose, lost) = watch::channel(false);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(None)
            .set_push_sender(move |push: PushInfo| {
                if push.kind == PushKind::Disconnection {
                    lose.send_replace(true);
                }
                Ok::<_, std::convert::Infallible>(())
            });
        let mut connection = dial.connect(&config).await?;
        let mut replaced = None;
        if let Target::Named(sentinels) = &self.target {
            sentinel::check_role(&mut connection).await?;
            let (sentinels, dial) = (Arc::clone(sentinels), dial.clone());
            let watch = async move { sentinels.replaced(&dial).await };
            replaced = Some(Watch(tokio::spawn(watch)));
        }
        let load = redis::cmd("SCRIPT")
            .arg("LOAD")
            .arg(script::text())
            .to_owned();
        match ask(&mut connection, &load).await {
            Ok(_) => {}
            // Not every user may load; EVAL does it as well.
            Err(error) if error.code() == Some("NOPERM") => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Link {
            connection,
            hash: self.script.get_hash().to_owned(),
            own_clock: AtomicBool::new(false),
            lost,
            replaced,
        })
    }
}

impl Link {
    /// Offers this process's secret under `name`; the first gateway's holds. Each time renews its life.
    pub(super) async fn agree(&self, name: &str, keys: &Keys) -> Result<(), Fault> {
        let Some(own) = keys.offer() else {
            return Ok(());
        };
        let connection = &mut self.connection.clone();
        let seconds = SECRET_DAYS * 24 * 3600;
        let mut offer = redis::cmd("SET");
        offer.arg(name).arg(own).arg("NX").arg("EX").arg(seconds);
        ask(connection, &offer).await?;
        ask(connection, redis::cmd("EXPIRE").arg(name).arg(seconds)).await?;
        match ask(connection, redis::cmd("GET").arg(name)).await? {
            Value::BulkString(secret) if !secret.is_empty() => {
                keys.settle(String::from_utf8_lossy(&secret).into_owned());
                Ok(())
            }
            _ => Err(Fault::garbled("the shared secret is not a text")),
        }
    }

    /// What the server lacks that limits need.
    pub(super) async fn wants(&mut self, prefix: &str) -> Result<Vec<Want>, Fault> {
        Ok(needs::look(&mut self.connection, prefix).await?)
    }

    /// Sends the call and waits for its reply. `told` hears of a detour.
    pub(super) async fn call(
        &self,
        call: &Call,
        manner: Manner,
        told: impl Fn(Detour),
    ) -> Result<Vec<u8>, Fault> {
        let clock = self.clock();
        let reply = match self.send(call, manner, clock, &told).await {
            // The clock is the first that the script asks for: it has done nothing.
            Err(error)
                if clock == Clock::Server
                    && needs::is_refused(&error)
                    && self.lost_the_time(&told).await =>
            {
                self.send(call, manner, Clock::Gateway, &told).await?
            }
            reply => reply?,
        };
        match reply {
            Value::BulkString(reply) => Ok(reply),
            _ => Err(Fault::garbled("the reply is not a text")),
        }
    }

    /// By hash, and with the text where the server has lost the script.
    async fn send(
        &self,
        call: &Call,
        manner: Manner,
        clock: Clock,
        told: impl Fn(Detour),
    ) -> Result<Value, RedisError> {
        let by_hash = command("EVALSHA", &self.hash, call, clock);
        match self.ask_as(manner, &by_hash).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                told(Detour::NoScript);
                let by_text = command("EVAL", script::text(), call, clock);
                self.ask_as(manner, &by_text).await
            }
            reply => reply,
        }
    }

    async fn ask_as(&self, manner: Manner, command: &Cmd) -> Result<Value, RedisError> {
        let mut connection = self.connection.clone();
        match manner {
            Manner::Together | Manner::Alone => ask(&mut connection, command).await,
            Manner::Asking => {
                let mut both = redis::pipe();
                both.cmd("ASKING").add_command(command.clone());
                let replies = connection.send_packed_commands(&both, 1, 1).await?;
                let reply = replies.into_iter().next().unwrap_or(Value::Nil);
                reply.extract_error()
            }
        }
    }

    /// Whose clock the script reads.
    fn clock(&self) -> Clock {
        if self.own_clock.load(Ordering::Relaxed) {
            Clock::Gateway
        } else {
            Clock::Server
        }
    }

    /// Whether it is the server's time that may not be asked for: from now on this machine's counts.
    async fn lost_the_time(&self, told: impl Fn(Detour)) -> bool {
        let mut connection = self.connection.clone();
        let lost = match self.clock() {
            Clock::Gateway => true,
            Clock::Server => ask(&mut connection, &redis::cmd("TIME"))
                .await
                .is_err_and(|error| needs::is_refused(&error)),
        };
        if lost && !self.own_clock.swap(true, Ordering::Relaxed) {
            told(Detour::NoTime);
        }
        lost
    }

    /// Asks for a sign of life.
    pub(super) async fn ping(&self) -> Result<(), Fault> {
        ask(&mut self.connection.clone(), &redis::cmd("PING")).await?;
        Ok(())
    }

    /// Waits until the server closes the connection, or is no longer the one to ask.
    pub(super) async fn lost(&mut self) -> Fault {
        let replaced = async {
            match &mut self.replaced {
                Some(watch) => drop((&mut watch.0).await),
                None => std::future::pending().await,
            }
        };
        let (kind, detail) = tokio::select! {
            // When the sender is gone, so is the connection.
            _ = self.lost.wait_for(|lost| *lost) => ("unreachable", "the server closed the connection"),
            () = replaced => ("readonly", "the sentinels name another master"),
        };
        Fault {
            kind,
            detail: detail.to_owned(),
            error: StoreError::Unreachable,
            connection: Connection::Useless,
            redirect: None,
        }
    }
}

fn command(name: &str, script: &str, call: &Call, clock: Clock) -> Cmd {
    let keys = call.keys();
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_str());
    }
    command.arg(call.packed());
    if clock == Clock::Gateway {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        command.arg(Micros::from(now.unwrap_or_default()).get());
    }
    command
}

impl Detour {
    /// The label of `sluice_store_errors_total`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::NoScript => "noscript",
            Self::NoTime => "no_time",
        }
    }
}

impl std::fmt::Display for Detour {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoScript => "the server has lost the script; it is sent again",
            Self::NoTime => {
                "the user may not run time: the clock of this machine counts, and those of all gateways should agree"
            }
        })
    }
}

pub(super) async fn ask(
    connection: &mut MultiplexedConnection,
    command: &Cmd,
) -> Result<Value, RedisError> {
    connection
        .send_packed_command(command)
        .await
        .and_then(Value::extract_error)
}
