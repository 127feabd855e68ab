//! A `redis-server` of the test's own, on a free port, ended when dropped.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::eventually;

/// A real Redis with an empty database.
#[derive(Debug)]
pub(crate) struct RedisServer {
    child: Child,
    address: SocketAddr,
    dir: tempfile::TempDir,
    /// The program, and what starts it.
    command: Vec<String>,
    arguments: Vec<String>,
}

/// A port that is free now and taken a moment later; should someone else be faster, the wait for its server says so.
pub(crate) fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

impl RedisServer {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With more arguments, as `--maxclients 3`.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::behind(&[], free_address(), arguments)
    }

    /// Does `test` with a Redis and with a Valkey.
    pub(crate) fn each(test: impl Fn(&mut Self)) {
        for program in ["redis-server".to_owned(), valkey()] {
            eprintln!("with {program}");
            test(&mut Self::of(&[program], free_address(), &[]));
        }
    }

    /// Started by another program, and at an address of the test's choice.
    pub(crate) fn behind(starter: &[&str], address: SocketAddr, arguments: &[&str]) -> Self {
        let starter = starter.iter().map(|&word| word.to_owned());
        let command: Vec<_> = starter.chain(["redis-server".to_owned()]).collect();
        Self::of(&command, address, arguments)
    }

    fn of(command: &[String], address: SocketAddr, arguments: &[&str]) -> Self {
        let (dir, command) = (tempfile::tempdir().unwrap(), command.to_vec());
        let arguments: Vec<_> = arguments.iter().map(|&word| word.to_owned()).collect();
        let server = Self {
            child: run(&command, address, dir.path(), &arguments),
            address,
            dir,
            command,
            arguments,
        };
        server.wait();
        server
    }

    /// Waits until it answers, be it with an error.
    fn wait(&self) {
        eventually("redis-server answers", Duration::from_secs(20), || {
            let mut stream = UnixStream::connect(self.socket()).ok()?;
            stream.write_all(b"PING\r\n").ok()?;
            let mut reply = String::new();
            BufReader::new(stream).read_line(&mut reply).ok()?;
            (!reply.is_empty()).then_some(())
        });
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where it also listens: the way of the test itself, whatever becomes of the network.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("redis.sock")
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
        let _ = std::fs::remove_file(self.socket());
        self.child = run(
            &self.command,
            self.address,
            self.dir.path(),
            &self.arguments,
        );
        self.wait();
    }

    pub(crate) fn signal(&self, signal: &str) {
        super::gateway::signal(self.child.id(), signal);
    }

    /// One command; its reply as lines of text: a bulk string is one line, an array one line for each element.
    pub(crate) fn command(&self, words: &[&str]) -> Vec<String> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        command(stream, &[words]).unwrap()
    }

    /// The same after the password.
    pub(crate) fn command_as(&self, password: &str, words: &[&str]) -> Vec<String> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        command(stream, &[&["AUTH", password], words]).unwrap()
    }

    /// Every key of the database.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.command(&["KEYS", "*"])
    }
}

/// The `valkey-server` to test with. There must be one: a test that is not run finds nothing.
fn valkey() -> String {
    let program = std::env::var("SLUICE_VALKEY").unwrap_or_else(|_| "valkey-server".to_owned());
    let there = Command::new(&program).arg("--version").output();
    assert!(
        there.is_ok_and(|said| said.status.success()),
        "`{program}` is no valkey-server: tests/run installs one and names it in SLUICE_VALKEY"
    );
    program
}

fn run(command: &[String], address: SocketAddr, dir: &Path, arguments: &[String]) -> Child {
    let (program, words) = command.split_first().unwrap();
    Command::new(program)
        .args(words)
        .args(["--save", "", "--appendonly", "no", "--bind"])
        .arg(address.ip().to_string())
        .args(["--loglevel", "warning", "--unixsocket"])
        .arg(dir.join("redis.sock"))
        .args(["--port", &address.port().to_string(), "--dir"])
        .arg(dir)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the server is installed (tests/run does that)")
}

/// One command to whoever listens at `address`, after the password.
pub(super) fn command_at(
    address: SocketAddr,
    password: &str,
    words: &[&str],
) -> io::Result<Vec<String>> {
    let stream = TcpStream::connect(address)?;
    command(stream, &[&["AUTH", password], words])
}

/// Sends commands one after another; the reply to the last.
fn command(stream: impl Read + Write, commands: &[&[&str]]) -> io::Result<Vec<String>> {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    for words in commands {
        let mut text = format!("*{}\r\n", words.len());
        for word in *words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        stream.get_mut().write_all(text.as_bytes())?;
        lines.clear();
        read_reply(&mut stream, &mut lines)?;
    }
    Ok(lines)
}

fn read_reply(stream: &mut impl BufRead, lines: &mut Vec<String>) -> io::Result<()> {
    let mut head = String::new();
    stream.read_line(&mut head)?;
    let head = head.trim_end();
    let (kind, rest) = head
        .split_at_checked(1)
        .ok_or(io::ErrorKind::UnexpectedEof)?;
    match kind {
        "$" if rest != "-1" => {
            let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
            stream.read_exact(&mut text)?;
            text.truncate(text.len() - 2);
            lines.push(String::from_utf8_lossy(&text).into_owned());
        }
        "*" if rest != "-1" => {
            for _ in 0..rest.parse::<usize>().unwrap() {
                read_reply(stream, lines)?;
            }
        }
        _ => lines.push(rest.to_owned()),
    }
    Ok(())
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.signal("CONT");
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
