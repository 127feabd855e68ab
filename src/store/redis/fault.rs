//! Why a call has no reply, and what the errors of a server mean.

use redis::{ErrorKind, RedisError};

use super::super::StoreError;
use super::{dial, needs};

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
            _ if dial::is_about_tls(&error) => ("tls", Unreachable, Useless),
            _ if is_crowded(&error) => ("maxclients", Refused, Useless),
            _ if error.is_timeout() => ("timeout", Timeout, Useless),
            (_, ErrorKind::Io) => ("unreachable", Unreachable, Useless),
            (_, ErrorKind::Parse) => ("protocol", Refused, Useless),
            (_, ErrorKind::AuthenticationFailed) => ("auth", Refused, Useless),
            (Some("NOAUTH" | "WRONGPASS"), _) => ("auth", Refused, Useless),
            // Not this server, or not yet: the address may lead to another one by now.
            (Some("LOADING"), _) => ("loading", Refused, Useless),
            (Some("READONLY"), _) => ("readonly", Refused, Useless),
            (Some("MASTERDOWN"), _) => ("masterdown", Refused, Useless),
            _ if needs::is_refused(&error) => ("noperm", Refused, Usable),
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

/// Whether the server has as many clients as it takes.
fn is_crowded(error: &RedisError) -> bool {
    error.to_string().contains("max number of clients")
}
