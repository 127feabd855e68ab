//! A master, two replicas, and the three sentinels that watch them.

use std::io::Write;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::redis::command_at;
use super::{RedisServer, eventually, free_address};

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
        eventually("both replicas follow", Duration::from_secs(20), || {
            let said = servers[0].command_as(word, &["INFO", "replication"]);
            (said[0].matches("state=online").count() == 2).then_some(())
        });
        let master = servers[0].address();
        let watched = Self {
            servers,
            sentinels: (0..3).map(|_| Sentinel::start(master)).collect(),
        };
        eventually(
            "the sentinels know each other",
            Duration::from_secs(20),
            || {
                watched
                    .sentinels
                    .iter()
                    .all(Sentinel::knows_all)
                    .then_some(())
            },
        );
        watched
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
        eventually("a failover", Duration::from_secs(30), || {
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
        eventually("a sentinel agrees", Duration::from_secs(20), || {
            let said = self.sentinels[0].ask(&["SENTINEL", "FAILOVER", MASTER])?;
            (said == ["OK"]).then_some(())
        });
    }
}

impl Sentinel {
    fn start(master: SocketAddr) -> Self {
        let ([word, guard], address) = (PASSWORDS, free_address());
        let dir = tempfile::tempdir().unwrap();
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
        let Some(said) = self.ask(&["SENTINEL", "MASTER", MASTER]) else {
            return false;
        };
        let of = |name: &str| {
            let place = said.iter().position(|word| word == name);
            place.and_then(|place| said.get(place + 1).cloned())
        };
        of("num-slaves").as_deref() == Some("2")
            && of("num-other-sentinels").as_deref() == Some("2")
            && of("flags").as_deref() == Some("master")
    }
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
