//! How one server is dialled: its address, the login, TLS, and the patience of the kernel.

use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::{TcpSettings, socket2::TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo,
    IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo, RedisError, TlsCertificates,
};

use tokio::io::AsyncReadExt;
use tokio::net::{TcpStream, UnixStream};

use crate::policy::{RedisSpec, Secret, TlsSpec};

/// How long the kernel keeps an unanswered segment, and a silent connection, before it gives up.
const SILENCE: Duration = Duration::from_secs(2);
/// How long, and how many bytes of it, a server is listened to that closed a connection.
const LISTEN: Duration = Duration::from_millis(50);
const GREETING: u64 = 256;

/// One server, and how to log in there.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    address: ConnectionAddr,
    tls: Option<TlsSpec>,
    username: Option<String>,
    password: Option<Secret>,
    database: i64,
}

impl Dial {
    /// A server at `host`, with the rest as `spec` says.
    pub(super) fn tcp(host: &str, port: u16, spec: &RedisSpec) -> Self {
        let host = host.to_owned();
        let address = match spec.tls {
            None => ConnectionAddr::Tcp(host, port),
            Some(_) => ConnectionAddr::TcpTls {
                host,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        Self::at(address, spec)
    }

    /// A server behind a socket of this machine.
    pub(super) fn unix(path: &Path, spec: &RedisSpec) -> Self {
        Self::at(ConnectionAddr::Unix(path.to_owned()), spec)
    }

    fn at(address: ConnectionAddr, spec: &RedisSpec) -> Self {
        Self {
            address,
            tls: spec.tls.clone(),
            username: spec.username.clone(),
            password: spec.password.clone(),
            database: spec.database,
        }
    }

    /// The same server for a user of its own, and without databases.
    pub(super) fn for_user(self, username: Option<String>, password: Option<Secret>) -> Self {
        Self {
            username,
            password,
            database: 0,
            ..self
        }
    }

    /// Whether this is the same server.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.address == other.address
    }

    /// Connects and logs in. The caller sets the deadline.
    pub(super) async fn connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        match self.try_connect(config).await {
            Err(error) if error.is_io_error() => match self.greeting().await {
                Some(words) => Err(io::Error::other(words).into()),
                None => Err(error),
            },
            made => made,
        }
    }

    /// What a server says, unasked, before it closes the connection: that it has too many. Who writes at once does not
    /// get to read it.
    async fn greeting(&self) -> Option<String> {
        let mut words = Vec::new();
        let read = async {
            match &self.address {
                ConnectionAddr::Tcp(host, port) => {
                    let stream = TcpStream::connect((host.as_str(), *port)).await?;
                    stream.take(GREETING).read_to_end(&mut words).await
                }
                ConnectionAddr::Unix(path) => {
                    let stream = UnixStream::connect(path).await?;
                    stream.take(GREETING).read_to_end(&mut words).await
                }
                _ => Ok(0),
            }
        };
        // Whatever came in this time; a server that takes the connection says nothing.
        drop(tokio::time::timeout(LISTEN, read).await);
        let words = String::from_utf8_lossy(&words);
        words.starts_with('-').then(|| words.trim_end().to_owned())
    }

    async fn try_connect(
        &self,
        config: &AsyncConnectionConfig,
    ) -> Result<MultiplexedConnection, RedisError> {
        let info = self.info()?;
        let client = match &self.tls {
            None => Client::open(info)?,
            Some(tls) => Client::build_with_tls(info, read(tls.clone()).await?)?,
        };
        client
            .get_multiplexed_async_connection_with_config(config)
            .await
    }

    fn info(&self) -> Result<ConnectionInfo, RedisError> {
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
        Ok(self
            .address
            .clone()
            .into_connection_info()?
            .set_redis_settings(login)
            .set_tcp_settings(tcp))
    }
}

impl std::fmt::Display for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.address.fmt(f)
    }
}

/// The certificates as they are now: whoever renews them need not restart the gateway.
async fn read(tls: TlsSpec) -> Result<TlsCertificates, RedisError> {
    // Where nobody else has chosen; that someone has is no failure.
    drop(rustls::crypto::ring::default_provider().install_default());
    let file = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| io::Error::new(error.kind(), format!("`{}`: {error}", path.display())))
    };
    let reading = tokio::task::spawn_blocking(move || {
        Ok::<_, io::Error>(TlsCertificates {
            root_cert: tls.ca.as_deref().map(file).transpose()?,
            client_tls: match &tls.identity {
                None => None,
                Some(identity) => Some(ClientTlsConfig {
                    client_cert: file(&identity.cert)?,
                    client_key: file(&identity.key)?,
                }),
            },
        })
    });
    Ok(reading.await.map_err(io::Error::other)??)
}

/// Whether the two ends could not agree on TLS, or on whom to trust.
pub(super) fn is_about_tls(error: &RedisError) -> bool {
    error
        .source()
        .and_then(|inner| inner.downcast_ref::<Arc<dyn Error + Send + Sync>>())
        .and_then(|inner| inner.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .is_some_and(|inner| inner.is::<rustls::Error>())
}
