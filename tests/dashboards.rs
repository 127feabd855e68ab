//! What the dashboards ask is what the gateway tells: held by the list of metrics, and by a real Prometheus.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use hyper::Method;
use serde_json::Value;
use sluice::telemetry::metrics::{Kind, METRICS};
use sluice::telemetry::{AccessSink, Decided, DecisionSource, Events, Registry};

/// Every expression of every dashboard, with the title of its panel.
fn expressions() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards");
    let mut found = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|end| end == "json") {
            let dashboard = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            find_expressions(&dashboard, "", &mut found);
        }
    }
    assert!(found.len() > 20, "{} expressions", found.len());
    found
}

fn find_expressions(value: &Value, title: &str, found: &mut Vec<(String, String)>) {
    let title = value.get("title").and_then(Value::as_str).unwrap_or(title);
    if let Some(expr) = value.get("expr").and_then(Value::as_str) {
        found.push((title.to_owned(), expr.to_owned()));
    }
    match value {
        Value::Object(fields) => {
            fields
                .values()
                .for_each(|value| find_expressions(value, title, found));
        }
        Value::Array(values) => values
            .iter()
            .for_each(|value| find_expressions(value, title, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The words of `text` that name a metric of sluice.
fn metric_names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("sluice_"))
}

/// The metric that a series belongs to.
fn metric_of(series: &str) -> Option<&'static str> {
    let belongs = |name: &str, kind| match kind {
        Kind::Counter | Kind::Gauge => series == name,
        Kind::Histogram => ["_bucket", "_sum", "_count"]
            .iter()
            .any(|end| series.strip_suffix(end) == Some(name)),
    };
    METRICS
        .iter()
        .find(|metric| belongs(metric.name, metric.kind))
        .map(|metric| metric.name)
}

#[test]
fn dashboards_and_metrics_name_each_other() {
    let mut shown = BTreeSet::new();
    for (title, expr) in expressions() {
        for series in metric_names(&expr) {
            let metric = metric_of(series);
            assert!(
                metric.is_some(),
                "{title}: {series} is not a series of sluice"
            );
            shown.extend(metric);
        }
    }
    let hidden: Vec<_> = METRICS
        .iter()
        .map(|metric| metric.name)
        .filter(|name| !shown.contains(name))
        .collect();
    assert!(hidden.is_empty(), "no dashboard shows {hidden:?}");
}

/// How long Prometheus may take for everything.
const DEADLINE: Duration = Duration::from_secs(60);

#[test]
fn every_expression_has_an_answer_from_prometheus() {
    let program = find_prometheus().expect("prometheus is installed (tests/run does that)");
    let (scraped, scrapes) = mpsc::channel();
    let gateway = serve_metrics(scraped);
    let prometheus = Prometheus::start(&program, gateway);
    let end = Instant::now() + DEADLINE;
    let next_scrape = || scrapes.recv_timeout(end.saturating_duration_since(Instant::now()));
    // A rate needs several samples; what is asked too early is asked again after the next scrape.
    let has_answers = |expr: &str| loop {
        match prometheus.ask(expr) {
            Answer::Value => return Ok(()),
            Answer::Refused(why) => return Err(why),
            Answer::NothingYet => {
                next_scrape().map_err(|error| format!("no answer in time: {error}"))?;
            }
        }
    };
    has_answers("count_over_time(up[20s]) > 5").unwrap();
    let mut wrong = Vec::new();
    for (title, expr) in expressions() {
        let filled = expr
            .replace("$__rate_interval", "20s")
            .replace("$instance", ".*")
            .replace("$route", ".*")
            .replace("$limit", ".*")
            .replace("$upstream", ".*");
        assert!(!filled.contains('$'), "{title}: {filled}");
        if let Err(why) = has_answers(&filled) {
            wrong.push(format!("{title}: {filled}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn find_prometheus() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("prometheus"))
        .find(|file| file.is_file())
}

/// Serves the metrics of a gateway where everything moves before each scrape, and tells of the scrape.
fn serve_metrics(scraped: Sender<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let registry = Registry::new();
        let events = Events::new(&registry);
        for stream in listener.incoming() {
            move_everything(&registry, &events);
            answer_scrape(stream.unwrap(), &registry.encode());
            if scraped.send(()).is_err() {
                break;
            }
        }
    });
    address
}

fn answer_scrape(mut stream: TcpStream, text: &str) {
    let mut head = BufReader::new(stream.try_clone().unwrap()).lines();
    while head
        .next()
        .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
    {}
    let length = text.len();
    // A scrape that Prometheus gave up is its own affair.
    let _gone = write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{text}"
    );
}

fn move_everything(registry: &Registry, events: &Events) {
    let some = Duration::from_millis(7);
    let limit = events.limit("per-ip");
    Decided::ALL
        .into_iter()
        .for_each(|decided| limit.decided(decided));
    DecisionSource::ALL
        .into_iter()
        .for_each(|source| limit.source(source));
    limit.used(7, 10);
    limit.delayed(some);
    limit.key_missing();
    for code in [200, 429, 502] {
        events.route("api").ended(&Method::GET, code, some);
    }
    events.upstream("api").answered(200, some);
    drop(events.upstream("api").begin());
    drop(events.connection("0.0.0.0:8080"));
    events.connection_refused("too_many");
    events.store_call(some, 3);
    events.store_error("timeout", &"no answer within 25 ms");
    events.store_up(true);
    events.store_breaker(false);
    events.store_fallback(false);
    events.settlement_dropped();
    events.keys(10, 100);
    events.reloaded("ok");
    drop(AccessSink::collecting(registry));
}

/// A Prometheus that scrapes one target five times a second; ended, and its files removed, when dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
    folder: PathBuf,
}

enum Answer {
    Value,
    NothingYet,
    Refused(String),
}

impl Prometheus {
    fn start(program: &Path, target: SocketAddr) -> Self {
        let folder = std::env::temp_dir().join(format!("sluice-dashboards-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}\n\
             scrape_configs: [{{job_name: sluice, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        fs::write(&config, text).unwrap();
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let child = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .args(["--log.level=error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Self {
            child,
            address,
            folder,
        }
    }

    fn ask(&self, expr: &str) -> Answer {
        let Some(body) = self.get(expr) else {
            return Answer::NothingYet;
        };
        let Ok(answer) = serde_json::from_str::<Value>(&body) else {
            return Answer::NothingYet;
        };
        if answer["status"] != "success" {
            return Answer::Refused(answer["error"].to_string());
        }
        let samples = answer["data"]["result"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let is_number = |sample: &Value| {
            sample["value"][1]
                .as_str()
                .is_some_and(|value| value != "NaN")
        };
        if samples.iter().any(is_number) {
            Answer::Value
        } else {
            Answer::NothingYet
        }
    }

    /// The body of the answer; none while it does not listen yet. HTTP/1.0, so that it is sent as one piece.
    fn get(&self, expr: &str) -> Option<String> {
        let wait = Duration::from_secs(10);
        let mut stream = TcpStream::connect_timeout(&self.address, wait).ok()?;
        stream.set_read_timeout(Some(wait)).ok()?;
        let query = percent_encoding::utf8_percent_encode(expr, percent_encoding::NON_ALPHANUMERIC);
        write!(stream, "GET /api/v1/query?query={query} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
        let _removed = fs::remove_dir_all(&self.folder);
    }
}
