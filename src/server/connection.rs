//! One client's connection, from its first byte to its last.

use std::convert::Infallible;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::activity::{Activity, Serving, Watched};
use super::drain::Stop;
use crate::gateway::{Body, BodyError, Gateway, Peer};

/// The most fields of a request's head.
const HEAD_FIELDS: usize = 100;
/// The longest head, in bytes.
const HEAD_BYTES: usize = 32 * 1024;
/// How long a connection without a request is kept open after the signal to stop: a request may be on its way.
const LINGER: Duration = Duration::from_millis(250);

/// How long a client may take.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ClientTimeouts {
    /// To send a head, from its first byte, or from the connection for the first one; default 15 s.
    pub head: Duration,
    /// Between two requests; default 75 s.
    pub idle: Duration,
    /// To read what is written, while nothing can be written; default 60 s.
    pub write: Duration,
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(15),
            idle: Duration::from_secs(75),
            write: Duration::from_secs(60),
        }
    }
}

/// Why a connection ends that hyper would keep.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Overdue {
    Head,
    Write,
}

/// Serves a connection to its end; dropping the future cuts it.
pub(super) async fn serve(
    stream: TcpStream,
    peer: Peer,
    gateway: Rc<Gateway>,
    timeouts: ClientTimeouts,
    mut stop: Stop,
) {
    // Without it every other small answer waits for the client's acknowledgement. A socket that refuses is gone already.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let activity = Activity::new();
    let io = TokioIo::new(Watched {
        socket: stream,
        activity: Arc::clone(&activity),
    });
    let service = {
        let (gateway, activity) = (Rc::clone(&gateway), Arc::clone(&activity));
        service_fn(move |request| {
            let (gateway, serving) = (Rc::clone(&gateway), activity.serve());
            async move {
                let answer = gateway.handle(peer, request).await;
                Ok::<_, Infallible>(answer.map(|body| Answering {
                    body,
                    _serving: serving,
                }))
            }
        })
    };
    let connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(timeouts.idle.max(timeouts.head))
        .max_headers(HEAD_FIELDS)
        .max_header_size(HEAD_BYTES)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);

    let ended = tokio::select! {
        biased;
        ended = connection.as_mut() => Some(ended),
        overdue = overdue(&activity, timeouts) => return refuse(&gateway, overdue),
        _grace = stop.wait() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            // The answer under way says that it is the last; a connection at rest is given a moment for one that is coming.
            tokio::select! {
                biased;
                ended = connection.as_mut() => return report(&gateway, ended),
                _ = timeout(LINGER, activity.serves()) => {}
            }
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                ended = connection.as_mut() => ended,
                overdue = overdue(&activity, timeouts) => return refuse(&gateway, overdue),
            }
        }
    };
    report(&gateway, ended);
}

/// Waits until the client has been too slow.
async fn overdue(activity: &Activity, timeouts: ClientTimeouts) -> Overdue {
    loop {
        let head = timeouts.head.saturating_sub(activity.head_age());
        let write = timeouts.write.saturating_sub(activity.stuck_age());
        match (head.is_zero(), write.is_zero()) {
            (true, _) => return Overdue::Head,
            (_, true) => return Overdue::Write,
            // What begins while this sleeps is seen in time: its own time is at least as long as the sleep.
            (false, false) => sleep(head.min(write)).await,
        }
    }
}

fn refuse(gateway: &Gateway, overdue: Overdue) {
    if overdue == Overdue::Head {
        gateway.events().connection_refused("slow_head");
    }
}

/// What hyper answered by itself, or could not: no request of it was ever seen.
fn report(gateway: &Gateway, ended: hyper::Result<()>) {
    match ended {
        Err(error) if error.is_parse() => gateway.events().connection_refused("malformed"),
        _ => {}
    }
}

/// An answer's body; the connection serves until it is dropped.
#[derive(Debug)]
struct Answering {
    body: Body,
    _serving: Serving,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
