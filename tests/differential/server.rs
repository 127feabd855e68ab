//! A Redis of its own for a test, on a Unix socket, and as much of its protocol as the tests need.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use sluice::limit::algorithm::Entry;
use sluice::limit::{ChargeId, Key, State};
use sluice::store::redis::script::{self, Call, Rulings};
use sluice::time::Timestamp;

/// What a command answers.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Answer {
    Status(String),
    Error(String),
    Number(i64),
    Bytes(Vec<u8>),
    Nothing,
    List(Vec<Self>),
}

impl Answer {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("not bytes: {other:?}"),
        }
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Number(number) => number,
            other => panic!("not a number: {other:?}"),
        }
    }

    pub(crate) fn list(self) -> Vec<Self> {
        match self {
            Self::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }
}

/// A running server; it ends with the value.
pub(crate) struct Server {
    process: Child,
    directory: PathBuf,
    stream: BufReader<UnixStream>,
    sha: String,
}

pub(crate) type Reply = (Timestamp, Rulings);

impl Server {
    pub(crate) fn start() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!(
            "sluice-differential-{}-{count}",
            std::process::id()
        ));
        std::fs::create_dir_all(&directory).unwrap();
        let socket = directory.join("redis.sock");
        let mut process = Command::new(program())
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .arg("--dir")
            .arg(&directory)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server is installed: tests/run does that");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let ready = lines.any(|line| line.unwrap().contains("eady to accept connections"));
        assert!(ready, "redis-server ended early");
        std::thread::spawn(move || lines.for_each(drop));
        let stream = BufReader::new(UnixStream::connect(&socket).unwrap());
        let mut server = Self {
            process,
            directory,
            stream,
            sha: String::new(),
        };
        server.sha = server.run(&["SCRIPT", "LOAD", script::text()]).text();
        server
    }

    pub(crate) fn run(&mut self, words: &[&str]) -> Answer {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.run_bytes(&words)
    }

    pub(crate) fn run_bytes(&mut self, words: &[&[u8]]) -> Answer {
        let mut line = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            line.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            line.extend_from_slice(word);
            line.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&line).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        let rest = rest.to_owned();
        match kind {
            "+" => Answer::Status(rest),
            "-" => Answer::Error(rest),
            ":" => Answer::Number(rest.parse().unwrap()),
            "$" if rest == "-1" => Answer::Nothing,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Answer::Bytes(bytes)
            }
            "*" => Answer::List(
                (0..rest.parse::<usize>().unwrap())
                    .map(|_| self.answer())
                    .collect(),
            ),
            _ => panic!("unknown answer {line:?}"),
        }
    }

    /// Sends a call, judged at `now`, or on the clock of the server.
    pub(crate) fn call(&mut self, call: &Call, now: Option<Timestamp>) -> Reply {
        let answer = self.call_raw(call, now);
        call.decode(&answer.bytes()).unwrap()
    }

    pub(crate) fn call_raw(&mut self, call: &Call, now: Option<Timestamp>) -> Answer {
        let count = call.key_count().to_string();
        let now = now.map(|now| now.as_micros().to_string());
        let sha = self.sha.clone();
        let mut words: Vec<&[u8]> = vec![b"EVALSHA", sha.as_bytes(), count.as_bytes()];
        words.extend(call.keys().iter().map(|key| key.as_str().as_bytes()));
        words.push(call.packed());
        words.extend(now.as_ref().map(String::as_bytes));
        self.run_bytes(&words)
    }

    /// What is stored at `key`, if it is of the kind of `fresh`.
    pub(crate) fn state(&mut self, key: &Key, fresh: &State) -> State {
        match fresh {
            State::Numbers(_) => match self.run(&["GET", key.as_str()]) {
                Answer::Nothing => fresh.clone(),
                answer => State::Numbers(numbers(&answer.bytes()).into()),
            },
            State::Log(_) => self.log(key),
        }
    }

    /// The log at `key`; that its total is the sum of its entries is checked.
    fn log(&mut self, key: &Key) -> State {
        let listed = self
            .run(&["ZRANGE", key.as_str(), "0", "-1", "WITHSCORES"])
            .list();
        let texts: Vec<String> = listed.into_iter().map(Answer::text).collect();
        let mut entries = Vec::new();
        for pair in texts.chunks(2).skip(1) {
            let (id, cost) = pair[0].split_once(':').unwrap();
            let at = Timestamp::from_micros(pair[1].parse().unwrap());
            entries.push(Entry {
                at,
                id: ChargeId::new(id.parse().unwrap()),
                cost: cost.parse().unwrap(),
            });
        }
        if let Some(total) = texts.get(..2) {
            let sum: u64 = entries.iter().map(|entry| entry.cost).sum();
            assert_eq!(total, ["total".to_owned(), format!("-{}", sum + 1)]);
            assert!(!entries.is_empty(), "an empty log is not kept");
        }
        entries.sort_by_key(|entry| (entry.at, entry.id));
        State::Log(entries)
    }
}

/// The server of this run: the same tests are built twice, for Redis and for Valkey, and the bench is about Redis.
fn program() -> String {
    program_of(
        env!("CARGO_CRATE_NAME"),
        std::env::var("SLUICE_VALKEY").ok(),
    )
}

/// The server that `crate_name` is about; `valkey` is where that one is.
fn program_of(crate_name: &str, valkey: Option<String>) -> String {
    match crate_name {
        "differential_valkey" => valkey.unwrap_or_else(|| "valkey-server".to_owned()),
        _ => "redis-server".to_owned(),
    }
}

/// The numbers packed in `bytes`.
pub(crate) fn numbers(bytes: &[u8]) -> Vec<u64> {
    assert_eq!(bytes.len() % 8, 0);
    bytes
        .chunks(8)
        .map(|chunk| u64::from_le_bytes(chunk.try_into().unwrap()))
        .collect()
}

impl Drop for Server {
    fn drop(&mut self) {
        // What fails here fails no test.
        drop(self.process.kill());
        drop(self.process.wait());
        drop(std::fs::remove_dir_all(&self.directory));
    }
}

#[test]
fn only_the_tests_on_valkey_ask_it() {
    let valkey = || Some("/opt/valkey-server".to_owned());
    assert_eq!(
        program_of("differential_valkey", valkey()),
        "/opt/valkey-server"
    );
    assert_eq!(program_of("differential_valkey", None), "valkey-server");
    for other in ["differential", "redis"] {
        assert_eq!(program_of(other, valkey()), "redis-server");
    }
}
