//! An upstream that writes down what reaches it and answers as the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Request line and fields, as sent.
    pub head: String,
    /// The body, without its framing.
    pub body: Vec<u8>,
}

impl Recorded {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap_or_default()
    }

    /// Every value of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.head
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(':'))
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect()
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }
}

type Answer = dyn Fn(&Recorded) -> Vec<u8> + Send + Sync;

/// A listening server; its threads end with the test's process.
#[derive(Clone)]
pub(crate) struct Upstream {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Recorded>>>,
}

impl Upstream {
    /// Answers 200 with the request line as body.
    pub(crate) fn echo() -> Self {
        Self::answering(|request| {
            let body = request.line();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes()
        })
    }

    /// Answers with these bytes, whatever is asked; closes when they say so, or are none.
    pub(crate) fn scripted(reply: &str) -> Self {
        let reply = reply.as_bytes().to_vec();
        Self::answering(move |_| reply.clone())
    }

    pub(crate) fn answering(answer: impl Fn(&Recorded) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let upstream = Self {
            address: listener.local_addr().unwrap(),
            seen: Arc::default(),
        };
        let (seen, answer) = (Arc::clone(&upstream.seen), Arc::new(answer) as Arc<Answer>);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &seen, &*answer));
            }
        });
        upstream
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Everything that arrived so far.
    pub(crate) fn seen(&self) -> Vec<Recorded> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn last(&self) -> Recorded {
        self.seen().pop().expect("a request reached the upstream")
    }
}

fn serve(stream: TcpStream, seen: &Mutex<Vec<Recorded>>, answer: &Answer) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    while let Some(request) = read_request(&mut reader) {
        let reply = {
            seen.lock().unwrap().push(request.clone());
            answer(&request)
        };
        let closes = reply.is_empty()
            || String::from_utf8_lossy(&reply)
                .to_ascii_lowercase()
                .contains("connection: close");
        if writer.write_all(&reply).is_err() || closes {
            return;
        }
    }
}

fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Recorded> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let mut request = Recorded {
        head,
        body: Vec::new(),
    };
    if request.field("transfer-encoding").is_some() {
        request.body = read_chunks(reader)?;
    } else if let Some(length) = request.field("content-length") {
        request.body = vec![0; length.parse().ok()?];
        reader.read_exact(&mut request.body).ok()?;
    }
    Some(request)
}

pub(super) fn read_chunks(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let size = usize::from_str_radix(line.trim_end().split(';').next()?, 16).ok()?;
        let mut chunk = vec![0; size + 2];
        if size == 0 {
            // Trailers, if any, up to the empty line.
            while line != "\r\n" {
                line.clear();
                if reader.read_line(&mut line).ok()? == 0 {
                    return None;
                }
            }
            return Some(body);
        }
        reader.read_exact(&mut chunk).ok()?;
        body.extend_from_slice(&chunk[..size]);
    }
}
