//! The question that `sluice health` asks.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long the whole question may take.
const DEADLINE: Duration = Duration::from_secs(2);

/// Why a gateway does not count as ready.
#[derive(Debug)]
pub enum ProbeError {
    /// Nothing answered at its admin address within two seconds.
    Unreachable(io::Error),
    /// It answered with this status: it starts, or drains.
    NotReady(u16),
    /// What answered does not speak HTTP.
    NotHttp,
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => write!(f, "no answer from the admin endpoint: {error}"),
            Self::NotReady(status) => write!(f, "not ready: /readyz answers {status}"),
            Self::NotHttp => f.write_str("what answers at the admin address is not sluice"),
        }
    }
}

impl std::error::Error for ProbeError {}

/// Asks the gateway on this machine whether it is ready. Blocks for at most two seconds. An endpoint that is bound to
/// every address is asked on loopback.
///
/// # Errors
/// When it is not ready, or does not answer.
pub fn probe(admin: SocketAddr) -> Result<(), ProbeError> {
    probe_within(admin, DEADLINE)
}

pub(super) fn probe_within(admin: SocketAddr, within: Duration) -> Result<(), ProbeError> {
    let address = match admin.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), admin.port())
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(Ipv6Addr::LOCALHOST.into(), admin.port())
        }
        _ => admin,
    };
    let head = ask(address, Instant::now() + within).map_err(ProbeError::Unreachable)?;
    match status(&head) {
        Some(200) => Ok(()),
        Some(status) => Err(ProbeError::NotReady(status)),
        None => Err(ProbeError::NotHttp),
    }
}

/// The first bytes of the answer: enough for its status.
fn ask(address: SocketAddr, deadline: Instant) -> io::Result<[u8; 12]> {
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let mut stream = TcpStream::connect_timeout(&address, left()?)?;
    stream.set_write_timeout(Some(left()?))?;
    write!(
        stream,
        "GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut head = [0; 12];
    let mut rest: &mut [u8] = &mut head;
    while !rest.is_empty() {
        stream.set_read_timeout(Some(left()?))?;
        match stream.read(rest) {
            Ok(0) => break,
            Ok(n) => rest = rest.get_mut(n..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// The status of `HTTP/1.1 200`.
fn status(head: &[u8]) -> Option<u16> {
    let text = std::str::from_utf8(head).ok()?;
    text.strip_prefix("HTTP/1.1 ")
        .or_else(|| text.strip_prefix("HTTP/1.0 "))?
        .parse()
        .ok()
}
