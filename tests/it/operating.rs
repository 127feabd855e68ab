//! The operator's side: metrics, access log, health, draining, the command line.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Client, Gateway, Upstream, codes, eventually, get, send};

// R51: rejected requests stand in every metric that allowed ones stand in.
#[test]
fn rejected_requests_are_counted_like_all_others() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstreams:\n  api: {}\nroutes:\n  - name: j\n    match: /j\n    to: api\nlimits:\n  three:\n    per: ip\n    allow: 3 per minute\n",
        upstream.url()
    ));
    codes(10, gateway.address, "/j", &[]);
    let metrics = gateway.metrics();
    assert_eq!(
        metrics.sum(
            "sluice_requests_total",
            &["route=\"j\"", "method=\"GET\"", "code=\"200\""]
        ),
        3.0
    );
    assert_eq!(
        metrics.sum(
            "sluice_requests_total",
            &["route=\"j\"", "method=\"GET\"", "code=\"429\""]
        ),
        7.0
    );
    assert_eq!(metrics.sum("sluice_requests_total", &[]), 10.0);
    assert_eq!(
        metrics.value("sluice_request_duration_seconds_count{route=\"j\"}"),
        10.0
    );
    assert_eq!(
        metrics.sum(
            "sluice_decisions_total",
            &["limit=\"three\"", "decision=\"allowed\""]
        ),
        3.0
    );
    assert_eq!(
        metrics.sum(
            "sluice_decisions_total",
            &["limit=\"three\"", "decision=\"rejected\""]
        ),
        7.0
    );
    assert_eq!(
        metrics.sum("sluice_upstream_requests_total", &["upstream=\"api\""]),
        3.0
    );
    eventually("ten access lines", Duration::from_secs(5), || {
        (gateway.access().len() == 10).then_some(())
    });
    assert_eq!(
        gateway
            .access()
            .iter()
            .filter(|line| line.contains("\"rejected\""))
            .count(),
        7
    );
}

// R50: labels come from the configuration, never from a client.
#[test]
fn no_client_makes_a_series() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "access_log: off\nupstreams:\n  api: {}\nroutes:\n  - name: users\n    match: /v1/users/*\n    to: api\nlimits:\n  h:\n    per: header X-Api-Key\n    allow: 3 per minute\n",
        upstream.url()
    ));
    let probe = |i: usize, client: &mut Client| {
        for path in [format!("/nowhere/{i}"), format!("/v1/users/{i}")] {
            client.write(
                format!(
                    "GET {path} HTTP/1.1\r\nHost: h{i}.example.test\r\nX-Api-Key: k{i}\r\n\r\n"
                )
                .as_bytes(),
            );
            client.read("GET").unwrap();
        }
        client.write(format!("M{i} /v1/users/{i} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        client.read("GET").unwrap();
    };
    let mut client = Client::connect(gateway.address);
    (0..10).for_each(|i| probe(i, &mut client));
    let before = gateway.metrics().series();
    (10..2000).for_each(|i| probe(i, &mut client));
    let metrics = gateway.metrics();
    assert!(
        metrics.series() <= before + 20,
        "{} series grew to {}",
        before,
        metrics.series()
    );
    assert_eq!(
        metrics.sum("sluice_requests_total", &["route=\"none\"", "code=\"404\""]),
        2000.0
    );
}

#[test]
fn an_access_line_says_what_happened_and_masks_what_it_should() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "access_log:\n  mask_query: [token]\nupstream: {}\nlimits:\n  one:\n    per: ip\n    allow: 1 per hour\n",
        upstream.url()
    ));
    send(
        gateway.address,
        "GET",
        "/a?token=s3cret&b=1",
        &["Authorization: Bearer t0p", "Cookie: c=ookie"],
        b"",
    );
    get(gateway.address, "/b");
    let lines = eventually("two lines", Duration::from_secs(5), || {
        (gateway.access().len() == 2).then(|| gateway.access())
    });
    let parsed: Vec<serde_json::Value> = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        (&parsed[0]["status"], &parsed[0]["decision"]),
        (&200.into(), &"allowed".into())
    );
    assert_eq!(
        (&parsed[1]["status"], &parsed[1]["decision"]),
        (&429.into(), &"rejected".into())
    );
    assert_eq!(parsed[0]["route"], "/**");
    assert_eq!(parsed[0]["client"], "127.0.0.1");
    assert!(lines[0].contains("b=1"));
    for secret in ["s3cret", "t0p", "ookie"] {
        assert!(!lines[0].contains(secret), "{}", lines[0]);
    }
}

