//! What a client's connection is doing, seen at its socket, and how long it has been at it.
//!
//! hyper knows one time for the idle connection and the head together; a client that sends a byte every now and then would
//! hold a connection for as long as an idle one may live. So the socket tells when the first byte of a head came, and when
//! a write got stuck.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Shared by the socket, the service and the task of one connection. The socket must stay `Send` (upgrades ask for it).
#[derive(Debug)]
pub(super) struct Activity {
    born: Instant,
    /// Milliseconds after birth, plus one, since when a head is incomplete; 0: none is.
    head: AtomicU64,
    /// The same since when a write is stuck.
    stuck: AtomicU64,
    /// How many requests are being answered.
    serving: AtomicU64,
    began: Notify,
}

impl Activity {
    /// A connection that was accepted now: its first head is due.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            born: Instant::now(),
            head: AtomicU64::new(1),
            stuck: AtomicU64::new(0),
            serving: AtomicU64::new(0),
            began: Notify::new(),
        })
    }

    fn mark(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_millis())
            .unwrap_or(u64::MAX)
            .saturating_add(1)
    }

    fn age(&self, mark: &AtomicU64) -> Duration {
        match mark.load(Relaxed) {
            0 => Duration::ZERO,
            mark => Duration::from_millis(self.mark().saturating_sub(mark)),
        }
    }

    /// For how long a head has been incomplete.
    pub(super) fn head_age(&self) -> Duration {
        self.age(&self.head)
    }

    /// For how long the client has not read what is to be written.
    pub(super) fn stuck_age(&self) -> Duration {
        self.age(&self.stuck)
    }

    /// Whether a request is being answered.
    pub(super) fn is_serving(&self) -> bool {
        self.serving.load(Relaxed) > 0
    }

    /// Waits until a request is being answered.
    pub(super) async fn serves(&self) {
        while !self.is_serving() {
            self.began.notified().await;
        }
    }

    /// A head is complete; the guard lives until the end of its answer.
    pub(super) fn serve(self: &Arc<Self>) -> Serving {
        self.head.store(0, Relaxed);
        self.serving.fetch_add(1, Relaxed);
        self.began.notify_one();
        Serving(Arc::clone(self))
    }

    fn read(&self) {
        if !self.is_serving() && self.head.load(Relaxed) == 0 {
            self.head.store(self.mark(), Relaxed);
        }
    }
}

/// A request is being answered.
#[derive(Debug)]
pub(super) struct Serving(Arc<Activity>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.fetch_sub(1, Relaxed);
    }
}

/// A socket that tells what happens on it.
#[derive(Debug)]
pub(super) struct Watched<S> {
    pub(super) socket: S,
    pub(super) activity: Arc<Activity>,
}

impl<S> Watched<S> {
    fn wrote<T>(&self, result: Poll<T>) -> Poll<T> {
        let mark = if result.is_ready() {
            0
        } else {
            self.activity.mark()
        };
        if mark == 0 || self.activity.stuck.load(Relaxed) == 0 {
            self.activity.stuck.store(mark, Relaxed);
        }
        result
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let result = Pin::new(&mut self.socket).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.activity.read();
        }
        result
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.wrote(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.wrote(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
