//! A request's body on its way to the upstream.

mod opening;

use std::cell::Cell;
use std::collections::VecDeque;
use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::http::request::Parts;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::BodyError;
use super::idle::Idle;
use super::leftover::Leftover;

/// A request's body: read when the upstream is ready for more, its trailers dropped, the pause between two frames bound.
#[derive(Debug)]
pub struct Upload {
    /// None: drained already.
    incoming: Option<Incoming>,
    /// What was read before the request was judged, and was not passed on yet.
    held: VecDeque<Bytes>,
    /// Whether the request came without a body.
    absent: bool,
    idle: Idle,
    leftover: Leftover,
    progress: Rc<Progress>,
}

/// How far the upload is, for those who wait for the answer.
#[derive(Debug)]
pub(in crate::gateway) struct Progress {
    state: Cell<UploadState>,
    moved: Cell<Instant>,
    waiting: Cell<bool>,
    bytes: Cell<u64>,
}

/// How the upload fares.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::gateway) enum UploadState {
    /// More may come.
    Flowing,
    /// All of it was read.
    Finished,
    /// The client left.
    Gone,
    /// The client paused for too long.
    Slow,
    /// It is not framed as HTTP says.
    Malformed,
}

impl Upload {
    /// The body of the request with this head. Reading it is what makes hyper say `100 Continue`.
    pub(in crate::gateway) fn new(head: &Parts, incoming: Incoming, pause: Duration) -> Self {
        let ended = incoming.is_end_stream();
        let state = if ended {
            UploadState::Finished
        } else {
            UploadState::Flowing
        };
        let leftover = Leftover::of(head, &incoming);
        let moved = Cell::new(Instant::now());
        let progress = Progress {
            state: Cell::new(state),
            moved,
            waiting: Cell::new(false),
            bytes: Cell::new(0),
        };
        Self {
            incoming: Some(incoming),
            held: VecDeque::new(),
            absent: ended,
            idle: Idle::new(pause),
            leftover,
            progress: Rc::new(progress),
        }
    }

    /// An empty body, for sending again what had none.
    pub(in crate::gateway) fn empty(progress: Rc<Progress>) -> Self {
        Self {
            incoming: None,
            held: VecDeque::new(),
            absent: true,
            idle: Idle::new(Duration::ZERO),
            leftover: Leftover::Small,
            progress,
        }
    }

    pub(in crate::gateway) fn set_pause(&mut self, pause: Duration) {
        self.idle = Idle::new(pause);
    }

    /// Whether the request came without a body.
    pub(in crate::gateway) fn is_absent(&self) -> bool {
        self.absent
    }

    pub(in crate::gateway) fn progress(&self) -> &Rc<Progress> {
        &self.progress
    }

    pub(in crate::gateway) fn leftover(&self) -> Leftover {
        self.leftover
    }
}

impl Progress {
    pub(in crate::gateway) fn state(&self) -> UploadState {
        self.state.get()
    }

    /// The last moment at which the upstream was not the one to be waited for.
    pub(in crate::gateway) fn last(&self) -> Instant {
        if self.waiting.get() {
            Instant::now()
        } else {
            self.moved.get()
        }
    }

    /// The upstream's time begins now.
    pub(in crate::gateway) fn start(&self) {
        self.moved.set(Instant::now());
    }

    /// How much was read.
    pub(in crate::gateway) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    fn now(&self, state: UploadState) {
        self.state.set(state);
        self.waiting.set(false);
        self.moved.set(Instant::now());
    }
}

impl Upload {
    /// The next frame from the client.
    fn poll_incoming(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(incoming) = &mut this.incoming else {
            return Poll::Ready(None);
        };
        if this.leftover == Leftover::Withheld {
            // hyper says `100 Continue` now, and the client will send.
            this.leftover = Leftover::Large;
        }
        loop {
            let Poll::Ready(frame) = Pin::new(&mut *incoming).poll_frame(cx) else {
                this.progress.waiting.set(true);
                ready!(this.idle.poll_wait(cx));
                this.progress.now(UploadState::Slow);
                return Poll::Ready(Some(Err(BodyError::Idle)));
            };
            this.idle.rest();
            return Poll::Ready(match frame {
                // Trailers of a request are not forwarded: nobody checked them.
                Some(Ok(frame)) if !frame.is_data() => continue,
                Some(Ok(frame)) => {
                    let bytes = frame
                        .data_ref()
                        .map_or(0, |data| u64::try_from(data.len()).unwrap_or(u64::MAX));
                    this.progress
                        .bytes
                        .set(this.progress.bytes.get().saturating_add(bytes));
                    let ended = incoming.is_end_stream();
                    this.progress.now(if ended {
                        UploadState::Finished
                    } else {
                        UploadState::Flowing
                    });
                    Some(Ok(frame))
                }
                Some(Err(error)) => {
                    this.progress.now(broken(&error));
                    Some(Err(BodyError::Broken(error)))
                }
                None => {
                    this.progress.now(UploadState::Finished);
                    None
                }
            });
        }
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match self.held.pop_front() {
            Some(data) => Poll::Ready(Some(Ok(Frame::data(data)))),
            None => self.poll_incoming(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.held.is_empty() && self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let coming = self
            .incoming
            .as_ref()
            .map_or_else(|| SizeHint::with_exact(0), Body::size_hint);
        let held = self.held_bytes();
        // A body of unknown length stays one, or it would be framed otherwise than it came.
        match coming.exact() {
            Some(bytes) => SizeHint::with_exact(bytes.saturating_add(held)),
            None => coming,
        }
    }
}

/// A chunk that is not one, or a connection that ended.
fn broken(error: &hyper::Error) -> UploadState {
    let cause = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .map(io::Error::kind);
    match cause {
        Some(io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) => UploadState::Malformed,
        _ => UploadState::Gone,
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let (UploadState::Flowing, Some(incoming)) =
            (self.progress.state(), self.incoming.take())
        {
            // Also where the client waits for `100 Continue`: by then the head of the answer is written, and hyper does
            // not ask for the body any more.
            spawn_local(self.leftover.drain(incoming));
        }
    }
}
