//! One connection to one Redis: how it is made, how a call is sent on it, and what its errors mean.
//!
//! The crate's own reconnecting is not used: it keeps a connection on which nothing is answered, one to a server that has
//! become a replica, and one that failed to log in.

use std::sync::Arc;
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
use crate::policy::{RedisAddress, RedisSpec};
use crate::time::Micros;

/// How long a connection may take to be made and answered on.
const CONNECT: Duration = Duration::from_millis(750);
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
}

/// A connection that was answered on.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// The hash of the script.
    hash: String,
    /// Whose clock the script reads.
    clock: Clock,
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

impl Connector {
    pub(super) fn new(spec: &RedisSpec) -> Self {
        Self {
            target: match &spec.address {
                RedisAddress::Tcp { host, port } => {
                    Target::Fixed(Box::new(Dial::tcp(host, *port, spec)))
                }
                RedisAddress::Unix(path) => Target::Fixed(Box::new(Dial::unix(path, spec))),
                RedisAddress::Sentinel(sentinels) => {
                    Target::Named(Arc::new(Sentinels::new(sentinels, spec)))
                }
            },
            prefix: Arc::clone(&spec.prefix),
            script: redis::Script::new(script::text()),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The key of the secret that gateways share.
    pub(super) fn secret_key(&self) -> String {
        format!("{}:1:secret", self.prefix)
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
            clock: Clock::Server,
            lost,
            replaced,
        })
    }
}

impl Link {
    /// Offers this process's secret under `name`; the first gateway's holds. Each time renews its life.
    pub(super) async fn agree(&mut self, name: &str, keys: &Keys) -> Result<(), Fault> {
        let Some(own) = keys.offer() else {
            return Ok(());
        };
        let connection = &mut self.connection;
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
        &mut self,
        call: &Call,
        told: impl Fn(Detour),
    ) -> Result<Vec<u8>, Fault> {
        let reply = match self.send(call, &told).await {
            // The clock is the first that the script asks for: it has done nothing.
            Err(error) if needs::is_refused(&error) && self.lost_the_time().await => {
                told(Detour::NoTime);
                self.send(call, &told).await?
            }
            reply => reply?,
        };
        match reply {
            Value::BulkString(reply) => Ok(reply),
            _ => Err(Fault::garbled("the reply is not a text")),
        }
    }

    /// By hash, and with the text where the server has lost the script.
    async fn send(&mut self, call: &Call, told: impl Fn(Detour)) -> Result<Value, RedisError> {
        let by_hash = command("EVALSHA", &self.hash, call, self.clock);
        match ask(&mut self.connection, &by_hash).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                told(Detour::NoScript);
                let by_text = command("EVAL", script::text(), call, self.clock);
                ask(&mut self.connection, &by_text).await
            }
            reply => reply,
        }
    }

    /// Whether it is the server's time that may not be asked for: from now on this machine's counts.
    async fn lost_the_time(&mut self) -> bool {
        let asked = self.clock == Clock::Server;
        let time = redis::cmd("TIME");
        if asked
            && ask(&mut self.connection, &time)
                .await
                .is_err_and(|error| needs::is_refused(&error))
        {
            self.clock = Clock::Gateway;
            return true;
        }
        false
    }

    /// Asks for a sign of life.
    pub(super) async fn ping(&mut self) -> Result<(), Fault> {
        ask(&mut self.connection, &redis::cmd("PING")).await?;
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
