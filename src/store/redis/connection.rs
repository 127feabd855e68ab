//! One connection to one Redis: how it is made, how a call is sent on it, and what its errors mean.
//!
//! The crate's own reconnecting is not used: it keeps a connection on which nothing is answered, one to a server that has
//! become a replica, and one that failed to log in.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, IntoConnectionInfo,
    ProtocolVersion, PushInfo, PushKind, RedisConnectionInfo, RedisError, Value,
};
use tokio::sync::watch;

use super::super::StoreError;
use super::super::secret::Keys;
use super::script::{self, Call};
use crate::policy::{RedisAddress, RedisSpec, Secret};

/// How long a connection may take to be made and answered on.
const CONNECT: Duration = Duration::from_millis(750);
/// How long the kernel keeps an unanswered segment, and a silent connection, before it gives up.
const SILENCE: Duration = Duration::from_secs(2);
/// How long the shared secret outlives the last gateway that connected.
const SECRET_DAYS: u64 = 30;

/// Makes connections.
#[derive(Debug)]
pub(super) struct Connector {
    address: RedisAddress,
    username: Option<String>,
    password: Option<Secret>,
    database: i64,
    prefix: std::sync::Arc<str>,
    script: redis::Script,
}

/// A connection that was answered on.
pub(super) struct Link {
    connection: MultiplexedConnection,
    /// The hash of the script.
    hash: String,
    lost: watch::Receiver<bool>,
}

/// Why a call has no reply.
#[derive(Debug)]
pub(super) struct Fault {
    /// The label of `sluice_store_errors_total`.
    pub(super) kind: &'static str,
    /// For the log.
    pub(super) detail: String,
    /// What the requests are told.
    pub(super) error: StoreError,
    /// Whether the connection can still be used.
    pub(super) connection: Connection,
}

/// What becomes of a connection after a fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Connection {
    /// It stays.
    Usable,
    /// It is dropped, and a new one made, which looks the address up again.
    Useless,
}

impl Connector {
    pub(super) fn new(spec: &RedisSpec) -> Self {
        Self {
            address: spec.address.clone(),
            username: spec.username.clone(),
            password: spec.password.clone(),
            database: spec.database,
            prefix: std::sync::Arc::clone(&spec.prefix),
            script: redis::Script::new(script::text()),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Connects, logs in, loads the script, and agrees on the secret.
    pub(super) async fn connect(&self, keys: &Keys) -> Result<Link, Fault> {
        tokio::time::timeout(CONNECT, self.try_connect(keys))
            .await
            .unwrap_or_else(|_elapsed| Err(Fault::silent("no connection within 750 ms")))
    }

    async fn try_connect(&self, keys: &Keys) -> Result<Link, Fault> {
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
        let mut connection = Client::open(self.info()?)?
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
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
        self.agree(&mut connection, keys).await?;
        Ok(Link {
            connection,
            hash: self.script.get_hash().to_owned(),
            lost,
        })
    }

    /// Offers this process's secret; the first gateway's holds. Each connection renews its life.
    async fn agree(
        &self,
        connection: &mut MultiplexedConnection,
        keys: &Keys,
    ) -> Result<(), Fault> {
        let Some(own) = keys.offer() else {
            return Ok(());
        };
        let name = format!("{}:1:secret", self.prefix);
        let seconds = SECRET_DAYS * 24 * 3600;
        let mut offer = redis::cmd("SET");
        offer.arg(&name).arg(own).arg("NX").arg("EX").arg(seconds);
        ask(connection, &offer).await?;
        ask(connection, redis::cmd("EXPIRE").arg(&name).arg(seconds)).await?;
        match ask(connection, redis::cmd("GET").arg(&name)).await? {
            Value::BulkString(secret) if !secret.is_empty() => {
                keys.settle(String::from_utf8_lossy(&secret).into_owned());
                Ok(())
            }
            _ => Err(Fault::garbled("the shared secret is not a text")),
        }
    }

    fn info(&self) -> Result<redis::ConnectionInfo, RedisError> {
        let address = match &self.address {
            RedisAddress::Tcp { host, port } => ConnectionAddr::Tcp(host.clone(), *port),
            RedisAddress::Unix(path) => ConnectionAddr::Unix(path.clone()),
        };
        // With RESP3 a connection that ends is noticed while it is idle.
        let mut login = RedisConnectionInfo::default()
            .set_db(self.database)
            .set_protocol(ProtocolVersion::RESP3)
            .set_lib_name("sluice", env!("CARGO_PKG_VERSION"));
        if let Some(username) = &self.username {
            login = login.set_username(username);
        }
        if let Some(password) = &self.password {
            login = login.set_password(password.expose());
        }
        let keepalive = TcpKeepalive::new()
            .with_time(SILENCE)
            .with_interval(Duration::from_secs(1));
        let tcp = TcpSettings::default()
            .set_nodelay(true)
            .set_keepalive(keepalive);
        #[cfg(target_os = "linux")]
        let tcp = tcp.set_user_timeout(SILENCE);
        Ok(address
            .into_connection_info()?
            .set_redis_settings(login)
            .set_tcp_settings(tcp))
    }
}

impl Link {
    /// Sends the call and waits for its reply: by hash, and with the text where the server has lost the script.
    ///
    /// `lost` hears of a lost script, which is no failure of the call.
    pub(super) async fn call(
        &mut self,
        call: &Call,
        lost: impl FnOnce(),
    ) -> Result<Vec<u8>, Fault> {
        let reply = match ask(&mut self.connection, &command("EVALSHA", &self.hash, call)).await {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                lost();
                ask(&mut self.connection, &command("EVAL", script::text(), call)).await?
            }
            reply => reply?,
        };
        match reply {
            Value::BulkString(reply) => Ok(reply),
            _ => Err(Fault::garbled("the reply is not a text")),
        }
    }

    /// Asks for a sign of life.
    pub(super) async fn ping(&mut self) -> Result<(), Fault> {
        ask(&mut self.connection, &redis::cmd("PING")).await?;
        Ok(())
    }

    /// Waits until the server closes the connection.
    pub(super) async fn lost(&mut self) -> Fault {
        // When the sender is gone, so is the connection.
        drop(self.lost.wait_for(|lost| *lost).await);
        Fault {
            kind: "unreachable",
            detail: "the server closed the connection".to_owned(),
            error: StoreError::Unreachable,
            connection: Connection::Useless,
        }
    }
}

fn command(name: &str, script: &str, call: &Call) -> Cmd {
    let keys = call.keys();
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len());
    for key in keys {
        command.arg(key.as_str());
    }
    command.arg(call.packed());
    command
}

