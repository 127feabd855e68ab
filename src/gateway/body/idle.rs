//! The longest pause between two frames.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

/// Runs only while a frame is being waited for, so that a reader who pauses costs the writer nothing.
#[derive(Debug)]
pub(super) struct Idle {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    waiting: bool,
}

impl Idle {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            limit,
            timer: None,
            waiting: false,
        }
    }

    /// The longest pause.
    pub(super) fn limit(&self) -> Duration {
        self.limit
    }

    /// A frame came.
    pub(super) fn rest(&mut self) {
        self.waiting = false;
    }

    /// No frame came yet: ready when the pause is too long.
    pub(super) fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let deadline = Instant::now() + self.limit;
        let fresh = !std::mem::replace(&mut self.waiting, true);
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if fresh {
            timer.as_mut().reset(deadline);
        }
        timer.as_mut().poll(cx)
    }
}
