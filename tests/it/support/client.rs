//! Clients: one that speaks plain HTTP/1.1 and one that sends whatever bytes the test has.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::upstream::read_chunks;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Response {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    /// The one value of a field; none when absent. Panics when it comes twice.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(
            all.len() <= 1,
            "{name} comes more than once:\n{}",
            self.head
        );
        all.first().copied()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection that is kept.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).unwrap())
    }

    /// From another address of the loopback network.
    pub(crate) fn connect_from(source: [u8; 4], address: SocketAddr) -> Self {
        let socket =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((source, 0)).into()).unwrap();
        socket.connect(&address.into()).unwrap();
        Self::over(TcpStream::from(socket))
    }

    /// A client on a connection that the test has opened.
    pub(crate) fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        Self {
            reader: BufReader::new(stream),
        }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Reads one answer to a request of `method`.
    pub(crate) fn read(&mut self, method: &str) -> Option<Response> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut response = Response {
            status,
            head,
            body: Vec::new(),
        };
        if method == "HEAD" || status == 204 || status == 304 || status < 200 {
            return Some(response);
        }
        if response
            .all("transfer-encoding")
            .iter()
            .any(|coding| coding.eq_ignore_ascii_case("chunked"))
        {
            response.body = read_chunks(&mut self.reader)?;
        } else if let Some(length) = response.field("content-length").map(str::to_owned) {
            response.body = vec![0; length.parse().ok()?];
            self.reader.read_exact(&mut response.body).ok()?;
        } else {
            self.reader.read_to_end(&mut response.body).ok()?;
        }
        Some(response)
    }

    /// Reads only the head of an answer, and tells its status.
    pub(crate) fn status(&mut self) -> Option<u16> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        head.split(' ').nth(1)?.parse().ok()
    }

    /// Everything until the gateway closes.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        let _ = self.reader.read_to_end(&mut rest);
        rest
    }

    pub(crate) fn send(
        &mut self,
        method: &str,
        path: &str,
        fields: &[&str],
        body: &[u8],
    ) -> Response {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: api.example.test\r\n");
        for field in fields {
            head.push_str(field);
            head.push_str("\r\n");
        }
        if !body.is_empty() {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        self.write(&[head.as_bytes(), body].concat());
        self.read(method)
            .unwrap_or_else(|| panic!("no answer to {method} {path}"))
    }
}

/// One request on a connection of its own.
pub(crate) fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    fields: &[&str],
    body: &[u8],
) -> Response {
    Client::connect(address).send(method, path, fields, body)
}

pub(crate) fn get(address: SocketAddr, path: &str) -> Response {
    send(address, "GET", path, &[], b"")
}

pub(crate) fn code(address: SocketAddr, path: &str, fields: &[&str]) -> u16 {
    send(address, "GET", path, fields, b"").status
}

/// The statuses of `n` requests in a row.
pub(crate) fn codes(n: usize, address: SocketAddr, path: &str, fields: &[&str]) -> Vec<u16> {
    (0..n).map(|_| code(address, path, fields)).collect()
}

/// Sends bytes and returns all that comes back until the gateway closes.
pub(crate) fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut client = Client::connect(address);
    client.write(bytes);
    String::from_utf8_lossy(&client.rest()).into_owned()
}

/// The statuses of `n` requests under way at once, spread over `addresses` by turns.
pub(crate) fn parallel(
    n: usize,
    addresses: &[SocketAddr],
    path: &str,
    fields: &[&str],
) -> Vec<u16> {
    let request = {
        let mut head =
            format!("GET {path} HTTP/1.1\r\nHost: api.example.test\r\nConnection: close\r\n");
        fields
            .iter()
            .for_each(|field| head.push_str(&format!("{field}\r\n")));
        head.push_str("\r\n");
        head.into_bytes()
    };
    // All connections are open before the first request is sent.
    let mut streams: Vec<TcpStream> = (0..n)
        .map(|i| TcpStream::connect(addresses[i % addresses.len()]).unwrap())
        .collect();
    for stream in &mut streams {
        stream.write_all(&request).unwrap();
    }
    streams
        .into_iter()
        .map(|mut stream| {
            stream
                .set_read_timeout(Some(Duration::from_secs(30)))
                .unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).unwrap();
            String::from_utf8_lossy(&answer)
                .split(' ')
                .nth(1)
                .unwrap_or("0")
                .parse()
                .unwrap_or(0)
        })
        .collect()
}
