//! A master, two replicas, and the three sentinels that watch them.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::redis::command_at;
use super::{RedisServer, eventually, folder_in_memory, free_address};

/// Within this everybody has found everybody, four times over.
const FOUND: Duration = Duration::from_secs(80);
/// A failover that is not agreed on at once is tried again after twice its timeout of 3 s; this is four of those.
const FAILOVER: Duration = Duration::from_secs(60);

/// What the servers ask for, and what the sentinels do.
pub(crate) const PASSWORDS: [&str; 2] = ["word", "guard"];
/// The name of the master.
pub(crate) const MASTER: &str = "counts";

/// All six, with passwords of their own for the servers and the sentinels.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) servers: Vec<RedisServer>,
    sentinels: Vec<Sentinel>,
}

#[derive(Debug)]
struct Sentinel {
    child: Child,
    address: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Watched {
    pub(crate) fn start() -> Self {
        let [word, _] = PASSWORDS;
        let login = ["--requirepass", word, "--masterauth", word];
        let pace = [
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
        ];
        let master = RedisServer::with(&[&login[..], &pace[..]].concat());
        let port = master.address().port().to_string();
        let follow = ["--replicaof", "127.0.0.1", &port];
        let replica = || RedisServer::with(&[&login[..], &pace[..], &follow[..]].concat());
        let servers = vec![master, replica(), replica()];
        eventually("both replicas follow", FOUND, || {
            let said = servers[0].command_as(word, &["INFO", "replication"]);
            (said[0].matches("state=online").count() == 2).then_some(())
        });
        let master = servers[0].address();
        let watched = Self {
            servers,
            sentinels: (0..3).map(|_| Sentinel::start(master)).collect(),
        };
        watched.know_each_other();
        watched
    }

    /// Waits until every sentinel can replace the master: it reaches the others, and both replicas, which have what the
    /// master has.
    fn know_each_other(&self) {
        eventually("the sentinels know all", FOUND, || {
            let all = self.sentinels.iter().all(Sentinel::knows_all);
            all.then_some(())
        });
    }

    /// Waits until `server` follows the master, and every sentinel could put it in the master's place.
    pub(crate) fn follows(&self, server: usize) {
        eventually("the server follows", FAILOVER, || {
            (self.role(server) == "slave").then_some(())
        });
        self.know_each_other();
    }

    /// The `store` of a gateway that asks the sentinels. The first of them is not there.
    pub(crate) fn store(&self) -> String {
        let [word, guard] = PASSWORDS;
        let mut text = format!(
            "store:\n  password: {word}\n  sentinel:\n    master: {MASTER}\n    nodes:\n      - redis://{}\n",
            free_address()
        );
        for sentinel in &self.sentinels {
            text.push_str(&format!("      - redis://:{guard}@{}\n", sentinel.address));
        }
        text
    }

    /// Which of the servers the sentinels now name; none while they are not of one mind.
    pub(crate) fn master(&self) -> Option<usize> {
        let named = |sentinel: &Sentinel| {
            let said = sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER]);
            let port: u16 = said?.get(1)?.parse().ok()?;
            let place = |server: &RedisServer| server.address().port() == port;
            self.servers.iter().position(place)
        };
        let first = named(self.sentinels.first()?)?;
        let all = self.sentinels.iter().all(|one| named(one) == Some(first));
        all.then_some(first)
    }

    /// Waits until another server than `old` is the master, says so itself, and every sentinel names it.
    pub(crate) fn master_after(&self, old: usize) -> usize {
        eventually("a failover", FAILOVER, || {
            let new = self.master().filter(|new| *new != old)?;
            (self.role(new) == "master").then_some(new)
        })
    }

    /// What a server takes itself for.
    pub(crate) fn role(&self, server: usize) -> String {
        self.servers[server].command_as(PASSWORDS[0], &["ROLE"])[0].clone()
    }

    /// Has a sentinel change the master though nothing is wrong.
    pub(crate) fn fail_over(&self) {
        eventually("a sentinel agrees", FAILOVER, || {
            let said = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", MASTER])?;
            (said == ["OK"]).then_some(())
        });
    }
}

impl Sentinel {
    fn start(master: SocketAddr) -> Self {
        let ([word, guard], address) = (PASSWORDS, free_address());
        let dir = folder_in_memory();
        let file = dir.path().join("sentinel.conf");
        let mut config = std::fs::File::create(&file).unwrap();
        for line in [
            format!(
                "bind 127.0.0.1\nport {}\ndir {}",
                address.port(),
                dir.path().display()
            ),
            format!("requirepass {guard}"),
            format!("sentinel monitor {MASTER} 127.0.0.1 {} 2", master.port()),
            format!("sentinel auth-pass {MASTER} {word}"),
            format!("sentinel down-after-milliseconds {MASTER} 500"),
            format!("sentinel failover-timeout {MASTER} 3000"),
        ] {
            writeln!(config, "{line}").unwrap();
        }
        let child = Command::new("redis-server")
            .arg(&file)
            .arg("--sentinel")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-server is installed (tests/run does that)");
        Self {
            child,
            address,
            _dir: dir,
        }
    }

    fn ask(&self, words: &[&str]) -> Option<Vec<String>> {
        command_at(self.address, PASSWORDS[1], words).ok()
    }

    fn knows_all(&self) -> bool {
        let ask = |what| self.ask(&["SENTINEL", what, MASTER]).unwrap_or_default();
        // A replica whose connection to the sentinel or to the master is not there has other flags, or another status.
        let healthy = |said: &[String], flags: &str, count: usize| {
            let of = |name: &str| {
                let words = said.iter().zip(said.iter().skip(1));
                let values = words.filter(move |(word, _)| *word == name);
                values.map(|(_, value)| value.clone()).collect::<Vec<_>>()
            };
            (of("flags") == vec![flags; count]).then(|| of("master-link-status"))
        };
        healthy(&ask("MASTER"), "master", 1).is_some()
            && healthy(&ask("SENTINELS"), "sentinel", 2).is_some()
            && healthy(&ask("REPLICAS"), "slave", 2) == Some(vec!["ok".to_owned(); 2])
            && ask("CKQUORUM").concat().starts_with("OK 3 ")
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
