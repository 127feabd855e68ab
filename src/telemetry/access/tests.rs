use std::sync::mpsc;
use std::time::SystemTime;

use hyper::Method;
use smallvec::smallvec;

use super::*;

const SOON: Duration = Duration::from_secs(10);

fn entry() -> AccessEntry {
    AccessEntry {
        time: SystemTime::UNIX_EPOCH + Duration::from_millis(1_790_000_000_123),
        request_id: "01J".into(),
        client: "2001:db8::7".parse().unwrap(),
        peer: "192.0.2.1:4711".parse().unwrap(),
        method: Method::GET,
        host: "api.example".into(),
        path: "/search?q=1".into(),
        route: "search".into(),
        status: 429,
        decision: Decided::Rejected,
        limits: smallvec![
            ("per-ip".into(), Decided::Rejected),
            ("all".into(), Decided::Allowed)
        ],
        upstream: None,
        duration: Duration::from_micros(1_234),
        upstream_took: Some(Duration::from_millis(1)),
        delay: Duration::ZERO,
        bytes_in: 0,
        bytes_out: 512,
        reason: Some("limited"),
    }
}

fn line_of(entry: AccessEntry) -> String {
    let (sink, lines) = AccessSink::collecting(&Registry::new()).unwrap();
    sink.write(entry);
    assert_eq!(sink.flush(SOON), Flushed::All);
    let lines = lines.all();
    assert_eq!(lines.len(), 1);
    lines.into_iter().next().unwrap()
}

#[test]
fn a_request_is_one_line_of_json() {
    let line = line_of(entry());
    assert_eq!(
        line,
        concat!(
            r#"{"time":"2026-09-21T14:13:20.123Z","request_id":"01J","client":"2001:db8::7","peer":"192.0.2.1:4711","#,
            r#""method":"GET","host":"api.example","path":"/search?q=1","route":"search","status":429,"#,
            r#""decision":"rejected","limits":[{"name":"per-ip","decision":"rejected"},{"name":"all","decision":"allowed"}],"#,
            r#""upstream":null,"duration_ms":1.234,"upstream_ms":1.0,"delay_ms":0.0,"bytes_in":0,"bytes_out":512,"#,
            r#""reason":"limited"}"#
        )
    );
}

#[test]
fn nothing_leaves_its_line() {
    let hostile = "/\"\\\n\r\t\0\u{1b}[2J\u{7f}\u{9b}31m\u{2028}é/";
    let line = line_of(AccessEntry {
        path: hostile.into(),
        ..entry()
    });
    assert!(
        line.chars().all(|c| !c.is_control() && c != '\u{2028}'),
        "{line:?}"
    );
    let read: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(read["path"], hostile);
}

#[test]
fn secrets_of_the_query_are_masked() {
    let names = ["token".to_owned(), "api key".to_owned()];
    let cases = [
        (None, "/p"),
        (Some(""), "/p?"),
        (Some("token=abc"), "/p?token=***"),
        (Some("a=1&TOKEN=abc=d&b=2"), "/p?a=1&TOKEN=***&b=2"),
        (Some("t%6fken=abc"), "/p?t%6fken=***"),
        (Some("a=1;token=x;b"), "/p?a=1;token=***;b"),
        (
            Some("api+key=x&api%20key=y"),
            "/p?api+key=***&api%20key=***",
        ),
        (Some("token&tokens=1&=2"), "/p?token&tokens=1&=2"),
        (Some("token="), "/p?token=***"),
        (Some("?token=x"), "/p??token=x"),
    ];
    for (query, expected) in cases {
        assert_eq!(masked("/p", query, &names), expected);
    }
    assert_eq!(masked("/p", Some("token=a"), &[]), "/p?token=a");
}

/// Holds the writer until told to go on.
struct Gate {
    started: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.started.send(()).map_err(std::io::Error::other)?;
        self.go_on.recv().map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn dropped(registry: &Registry) -> u64 {
    registry.groups().process.log_dropped.get()
}

#[test]
fn a_full_queue_drops_and_counts() {
    let registry = Registry::new();
    let (started, has_started) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let sink = AccessSink::to(
        Gate {
            started,
            go_on: may_go_on,
        },
        4,
        &registry,
    )
    .unwrap();
    sink.write(entry());
    has_started.recv_timeout(SOON).unwrap();
    for _ in 0..10 {
        sink.write(entry());
    }
    assert_eq!(dropped(&registry), 6);
    assert_eq!(sink.flush(Duration::from_millis(5)), Flushed::TimedOut);
    go_on.send(()).unwrap();
    go_on.send(()).unwrap();
    assert_eq!(sink.flush(SOON), Flushed::All);
    assert_eq!(dropped(&registry), 6);
    // Nobody reads any more: the writer's errors are counted too, and requests go on.
    drop((go_on, has_started));
    sink.write(entry());
    assert_eq!(sink.flush(SOON), Flushed::All);
    assert_eq!(dropped(&registry), 7);
}

#[test]
fn allowed_requests_are_sampled_and_all_others_are_not() {
    let (sink, _) = AccessSink::collecting(&Registry::new()).unwrap();
    let taken = |decided, share| (0..1000).filter(|_| sink.wants(decided, share)).count();
    assert_eq!(taken(Decided::Allowed, 0), 0);
    assert_eq!(taken(Decided::Allowed, 1), 1);
    assert_eq!(taken(Decided::Delayed, 250), 250);
    assert_eq!(taken(Decided::Allowed, 999), 999);
    assert_eq!(taken(Decided::Allowed, 1000), 1000);
    for decided in [
        Decided::Rejected,
        Decided::Never,
        Decided::ShadowRejected,
        Decided::StoreDown,
    ] {
        assert_eq!(taken(decided, 0), 1000);
    }
}

#[test]
fn lines_keep_their_order() {
    let (sink, lines) = AccessSink::collecting(&Registry::new()).unwrap();
    for n in 0..2_000_u64 {
        sink.write(AccessEntry {
            bytes_in: n,
            ..entry()
        });
    }
    assert_eq!(sink.flush(SOON), Flushed::All);
    let lines = lines.all();
    assert_eq!(lines.len(), 2_000);
    for (n, line) in lines.iter().enumerate() {
        assert!(line.contains(&format!(r#""bytes_in":{n},"#)));
    }
}
