//! Addresses: where to listen, networks, servers, a Redis.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use ipnet::IpNet;
use percent_encoding::percent_decode_str;

use super::Wrong;
use crate::config::mask::shown;
use crate::policy::{RedisAddress, ServerSpec};

/// Where to listen: `HOST:PORT`, `:PORT` or `PORT`; without a host every IPv4 address of the machine.
pub(in crate::config) fn endpoint(text: &str) -> Result<SocketAddr, Wrong> {
    const FORMS: &str = "write `0.0.0.0:8080`, `\"[::]:8080\"`, `:8080` or `8080`";
    let wrong = || Wrong::new(format!("`{text}` is not an address to listen on")).help(FORMS);
    if text.contains("://") {
        return Err(Wrong::new(format!("`{}` is a URL", shown(text))).help(FORMS));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(address);
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => ("", text),
    };
    if port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let port = self::port(port)?;
    match host {
        "" | "*" => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)),
        "localhost" => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)),
        _ if text.parse::<Ipv6Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok() => {
            Err(Wrong::new(format!("`{text}` needs brackets around its IPv6 address")).help(FORMS))
        }
        _ => Err(Wrong::new(format!("`{host}` is not an IP address")).help(FORMS)),
    }
}

/// A network; a bare address is the network of it alone.
pub(in crate::config) fn cidr(text: &str) -> Result<IpNet, Wrong> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    match text.parse::<IpNet>() {
        Ok(net) if net.trunc() == net => Ok(net),
        Ok(net) => Err(
            Wrong::new(format!("`{text}` has bits set outside its prefix")).help(format!(
                "did you mean `{}`, or the one address `{}`?",
                net.trunc(),
                net.addr()
            )),
        ),
        Err(_) => Err(Wrong::new(format!("`{text}` is not a network")).help(
            "write an address as `192.0.2.1` or a network as `192.0.2.0/24` or `2001:db8::/32`",
        )),
    }
}

/// A port from 1 to 65535.
fn port(text: &str) -> Result<u16, Wrong> {
    match text.parse::<u16>() {
        Ok(port) if port > 0 => Ok(port),
        Ok(_) | Err(_) => {
            Err(Wrong::new(format!("`{text}` is not a port")).help("a port is 1 to 65535"))
        }
    }
}

/// Whether a URL said its scheme.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) struct Endpoint {
    pub(in crate::config) server: ServerSpec,
    pub(in crate::config) scheme: Scheme,
}

/// How a scheme came about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Scheme {
    Said,
    /// Left out: taken as `http`.
    Assumed,
}

/// The URL of a server: `http://HOST[:PORT]`.
pub(in crate::config) fn server(text: &str) -> Result<Endpoint, Wrong> {
    let (scheme, rest) = match text.split_once("://") {
        Some(("http", rest)) => (Scheme::Said, rest),
        Some(("https", _)) => {
            return Err(Wrong::later("https://").help("upstreams are reached in clear text so far"));
        }
        Some((other, _)) => {
            return Err(
                Wrong::new(format!("`{other}` is not a scheme of an upstream"))
                    .help("write `http://HOST:PORT`"),
            );
        }
        None => (Scheme::Assumed, text),
    };
    let (authority, path) = rest
        .find(['/', '?', '#'])
        .map_or((rest, ""), |at| rest.split_at(at));
    if !matches!(path, "" | "/") {
        return Err(
            Wrong::new(format!("an upstream has no path, and this has `{path}`"))
                .help("name the server alone; the path of the request is kept"),
        );
    }
    if authority.contains('@') {
        return Err(Wrong::new("an upstream's URL holds no user or password"));
    }
    let (host, port) = host_and_port(authority, 80)?;
    Ok(Endpoint {
        server: ServerSpec {
            host: Arc::from(host.as_str()),
            port,
        },
        scheme,
    })
}

