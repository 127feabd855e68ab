//! A proxy's duties: framing, hop-by-hop fields, bodies, aborts, failures of the upstream.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::support::{Client, Gateway, Upstream, eventually, get, raw, send};

fn plain(upstream: &str) -> Gateway {
    Gateway::start(&format!("upstream: {upstream}\n"))
}

fn limited(upstream: &Upstream, allow: &str) -> Gateway {
    Gateway::start(&format!(
        "upstream: {}\nlimits:\n  up:\n    per: ip\n    algorithm: fixed_window\n    allow: {allow}\n",
        upstream.url()
    ))
}

/// An upstream that does with one connection what the test says.
fn upstream_doing(act: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || listener.incoming().flatten().for_each(&act));
    address
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap_or(0) == 1 {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

// R25: hop-by-hop fields do not pass, in either direction, and no client makes us drop our own.
#[test]
fn hop_by_hop_fields_do_not_pass() {
    let upstream = Upstream::scripted(
        "HTTP/1.1 200 OK\r\nConnection: X-Secret, Set-Cookie\r\nX-Secret: 1\r\nSet-Cookie: a=b\r\nKeep-Alive: timeout=5\r\nUpgrade: foo\r\nContent-Length: 2\r\n\r\nok",
    );
    let gateway = plain(&upstream.url());
    let answer = raw(
        gateway.address,
        b"GET /echo HTTP/1.1\r\nHost: api.example.test\r\nConnection:\r\nConnection: close, X-Drop-Me, X-Forwarded-For\r\nX-Drop-Me: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nTE: trailers, deflate\r\nUpgrade: foo\r\n\r\n",
    );
    let seen = upstream.last();
    for gone in [
        "x-drop-me",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "upgrade",
        "connection",
    ] {
        assert!(
            seen.field(gone).is_none(),
            "{gone} reached the upstream:\n{}",
            seen.head
        );
    }
    assert!(seen.field("te").is_none_or(|te| te == "trailers"));
    assert_eq!(seen.all("x-forwarded-for"), ["127.0.0.1"]);
    assert!(seen.field("via").is_some_and(|via| via.starts_with("1.1 ")));
    let answer = answer.to_ascii_lowercase();
    assert!(
        !answer.contains("x-secret")
            && !answer.contains("keep-alive:")
            && !answer.contains("upgrade:"),
        "{answer}"
    );
    assert!(
        answer.contains("set-cookie: a=b"),
        "an end-to-end field that is only named stays:\n{answer}"
    );
}

// R26: no 100 before the verdict; exactly one after it.
#[test]
fn a_rejected_upload_is_not_asked_to_continue() {
    let upstream = Upstream::echo();
    let gateway = limited(&upstream, "1 per minute");
    let head = b"POST /up HTTP/1.1\r\nHost: api.example.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

    let mut first = Client::connect(gateway.address);
    first.write(head);
    assert_eq!(first.read("POST").unwrap().status, 100);
    first.write(b"hello");
    assert_eq!(first.read("POST").unwrap().status, 200);
    assert_eq!(upstream.last().body, b"hello");
    assert!(upstream.last().field("expect").is_none());

    let answer = raw(gateway.address, head);
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert_eq!(upstream.seen().len(), 1, "the upstream was not asked");
}

#[test]
fn an_upstream_that_refuses_an_expected_upload_is_heard() {
    let upstream = Upstream::scripted("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno");
    let gateway = plain(&upstream.url());
    let mut client = Client::connect(gateway.address);
    client.write(
        b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
    );
    let mut answer = client.read("POST").unwrap();
    if answer.status == 100 {
        client.write(b"hi");
        answer = client.read("POST").unwrap();
    }
    assert_eq!(answer.status, 401);
}

#[test]
fn a_large_rejected_upload_reads_its_whole_answer() {
    let upstream = Upstream::echo();
    let gateway = limited(&upstream, "1 per minute");
    assert_eq!(gateway.get("/").status, 200);
    for _ in 0..20 {
        let mut client = Client::connect(gateway.address);
        client.write(b"POST /up HTTP/1.1\r\nHost: a\r\nContent-Length: 10485760\r\n\r\n");
        client.write(&[b'x'; 100_000]);
        let answer = client.read("POST").expect("the answer arrives whole");
        assert_eq!(answer.status, 429);
        assert!(answer.text().contains("quota-exceeded"));
    }
}

// R28: ambiguous framing is refused, or read one way only; nothing rides along.
#[test]
fn nothing_is_smuggled() {
    let upstream = Upstream::echo();
    let gateway = plain(&upstream.url());
    let smuggled = "0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: api.example.test\r\n\r\n";
    let request = |version: &str, fields: &str, body: &str| {
        raw(
            gateway.address,
            format!("POST /a HTTP/{version}\r\nHost: api.example.test\r\n{fields}\r\n\r\n{body}")
                .as_bytes(),
        )
    };
    for fields in [
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding : chunked",
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: +5",
        "Content-Length: 5,5",
    ] {
        let answer = request("1.1", fields, smuggled);
        assert!(
            answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 501"),
            "{fields}: {answer}"
        );
    }
    for fields in [
        "Content-Length: 55\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 55",
    ] {
        let answer = request("1.1", fields, smuggled);
        assert_eq!(
            answer.matches("HTTP/1.1 ").count(),
            1,
            "the connection ends after the answer: {answer}"
        );
    }
    for chunk in [
        "1_0\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "5;\nhello\r\n0\r\n\r\n",
    ] {
        let answer = request("1.1", "Transfer-Encoding: chunked", chunk);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{chunk:?}: {answer}");
    }
    let answer = request("1.0", "Transfer-Encoding: chunked", smuggled);
    assert!(answer.matches("HTTP/1.").count() <= 1, "{answer}");
    assert!(
        upstream
            .seen()
            .iter()
            .all(|seen| !seen.head.contains("/smuggled"))
    );
    assert!(
        upstream
            .seen()
            .iter()
            .all(
                |seen| seen.all("content-length").len() + seen.all("transfer-encoding").len() <= 1
            )
    );

    let answer = raw(
        gateway.address,
        b"DELETE /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    );
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(upstream.last().body, b"hello");
}

#[test]
fn a_get_with_a_chunked_body_keeps_it() {
    let upstream = Upstream::echo();
    let gateway = plain(&upstream.url());
    raw(gateway.address, b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    assert_eq!(upstream.last().body, b"hello");
}

#[test]
fn a_body_that_is_not_read_is_not_a_request() {
    let upstream = Upstream::echo();
    let gateway = limited(&upstream, "1 per minute");
    gateway.get("/");
    let body = "GET /admin HTTP/1.1\r\nX: x\r\n\r\n";
    let answer = raw(
        gateway.address,
        format!("POST /static HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", body.len()).as_bytes(),
    );
    assert!(answer.starts_with("HTTP/1.1 429"));
    assert!(answer.matches("HTTP/1.1 ").count() <= 2, "{answer}");
    assert!(!gateway.access().iter().any(|line| line.contains("/admin")));
}

#[test]
fn the_host_is_one_and_valid() {
    let upstream = Upstream::echo();
    let gateway = plain(&upstream.url());
    for head in [
        "",
        "Host: a\r\nHost: b\r\n",
        "Host: a, b\r\n",
        "Host: gw/x\r\n",
        "Host: user@gw\r\n",
        "Host:\r\n",
    ] {
        let answer = raw(
            gateway.address,
            format!("GET / HTTP/1.1\r\n{head}Connection: close\r\n\r\n").as_bytes(),
        );
        assert!(answer.starts_with("HTTP/1.1 400"), "{head:?}: {answer}");
    }
    assert!(upstream.seen().is_empty());
    raw(
        gateway.address,
        b"GET http://tenant-b/x HTTP/1.1\r\nHost: tenant-a\r\nConnection: close\r\n\r\n",
    );
    assert_eq!(upstream.last().all("host"), ["tenant-b"]);
    assert_eq!(upstream.last().line(), "GET /x HTTP/1.1");
}

#[test]
fn connect_and_trace_are_refused() {
    let upstream = Upstream::echo();
    let gateway = plain(&upstream.url());
    assert!(
        raw(
            gateway.address,
            b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nConnection: close\r\n\r\n"
        )
        .starts_with("HTTP/1.1 405")
    );
    assert!(
        raw(
            gateway.address,
            b"TRACE / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        .starts_with("HTTP/1.1 405")
    );
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_loop_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.yaml");
    std::fs::write(
        &file,
        format!(
            "listen: 127.0.0.1:{port}\nadmin: 127.0.0.1:0\nupstream: http://127.0.0.1:{port}\n"
        ),
    )
    .unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["run", "-c"]).arg(&file);
    let gateway = Gateway::spawn(command, dir);
    assert_eq!(gateway.get("/").status, 508);
}

#[test]
fn two_gateways_in_a_row_are_no_loop() {
    let upstream = Upstream::echo();
    let inner = plain(&upstream.url());
    let outer = plain(&format!("http://{}", inner.address));

    assert_eq!(outer.get("/").status, 200);

    let seen = upstream.last();
    let names: Vec<&str> = seen
        .all("via")
        .into_iter()
        .flat_map(|line| line.split(','))
        .filter_map(|entry| entry.trim().strip_prefix("1.1 sluice-"))
        .collect();
    assert_eq!(names.len(), 2, "{}", seen.head);
    assert_ne!(names[0], names[1]);
}

#[test]
fn a_head_request_keeps_the_upstreams_length() {
    let upstream = Upstream::scripted("HTTP/1.1 200 OK\r\nContent-Length: 12345\r\n\r\n");
    let gateway = plain(&upstream.url());
    let answer = send(gateway.address, "HEAD", "/", &[], b"");
    assert_eq!(
        (answer.status, answer.field("content-length")),
        (200, Some("12345"))
    );
}

// http-correctness 2.2: broken answers.
#[test]
fn a_broken_answer_never_looks_whole() {
    let with_both = Upstream::scripted(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    );
    let answer = plain(&with_both.url()).get("/");
    assert!(
        answer.status == 502 || (answer.status == 200 && answer.text() == "ok"),
        "{answer:?}"
    );

    let cut = upstream_doing(|mut stream| {
        read_head(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello");
    });
    let gateway = plain(&format!("http://{cut}"));
    let mut client = Client::connect(gateway.address);
    client.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(
        client.read("GET").is_none(),
        "ten bytes were promised and five came"
    );

    let chunked = upstream_doing(|mut stream| {
        read_head(&mut stream);
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    });
    let gateway = plain(&format!("http://{chunked}"));
    let answer = raw(gateway.address, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");

    let differing =
        Upstream::scripted("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nok");
    assert_eq!(plain(&differing.url()).get("/").status, 502);

    let nonsense = Upstream::scripted("nonsense\r\n\r\n");
    assert_eq!(plain(&nonsense.url()).get("/").status, 502);

    let switching = Upstream::scripted(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
    );
    assert_eq!(plain(&switching.url()).get("/").status, 502);
}

#[test]
fn failures_of_the_upstream_have_their_statuses() {
    let refused = {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let gateway = plain(&format!("http://{refused}"));
    let answer = gateway.get("/");
    assert_eq!(answer.status, 502);
    assert_eq!(
        answer.field("content-type"),
        Some("application/problem+json")
    );
    assert!(
        !answer.text().contains("os error") && !answer.text().contains(&refused.to_string()),
        "{}",
        answer.text()
    );

    let closing = upstream_doing(|mut stream| drop(read_head(&mut stream)));
    assert_eq!(plain(&format!("http://{closing}")).get("/").status, 502);

    let silent = upstream_doing(|mut stream| {
        read_head(&mut stream);
        let _ = stream.read(&mut [0]);
    });
    let gateway = Gateway::start(&format!(
        "upstreams:\n  slow:\n    servers: [\"http://{silent}\"]\n    timeouts: {{response: 200ms}}\nroutes:\n  - match: /**\n    to: slow\n"
    ));
    let begun = Instant::now();
    assert_eq!(gateway.get("/").status, 504);
    assert!(
        begun.elapsed() >= Duration::from_millis(200) && begun.elapsed() < Duration::from_secs(2)
    );
}

#[test]
fn nothing_matches_is_404() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstreams:\n  api: {}\nroutes:\n  - match: /v1/**\n    to: api\n",
        upstream.url()
    ));
    assert_eq!(gateway.get("/v2").status, 404);
    assert_eq!(gateway.get("/v1/x").status, 200);
}

#[test]
fn connections_are_kept_on_both_sides() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!("workers: 1\nupstream: {}\n", upstream.url()));
    let mut client = Client::connect(gateway.address);
    for i in 0..5 {
        assert_eq!(
            client.send("POST", &format!("/{i}"), &[], b"body").status,
            200
        );
    }
    let metrics = gateway.metrics();
    assert_eq!(metrics.sum("sluice_connections_total", &[]), 1.0);
    assert_eq!(
        metrics.sum("sluice_upstream_requests_total", &["code=\"200\""]),
        5.0
    );
}

// An idle connection that the upstream closed is noticed, and the request sent again only because nothing was sent.
#[test]
fn an_idle_connection_that_died_does_not_cost_a_request() {
    let upstream = upstream_doing(|mut stream| {
        std::thread::spawn(move || {
            read_head(&mut stream);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            // And closes without saying so.
        });
    });
    let gateway = Gateway::start(&format!("workers: 1\nupstream: http://{upstream}\n"));
    for _ in 0..50 {
        assert_eq!(gateway.get("/").status, 200);
    }
}

#[test]
fn bodies_stream_in_both_directions() {
    let (told, pieces) = mpsc::channel();
    let upstream = upstream_doing(move |mut stream| {
        read_head(&mut stream);
        let mut piece = [0; 64];
        let n = stream.read(&mut piece).unwrap();
        told.send(piece[..n].to_vec()).unwrap();
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n");
        let n = stream.read(&mut piece).unwrap();
        told.send(piece[..n].to_vec()).unwrap();
        let _ = stream.write_all(b"6\r\nsecond\r\n0\r\n\r\n");
    });
    let gateway = plain(&format!("http://{upstream}"));
    let mut stream = TcpStream::connect(gateway.address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        .unwrap();
    let piece = pieces
        .recv_timeout(Duration::from_secs(10))
        .expect("the first piece arrives before the second is sent");
    assert!(String::from_utf8_lossy(&piece).contains("one"));
    let mut answer = String::new();
    let mut buffer = [0; 1024];
    while !answer.contains("first") {
        let n = stream
            .read(&mut buffer)
            .expect("the first piece of the answer comes before its end");
        answer.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    stream.write_all(b"3\r\ntwo\r\n0\r\n\r\n").unwrap();
    assert!(
        String::from_utf8_lossy(&pieces.recv_timeout(Duration::from_secs(10)).unwrap())
            .contains("two")
    );
}

#[test]
fn a_client_that_leaves_frees_the_upstream() {
    let (told, closed) = mpsc::channel();
    let upstream = upstream_doing(move |mut stream| {
        read_head(&mut stream);
        told.send("asked").unwrap();
        let end = stream.read(&mut [0]);
        told.send(if end.is_ok_and(|n| n == 0) {
            "closed"
        } else {
            "reset"
        })
        .unwrap();
    });
    let gateway = plain(&format!("http://{upstream}"));
    let mut client = TcpStream::connect(gateway.address).unwrap();
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .unwrap();
    assert_eq!(closed.recv_timeout(Duration::from_secs(10)), Ok("asked"));
    drop(client);
    assert!(
        closed.recv_timeout(Duration::from_secs(4)).is_ok(),
        "the upstream's connection ends within four seconds"
    );
}

#[test]
fn half_a_head_is_bounded_in_size() {
    let upstream = Upstream::echo();
    let gateway = plain(&upstream.url());
    let many: String = (0..101).map(|i| format!("X-{i}: 1\r\n")).collect();
    assert!(
        raw(
            gateway.address,
            format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n").as_bytes()
        )
        .starts_with("HTTP/1.1 431")
    );
    let long = "a".repeat(40 * 1024);
    assert!(
        raw(
            gateway.address,
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n").as_bytes()
        )
        .starts_with("HTTP/1.1 431")
    );
    let target = "a".repeat(9 * 1024);
    assert!(
        raw(
            gateway.address,
            format!("GET /{target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()
        )
        .starts_with("HTTP/1.1 414")
    );
    eventually("the gateway still answers", Duration::from_secs(5), || {
        (get(gateway.address, "/").status == 200).then_some(())
    });
}

#[test]
fn two_servers_take_turns_and_a_dead_one_is_passed_over() {
    let (one, two) = (Upstream::echo(), Upstream::echo());
    let gateway = Gateway::start(&format!(
        "workers: 1\nupstreams:\n  both:\n    servers: [\"{}\", \"{}\"]\n    host: upstream\nroutes:\n  - match: /**\n    to: both\n",
        one.url(),
        two.url()
    ));
    (0..10).for_each(|_| assert_eq!(gateway.get("/").status, 200));
    assert_eq!((one.seen().len(), two.seen().len()), (5, 5));
    assert_eq!(
        one.last().field("host"),
        Some(one.address.to_string().as_str())
    );

    let dead = {
        TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
    };
    let gateway = Gateway::start(&format!(
        "workers: 1\nupstreams:\n  both:\n    servers: [\"http://{dead}\", \"{}\"]\nroutes:\n  - match: /**\n    to: both\n",
        two.url()
    ));
    (0..6).for_each(|_| assert_eq!(gateway.get("/").status, 200));
}
