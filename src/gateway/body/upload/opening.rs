//! Reading the beginning of a body before the request is judged.

use std::future::poll_fn;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use tokio::time::timeout;

use super::{Upload, UploadState};
use crate::gateway::body::BodyError;
use crate::request::{Extent, Opening};

/// As much as is looked at.
const MOST: u64 = Opening::BYTES as u64;

impl Upload {
    /// The beginning of the body: all of it, or as much as is looked at. What is read for that is kept for whoever reads
    /// on, who gets the same bytes in the same order. It must come within the time of one pause.
    pub(in crate::gateway) async fn open(&mut self) -> Result<Opening, UploadState> {
        match timeout(self.idle.limit(), self.fill()).await {
            Ok(Ok(())) => {}
            Ok(Err(_broken)) => return Err(self.progress.state()),
            Err(_elapsed) => {
                self.progress.now(UploadState::Slow);
                return Err(UploadState::Slow);
            }
        }
        let all = self.progress.state() == UploadState::Finished;
        let extent = if all && self.held_bytes() <= MOST {
            Extent::Whole
        } else {
            Extent::Cut
        };
        Ok(Opening {
            bytes: self.beginning(),
            extent,
        })
    }

    async fn fill(&mut self) -> Result<(), BodyError> {
        while self.progress.state() == UploadState::Flowing && self.held_bytes() < MOST {
            let frame = poll_fn(|cx| Pin::new(&mut *self).poll_incoming(cx)).await;
            match frame.transpose()?.map(hyper::body::Frame::into_data) {
                Some(Ok(data)) => self.held.push_back(data),
                Some(Err(_trailers)) => {}
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// What is held.
    pub(super) fn held_bytes(&self) -> u64 {
        let lengths = self
            .held
            .iter()
            .map(|frame| u64::try_from(frame.len()).unwrap_or(u64::MAX));
        lengths.fold(0, u64::saturating_add)
    }

    fn beginning(&self) -> Bytes {
        let mut frames = self.held.iter();
        if let (Some(only), None) = (frames.next(), frames.next()) {
            return only.slice(..only.len().min(Opening::BYTES));
        }
        let mut beginning = BytesMut::with_capacity(Opening::BYTES);
        for frame in &self.held {
            let room = Opening::BYTES.saturating_sub(beginning.len());
            beginning.extend(frame.iter().take(room));
        }
        beginning.freeze()
    }
}