/// `HOST[:PORT]`; an IPv6 address in brackets, which are taken off.
fn host_and_port(text: &str, default: u16) -> Result<(String, u16), Wrong> {
    let wrong =
        || Wrong::new(format!("`{text}` is not a host")).help("write `HOST` or `HOST:PORT`");
    if let Some(rest) = text.strip_prefix('[') {
        let (address, after) = rest.split_once(']').ok_or_else(wrong)?;
        let address = address.parse::<Ipv6Addr>().ok().ok_or_else(wrong)?;
        let port = match after.strip_prefix(':') {
            Some(port) => self::port(port)?,
            None if after.is_empty() => default,
            None => return Err(wrong()),
        };
        return Ok((address.to_string(), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((_, port)) if port.contains(':') => {
            return Err(
                Wrong::new(format!("`{text}` needs brackets around its IPv6 address"))
                    .help("write `\"[2001:db8::1]:80\"`"),
            );
        }
        Some((host, port)) => (host, self::port(port)?),
        None => (text, default),
    };
    let plausible = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    if host.is_empty()
        || host.len() > 253
        || !host.chars().all(plausible)
        || host.starts_with(['.', '-'])
    {
        return Err(wrong());
    }
    Ok((host.to_ascii_lowercase(), port))
}

/// What the URL of a Redis says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::config) struct RedisUrl {
    pub(in crate::config) address: RedisAddress,
    pub(in crate::config) transport: Transport,
    pub(in crate::config) username: Option<String>,
    pub(in crate::config) password: Option<String>,
    pub(in crate::config) database: i64,
}

/// What the scheme of a URL says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Transport {
    Plain,
    Tls,
}

/// `redis[s]://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]` or `unix:///path`. No message holds the password.
pub(in crate::config) fn redis(text: &str) -> Result<RedisUrl, Wrong> {
    const FORMS: &str =
        "write `redis://HOST:6379/0`, `rediss://HOST:6379/0` or `unix:///run/redis.sock`";
    match text.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') && path.len() > 1 => Ok(RedisUrl {
            address: RedisAddress::Unix(PathBuf::from(path)),
            transport: Transport::Plain,
            username: None,
            password: None,
            database: 0,
        }),
        Some(("unix", _)) => Err(Wrong::new("a socket's path begins with `/`").help(FORMS)),
        Some((scheme, rest)) => redis_over_tcp(scheme, rest, 6379, FORMS),
        None => Err(Wrong::new("this is not a store").help(FORMS)),
    }
}

/// `redis[s]://[USER[:PASSWORD]@]HOST[:PORT]` of a sentinel. No message holds the password.
pub(in crate::config) fn sentinel(text: &str) -> Result<RedisUrl, Wrong> {
    const FORMS: &str = "write `redis://HOST:26379` or `rediss://HOST:26379`";
    let url = match text.split_once("://") {
        Some((scheme, rest)) => redis_over_tcp(scheme, rest, 26379, FORMS)?,
        None => return Err(Wrong::new("this is not the URL of a sentinel").help(FORMS)),
    };
    if url.database != 0 {
        return Err(Wrong::new("a sentinel has no databases")
            .help("the counts are in database 0 of the master, under `prefix`"));
    }
    Ok(url)
}

fn redis_over_tcp(
    scheme: &str,
    rest: &str,
    default_port: u16,
    forms: &str,
) -> Result<RedisUrl, Wrong> {
    let transport = match scheme {
        "redis" => Transport::Plain,
        "rediss" => Transport::Tls,
        other => {
            let meant = crate::config::nearest::nearest(other, ["redis", "rediss", "unix"])
                .filter(|meant| *meant != other);
            return Err(Wrong::new(format!("`{other}` is not a scheme of a store"))
                .help(forms)
                .meant(meant));
        }
    };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((user, rest)) => (user, rest),
        None => ("", rest),
    };
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    let database = match database {
        "" => 0,
        digits => match digits.parse::<u16>() {
            Ok(number) => i64::from(number),
            Err(_) => {
                return Err(
                    Wrong::new("the path of a store's URL is the number of a database").help(forms),
                );
            }
        },
    };
    let (host, port) = host_and_port(authority, default_port)?;
    let (username, password) = match user.split_once(':') {
        Some((username, password)) => (username, password),
        None => (user, ""),
    };
    Ok(RedisUrl {
        address: RedisAddress::Tcp { host, port },
        transport,
        username: decoded(username)?,
        password: decoded(password)?,
        database,
    })
}

fn decoded(text: &str) -> Result<Option<String>, Wrong> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => Ok(Some(text.into_owned())),
        Err(_) => Err(Wrong::new("the user or password in this URL is not UTF-8")),
    }
}
