//! A `redis-server` of the test's own, on a free port, ended when dropped.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::eventually;

/// A real Redis with an empty database.
#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        // The port is free now and taken a moment later; should someone else be faster, the wait below says so.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let child = Self::spawn(address, dir.path());
        let server = Self {
            child,
            address,
            dir,
        };
        server.wait();
        server
    }

    fn spawn(address: SocketAddr, dir: &std::path::Path) -> Child {
        Command::new("redis-server")
            .args([
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--loglevel",
                "warning",
            ])
            .args([
                "--port",
                &address.port().to_string(),
                "--dir",
                dir.to_str().unwrap(),
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed (tests/run does that)")
    }

    fn wait(&self) {
        eventually("redis-server answers", Duration::from_secs(20), || {
            let mut stream = TcpStream::connect(self.address).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            let mut reply = [0; 5];
            stream.read_exact(&mut reply).ok()?;
            (&reply == b"+PONG").then_some(())
        });
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The `store` of a gateway that is to count here and nowhere else: a test that counts must not go over to the
    /// counts of the process because the machine was busy for a moment.
    pub(crate) fn store(&self) -> String {
        format!("store:\n  redis: {}\n  deadline: 5s", self.url())
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn restart(&mut self) {
        self.child = Self::spawn(self.address, self.dir.path());
        self.wait();
    }

    pub(crate) fn signal(&self, signal: &str) {
        super::gateway::signal(self.child.id(), signal);
    }

    /// One command; its reply as lines of text: a bulk string is one line, an array one line for each element.
    pub(crate) fn command(&self, words: &[&str]) -> Vec<String> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let mut command = format!("*{}\r\n", words.len());
        for word in words {
            command.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.write_all(command.as_bytes()).unwrap();
        let mut lines = Vec::new();
        read_reply(&mut BufReader::new(stream), &mut lines);
        lines
    }

    /// Every key of the database.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.command(&["KEYS", "*"])
    }
}

fn read_reply(stream: &mut impl BufRead, lines: &mut Vec<String>) {
    let mut head = String::new();
    stream.read_line(&mut head).unwrap();
    let (kind, rest) = head.trim_end().split_at(1);
    match kind {
        "$" if rest != "-1" => {
            let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut text).unwrap();
            text.truncate(text.len() - 2);
            lines.push(String::from_utf8_lossy(&text).into_owned());
        }
        "*" => (0..rest.parse::<usize>().unwrap()).for_each(|_| read_reply(stream, lines)),
        _ => lines.push(rest.to_owned()),
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.signal("CONT");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