async fn ask(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, RedisError> {
    connection
        .send_packed_command(command)
        .await
        .and_then(Value::extract_error)
}

impl Fault {
    /// Nothing came in time.
    pub(super) fn silent(detail: &str) -> Self {
        Self {
            kind: "timeout",
            detail: detail.to_owned(),
            error: StoreError::Timeout,
            connection: Connection::Useless,
        }
    }

    /// Something came that the script never says.
    pub(super) fn garbled(detail: &str) -> Self {
        Self {
            kind: "protocol",
            detail: detail.to_owned(),
            error: StoreError::Refused,
            connection: Connection::Useless,
        }
    }
}

impl From<RedisError> for Fault {
    fn from(error: RedisError) -> Self {
        use Connection::{Usable, Useless};
        use StoreError::{Refused, Timeout, Unreachable};
        let (kind, told, connection) = match (error.code(), error.kind()) {
            _ if error.is_timeout() => ("timeout", Timeout, Useless),
            (_, ErrorKind::Io) => ("unreachable", Unreachable, Useless),
            (_, ErrorKind::Parse) => ("protocol", Refused, Useless),
            (_, ErrorKind::AuthenticationFailed) => ("auth", Refused, Useless),
            (Some("NOAUTH" | "WRONGPASS"), _) => ("auth", Refused, Useless),
            // Not this server, or not yet: the address may lead to another one by now.
            (Some("LOADING"), _) => ("loading", Refused, Useless),
            (Some("READONLY"), _) => ("readonly", Refused, Useless),
            (Some("MASTERDOWN"), _) => ("masterdown", Refused, Useless),
            (Some("NOPERM"), _) => ("noperm", Refused, Usable),
            (Some("OOM"), _) => ("oom", Refused, Usable),
            (Some("MISCONF"), _) => ("misconf", Refused, Usable),
            (Some("NOREPLICAS"), _) => ("noreplicas", Refused, Usable),
            (Some("BUSY"), _) => ("busy", Refused, Usable),
            _ => ("refused", Refused, Usable),
        };
        Self {
            kind,
            detail: error.to_string(),
            error: told,
            connection,
        }
    }
}
