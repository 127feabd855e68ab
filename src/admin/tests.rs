use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;
use crate::telemetry::Registry;

struct Running {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

async fn start() -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let ready = Arc::new(AtomicBool::new(true));
    let state = AdminState {
        registry: Registry::new(),
        ready: Arc::clone(&ready),
        config: Box::new(|| "listen: 0.0.0.0:8080\n".to_owned()),
        bound: address.ip(),
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(serve(listener, state, async move {
        let _stopped = stopped.await;
    }));
    Running {
        address,
        ready,
        stop,
        task,
    }
}

impl Running {
    async fn ask(&self, head: &str) -> String {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream
            .write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn status(&self, method: &str, path: &str, host: &str) -> u16 {
        let answer = self
            .ask(&format!("{method} {path} HTTP/1.1\r\nHost: {host}"))
            .await;
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }
}

#[tokio::test]
async fn each_path_answers() {
    let running = start().await;
    let metrics = running
        .ask("GET /metrics HTTP/1.1\r\nHost: localhost")
        .await;
    assert!(metrics.starts_with("HTTP/1.1 200 "), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8"));
    assert!(metrics.contains("\nsluice_build_info{version="));
    let config = running.ask("GET /config HTTP/1.1\r\nHost: localhost").await;
    assert!(
        config.ends_with("\r\n\r\nlisten: 0.0.0.0:8080\n"),
        "{config}"
    );
    let head = running
        .ask("HEAD /config HTTP/1.1\r\nHost: localhost")
        .await;
    assert!(
        head.ends_with("\r\n\r\n") && head.contains("content-length: 21"),
        "{head}"
    );
    for (method, path, status) in [
        ("GET", "/livez", 200),
        ("GET", "/readyz", 200),
        ("GET", "/", 404),
        ("POST", "/elsewhere", 404),
        ("POST", "/config", 405),
        ("DELETE", "/livez", 405),
    ] {
        assert_eq!(
            running.status(method, path, "localhost").await,
            status,
            "{method} {path}"
        );
    }
}

#[tokio::test]
async fn only_its_own_names_are_served() {
    let running = start().await;
    let port = running.address.port();
    for (host, status) in [
        (format!("127.0.0.1:{port}"), 200),
        ("127.0.0.1".to_owned(), 200),
        ("LocalHost:19900".to_owned(), 200),
        (format!("rebound.example:{port}"), 403),
        ("127.0.0.2".to_owned(), 403),
        ("localhost.example".to_owned(), 403),
        ("user@localhost@evil.example".to_owned(), 403),
        (String::new(), 403),
    ] {
        assert_eq!(
            running.status("GET", "/metrics", &host).await,
            status,
            "{host}"
        );
        assert_eq!(running.status("GET", "/livez", &host).await, 200, "{host}");
    }
    let twice = running
        .ask("GET /config HTTP/1.1\r\nHost: localhost\r\nHost: evil.example")
        .await;
    assert!(
        twice.starts_with("HTTP/1.1 403 ") || twice.starts_with("HTTP/1.1 400 "),
        "{twice}"
    );
    let none = running.ask("GET /config HTTP/1.0").await;
    assert!(none.starts_with("HTTP/1.0 403 "), "{none}");
    assert_eq!(
        running
            .status("GET", "http://evil.example/config", "localhost")
            .await,
        403
    );
}

#[tokio::test]
async fn readiness_ends_before_the_endpoint_does() {
    let running = start().await;
    let address = running.address;
    let ask = move || tokio::task::spawn_blocking(move || probe(address));
    assert!(ask().await.unwrap().is_ok());
    running.ready.store(false, Ordering::Release);
    assert!(matches!(
        ask().await.unwrap(),
        Err(ProbeError::NotReady(503))
    ));
    // An idle connection does not hold the end up.
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await
        .unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    running.stop.send(()).unwrap();
    timeout(Duration::from_secs(10), running.task)
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        ask().await.unwrap(),
        Err(ProbeError::Unreachable(_))
    ));
}

#[tokio::test]
async fn a_probe_ends_in_time() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    let asked = tokio::task::spawn_blocking(move || {
        probe::probe_within(address, Duration::from_millis(50))
    });
    assert!(matches!(
        asked.await.unwrap(),
        Err(ProbeError::Unreachable(_))
    ));
    let (mut peer, _) = silent.accept().await.unwrap();
    peer.shutdown().await.unwrap();
    let asked = tokio::task::spawn_blocking(move || probe(address));
    let (mut peer, _) = silent.accept().await.unwrap();
    peer.write_all(b"SSH-2.0-OpenSSH\r\n").await.unwrap();
    assert!(matches!(asked.await.unwrap(), Err(ProbeError::NotHttp)));
}
