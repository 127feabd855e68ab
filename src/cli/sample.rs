//! The sample upstream of `sluice demo`: it answers every request with what it saw of it.

use std::convert::Infallible;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

/// The most of a body that is shown, in bytes.
const SHOWN_BODY: usize = 64 * 1024;

/// Listens on a free port of the loopback interface and answers, on a thread of its own, until the process ends.
pub(super) fn start() -> std::io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("sample-upstream".to_owned())
        .spawn(move || runtime.block_on(serve(listener)))?;
    Ok(address)
}

async fn serve(listener: std::net::TcpListener) {
    let Ok(listener) = TcpListener::from_std(listener) else {
        return;
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::task::yield_now().await;
            continue;
        };
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .serve_connection(TokioIo::new(stream), service_fn(answer));
        tokio::spawn(connection);
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let mut fields = Map::new();
    for (name, value) in &head.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        let text = match fields.get(name.as_str()).and_then(Value::as_str) {
            Some(earlier) => format!("{earlier}, {value}"),
            None => value.into_owned(),
        };
        fields.insert(name.to_string(), Value::String(text));
    }
    let body = match Limited::new(body, SHOWN_BODY).collect().await {
        Ok(body) => String::from_utf8_lossy(&body.to_bytes()).into_owned(),
        Err(_) => "(more than is shown)".to_owned(),
    };
    let seen = json!({
        "method": head.method.as_str(),
        "target": head.uri.to_string(),
        "headers": fields,
        "body": body,
    });
    let mut response = Response::new(Full::new(Bytes::from(format!("{seen:#}\n"))));
    response.headers_mut().insert(
        hyper::header::CONTENT_TYPE,
        hyper::header::HeaderValue::from_static("application/json"),
    );
    Ok(response)
}
