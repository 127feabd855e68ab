//! An answer's body on its way to the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};

use super::idle::Idle;
use super::{BodyError, Upload};
use crate::gateway::exchange::{Ended, Exchange};
use crate::gateway::headers;
use crate::limiter::Unsettled;
use crate::telemetry::events::UpstreamGuard;
use crate::upstream::Lease;

/// The body of every answer; at its end, or when the client leaves, the exchange is recorded.
#[derive(Debug)]
pub struct Body {
    content: Content,
    exchange: Exchange,
}

/// What an answer carries.
#[derive(Debug)]
pub(in crate::gateway) enum Content {
    /// Nothing, or nothing any more.
    Empty,
    /// What the gateway made.
    Made(Bytes),
    /// What the upstream sends.
    Relay(Relay),
}

/// The upstream's body. The connection goes back to its pool at the end, and is closed when it is dropped before.
#[derive(Debug)]
pub(in crate::gateway) struct Relay {
    incoming: Incoming,
    lease: Option<Lease<Upload>>,
    trailers: Trailers,
    idle: Idle,
    /// What the limits wait for; none: nothing.
    unsettled: Option<Box<Unsettled>>,
    _in_flight: UpstreamGuard,
}

/// Whether the client takes trailers (`TE: trailers`).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::gateway) enum Trailers {
    /// It does.
    Forward,
    /// It does not, or did not say.
    Drop,
}

impl Content {
    /// Whether the gateway answers by itself.
    pub(in crate::gateway) fn is_own(&self) -> bool {
        !matches!(self, Self::Relay(_))
    }
}

impl Relay {
    pub(in crate::gateway) fn new(
        incoming: Incoming,
        lease: Lease<Upload>,
        trailers: Trailers,
        pause: Duration,
        unsettled: Option<Box<Unsettled>>,
        in_flight: UpstreamGuard,
    ) -> Self {
        let mut relay = Self {
            incoming,
            lease: Some(lease),
            trailers,
            idle: Idle::new(pause),
            unsettled,
            _in_flight: in_flight,
        };
        relay.rest();
        relay
    }

    /// Looks whether the answer is complete: hyper asks for nothing more then.
    fn rest(&mut self) {
        if self.incoming.is_end_stream() {
            self.complete();
        }
    }

    /// Settles, and gives the connection back.
    fn complete(&mut self) {
        self.settle();
        if let Some(lease) = self.lease.take() {
            lease.give_back();
        }
    }

    fn settle(&mut self) {
        if let Some(unsettled) = self.unsettled.take() {
            unsettled.complete();
        }
    }

    /// Shows a frame to the limits that wait for what it may say.
    fn watch(&mut self, frame: &Frame<Bytes>) {
        let Some(unsettled) = &mut self.unsettled else {
            return;
        };
        if let Some(bytes) = frame.data_ref() {
            unsettled.data(bytes);
        }
        if let Some(trailers) = frame.trailers_ref() {
            unsettled.trailers(trailers);
            // Nothing comes behind them, and nobody may ask.
            self.settle();
        }
    }

    fn poll_frame(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            let Poll::Ready(frame) = Pin::new(&mut self.incoming).poll_frame(cx) else {
                ready!(self.idle.poll_wait(cx));
                self.lease = None;
                return Poll::Ready(Some(Err(BodyError::Idle)));
            };
            self.idle.rest();
            if let Some(Ok(frame)) = &frame {
                self.watch(frame);
            }
            return Poll::Ready(match frame {
                Some(Ok(frame)) => match (frame.into_trailers(), self.trailers) {
                    (Err(frame), _) => {
                        self.rest();
                        Some(Ok(frame))
                    }
                    (Ok(trailers), Trailers::Forward) => {
                        Some(Ok(Frame::trailers(headers::trailers(trailers))))
                    }
                    (Ok(_), Trailers::Drop) => continue,
                },
                Some(Err(error)) => {
                    self.lease = None;
                    Some(Err(BodyError::Broken(error)))
                }
                None => {
                    self.complete();
                    None
                }
            });
        }
    }
}

impl Body {
    pub(in crate::gateway) fn new(content: Content, exchange: Exchange) -> Self {
        Self { content, exchange }
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = match &mut this.content {
            Content::Empty => None,
            Content::Made(bytes) => {
                let bytes = std::mem::take(bytes);
                this.content = Content::Empty;
                Some(Ok(Frame::data(bytes)))
            }
            Content::Relay(relay) => ready!(relay.poll_frame(cx)),
        };
        match &frame {
            Some(Ok(frame)) => this.exchange.sent(frame.data_ref().map_or(0, Bytes::len)),
            Some(Err(_)) => this.exchange.end(Ended::Broken),
            None => this.exchange.end(Ended::Complete),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Empty => true,
            Content::Made(bytes) => bytes.is_empty(),
            Content::Relay(relay) => relay.incoming.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Empty => SizeHint::with_exact(0),
            Content::Made(bytes) => {
                SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
            }
            Content::Relay(relay) => relay.incoming.size_hint(),
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // hyper asks no further once the announced length is written, or where an answer has no body.
        self.exchange.end(if self.is_end_stream() {
            Ended::Complete
        } else {
            Ended::Gone
        });
    }
}
