//! The gateway as people run it: the binary, a file, signals.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Client, Response, eventually, get};

/// A running `sluice run`, ended when dropped.
#[derive(Debug)]
pub(crate) struct Gateway {
    child: Child,
    pub address: SocketAddr,
    pub admin: SocketAddr,
    dir: tempfile::TempDir,
    log: Arc<Mutex<String>>,
    access: Arc<Mutex<Vec<String>>>,
}

/// What `/metrics` said: series with labels, as written, and their values.
#[derive(Debug)]
pub(crate) struct Metrics(HashMap<String, f64>);

impl Metrics {
    /// The value of a series, as `name{a="b"}`; 0 when it is not there.
    pub(crate) fn value(&self, series: &str) -> f64 {
        self.0.get(&sorted(series)).copied().unwrap_or(0.0)
    }

    /// The sum over the series of a metric that carry all of these labels, as `a="b"`.
    pub(crate) fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.0
            .iter()
            .filter(|(series, _)| {
                series.split('{').next() == Some(name) && labels.iter().all(|l| series.contains(l))
            })
            .map(|(_, value)| value)
            .sum()
    }

    pub(crate) fn series(&self) -> usize {
        self.0.len()
    }
}

impl Gateway {
    /// Starts on free ports with `yaml` (which names neither `listen` nor `admin`) and waits until it is ready.
    pub(crate) fn start(yaml: &str) -> Self {
        Self::start_with(yaml, &[])
    }

    pub(crate) fn start_with(yaml: &str, environment: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("gateway.yaml"), whole(yaml)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command
            .args(["run", "-c"])
            .arg(dir.path().join("gateway.yaml"));
        command.envs(environment.iter().copied());
        Self::spawn(command, dir)
    }

    pub(crate) fn spawn(mut command: Command, dir: tempfile::TempDir) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (log, access) = (
            Arc::<Mutex<String>>::default(),
            Arc::<Mutex<Vec<String>>>::default(),
        );
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let lines = Arc::clone(&access);
        std::thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .for_each(|line| lines.lock().unwrap().push(line));
        });
        let text = Arc::clone(&log);
        std::thread::spawn(move || {
            BufReader::new(stderr)
                .lines()
                .map_while(Result::ok)
                .for_each(|line| {
                    let mut text = text.lock().unwrap();
                    text.push_str(&line);
                    text.push('\n');
                });
        });
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut gateway = Self {
            child,
            address: any,
            admin: any,
            dir,
            log,
            access,
        };
        eventually(
            "the gateway says where it listens",
            Duration::from_secs(20),
            || {
                assert!(
                    gateway.child.try_wait().unwrap().is_none(),
                    "the gateway ended:\n{}",
                    gateway.log()
                );
                let log = gateway.log();
                gateway.address = address_after(&log, "listen=")?;
                gateway.admin = address_after(&log, "admin=")?;
                (ask(gateway.admin, "/readyz").status == 200).then_some(())
            },
        );
        gateway
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How many files and sockets it has open.
    pub(crate) fn open_files(&self) -> usize {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        files.count()
    }

    /// How much memory it holds, in KiB.
    pub(crate) fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let size = line.and_then(|line| line.split_whitespace().next());
        size.unwrap().parse().unwrap()
    }

    /// What it wrote to standard error.
    pub(crate) fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// The access log so far.
    pub(crate) fn access(&self) -> Vec<String> {
        self.access.lock().unwrap().clone()
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("gateway.yaml")
    }

    pub(crate) fn get(&self, path: &str) -> Response {
        get(self.address, path)
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let text = ask(self.admin, "/metrics").text();
        Metrics(
            text.lines()
                .filter(|line| !line.starts_with('#'))
                .filter_map(|line| line.rsplit_once(' '))
                .map(|(series, value)| (sorted(series), value.parse().unwrap()))
                .collect(),
        )
    }

    /// Replaces the file, signals, and waits until the gateway counts a reload; `result` is its label.
    pub(crate) fn reload(&self, yaml: &str, result: &str) {
        let series = format!("sluice_config_reloads_total{{result=\"{result}\"}}");
        let before = self.metrics().value(&series);
        let next = self.dir.path().join("next.yaml");
        std::fs::write(&next, whole(yaml)).unwrap();
        std::fs::rename(next, self.file()).unwrap();
        self.signal("HUP");
        eventually(
            &format!("a reload that is {result}"),
            Duration::from_secs(20),
            || (self.metrics().value(&series) > before).then_some(()),
        );
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.pid(), name);
    }

    /// Waits for the process to end.
    pub(crate) fn ended(&mut self, within: Duration) -> ExitStatus {
        eventually("the gateway ends", within, || {
            self.child.try_wait().unwrap()
        })
    }
}

fn whole(yaml: &str) -> String {
    format!("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n{yaml}")
}

/// The series with its labels in alphabetical order.
fn sorted(series: &str) -> String {
    let Some((name, labels)) = series
        .strip_suffix('}')
        .and_then(|series| series.split_once('{'))
    else {
        return series.to_owned();
    };
    let mut labels: Vec<&str> = labels.split(',').collect();
    labels.sort_unstable();
    format!("{name}{{{}}}", labels.join(","))
}

/// One question to an admin endpoint, by its own name.
fn ask(admin: SocketAddr, path: &str) -> Response {
    let mut client = Client::connect(admin);
    client.write(format!("GET {path} HTTP/1.1\r\nHost: {admin}\r\n\r\n").as_bytes());
    client.read("GET").expect("the admin endpoint answers")
}

fn address_after(log: &str, mark: &str) -> Option<SocketAddr> {
    log.split(mark)
        .nth(1)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Sends a signal to a process that the test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("kill -{name} {pid}"))
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok(), "sh is there");
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the gateway's log:\n{}", self.log());
        }
    }
}