#[test]
fn the_admin_endpoint_is_for_this_machine() {
    let gateway = Gateway::start(&format!(
        "upstream: {}\nsecret: hush-hush\n",
        Upstream::echo().url()
    ));
    for path in ["/livez", "/readyz", "/metrics", "/config"] {
        assert_eq!(
            get_as(&gateway, path, &gateway.admin.to_string()),
            200,
            "{path}"
        );
    }
    assert_eq!(
        get_as(&gateway, "/metrics", "evil.example"),
        403,
        "a name that rebinds to loopback is not answered"
    );
    assert_eq!(get_as(&gateway, "/livez", "evil.example"), 200);
    assert_eq!(get_as(&gateway, "/nothing", "localhost"), 404);
    assert_eq!(
        get(gateway.address, "/metrics").text(),
        "GET /metrics HTTP/1.1",
        "never on the public port"
    );
    let mut client = Client::connect(gateway.admin);
    client.write(b"GET /config HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(!client.read("GET").unwrap().text().contains("hush-hush"));
}

fn get_as(gateway: &Gateway, path: &str, host: &str) -> u16 {
    let mut client = Client::connect(gateway.admin);
    client.write(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    client.read("GET").unwrap().status
}

#[test]
fn health_asks_the_gateway_of_this_machine() {
    let gateway = Gateway::start(&format!("upstream: {}\n", Upstream::echo().url()));
    let health = |admin: &str| {
        Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(["health", "--admin", admin])
            .stderr(Stdio::null())
            .status()
            .unwrap()
    };
    assert!(health(&gateway.admin.to_string()).success());
    let free = {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    assert!(!health(&free.to_string()).success());
}

#[test]
fn a_stop_signal_finishes_what_is_under_way() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let mut gateway = Gateway::start(&format!(
        "drain: {{grace: 20s}}\nupstream: http://{upstream}\n"
    ));
    let mut idle = Client::connect(gateway.address);
    let mut busy = Client::connect(gateway.address);
    busy.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut stream, _) = listener.accept().unwrap();
    while !{
        let mut head = [0; 1024];
        let n = stream.read(&mut head).unwrap();
        head[..n].ends_with(b"\r\n\r\n")
    } {}

    gateway.signal("TERM");
    eventually("it is not ready any more", Duration::from_secs(5), || {
        TcpStream::connect(gateway.admin)
            .ok()
            .map(drop)
            .map_or(Some(()), |()| {
                (get_as(&gateway, "/readyz", "localhost") == 503).then_some(())
            })
    });
    assert!(idle.rest().is_empty(), "an idle connection is closed");
    stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
        .unwrap();
    let answer = busy.read("GET").expect("the answer under way arrives");
    assert_eq!(answer.text(), "done");
    assert!(gateway.ended(Duration::from_secs(10)).success());
    assert!(TcpStream::connect(gateway.address).is_err());
}

#[test]
fn the_grace_period_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut gateway = Gateway::start(&format!(
        "drain: {{grace: 300ms}}\nupstream: http://{}\n",
        listener.local_addr().unwrap()
    ));
    let mut hung = Client::connect(gateway.address);
    hung.write(b"GET /hung HTTP/1.1\r\nHost: a\r\n\r\n");
    let _accepted = listener.accept().unwrap();
    let begun = Instant::now();
    gateway.signal("TERM");
    assert_eq!(
        gateway.ended(Duration::from_secs(4)).code(),
        Some(1),
        "what was cut shows in the exit code"
    );
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn it_runs_without_a_file() {
    let upstream = Upstream::echo();
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args([
            "run",
            "--to",
            &upstream.url(),
            "--limit",
            "2 per minute per ip",
            "--limit",
            "nonsense",
        ])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut said)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(78), "{said}");
    assert!(said.contains("nonsense"), "{said}");
}

#[test]
fn the_demo_shows_a_limit_being_met() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .arg("demo")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("Ctrl-C ends it") {
        assert!(
            std::io::BufRead::read_line(&mut stdout, &mut said).unwrap() > 0,
            "{said}"
        );
    }
    let address = |label: &str| -> std::net::SocketAddr {
        let line = said
            .lines()
            .find(|line| line.trim_start().starts_with(label))
            .unwrap();
        line.split("http://")
            .nth(1)
            .unwrap()
            .split(['/', ' '])
            .next()
            .unwrap()
            .parse()
            .unwrap()
    };
    let (gateway, admin) = (address("gateway"), address("metrics"));
    let hello = get(gateway, "/hello");
    assert_eq!(hello.status, 200, "{}", hello.text());
    assert!(hello.field("ratelimit").is_some());
    let logins: Vec<u16> = (0..6)
        .map(|_| send(gateway, "POST", "/login", &[], b"").status)
        .collect();
    assert_eq!(logins, [200, 200, 200, 200, 200, 429]);
    let mut operator = Client::connect(admin);
    operator.write(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n\r\n").as_bytes());
    let metrics = operator.read("GET").unwrap().text();
    assert!(
        metrics.lines().any(|line| line.contains("rejected")
            && line.contains("\"logins\"")
            && line.ends_with(" 1")),
        "{metrics}"
    );
    assert!(said.matches("curl ").count() >= 3);

    crate::support::signal(child.id(), "INT");
    let status = eventually("Ctrl-C ends it", Duration::from_secs(10), || {
        child.try_wait().unwrap()
    });
    assert!(status.success());
}
