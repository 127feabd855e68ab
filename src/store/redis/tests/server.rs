//! A redis-server of a test's own, on a socket of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::{Client, Value};

/// Stopped and removed when dropped.
pub(crate) struct Server {
    dir: PathBuf,
    arguments: Vec<String>,
    child: Option<Child>,
}

impl Server {
    /// A place for a server, without one.
    pub(crate) fn absent(arguments: &[&str]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!(
            "sluice-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let arguments = arguments.iter().map(|&word| word.to_owned()).collect();
        Self {
            dir,
            arguments,
            child: None,
        }
    }

    /// A server that answers.
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let mut server = Self::absent(arguments);
        server.up().await;
        server
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.join("redis.sock")
    }

    /// Starts it, and waits until it listens.
    pub(crate) async fn up(&mut self) {
        let child = Command::new("redis-server")
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(self.socket())
            .arg("--dir")
            .arg(&self.dir)
            .args(&self.arguments)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
        for _ in 0..500 {
            if std::os::unix::net::UnixStream::connect(self.socket()).is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("redis-server does not listen");
    }

    /// Kills it as a power cut would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let _gone = std::fs::remove_file(self.socket());
    }

    /// Stops it where it stands: connections stay, nothing is answered.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(
            Command::new("kill")
                .args([signal, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Runs a command on a connection of its own.
    pub(crate) async fn command(&self, password: Option<&str>, words: &[&str]) -> Value {
        let url = format!("unix://{}", self.socket().display());
        let mut connection = Client::open(url)
            .unwrap()
            .get_multiplexed_async_connection()
            .await
            .unwrap();
        if let Some(password) = password {
            redis::cmd("AUTH")
                .arg(password)
                .exec_async(&mut connection)
                .await
                .unwrap();
        }
        let (name, arguments) = words.split_first().unwrap();
        redis::cmd(name)
            .arg(arguments)
            .query_async(&mut connection)
            .await
            .unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.thaw();
        }
        self.kill();
        let _gone = std::fs::remove_dir_all(&self.dir);
    }
}
