//! What is left of a request's body when it is answered before its end.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::http::request::Parts;
use hyper::{Version, header};
use tokio::time::timeout;

/// A body that nobody wants is still read this far, so that the client gets to read the answer: closing a socket with
/// unread bytes makes TCP reset it, and a reset can overtake the answer.
const DRAINED_BYTES: u64 = 256 * 1024;
/// ... and for this long.
const DRAINED_TIME: Duration = Duration::from_secs(1);
/// A body of at most this length is read to its end for the sake of the connection.
const SMALL: u64 = 64 * 1024;

/// What an answer that comes before the end of the request's body means for the connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::gateway) enum Leftover {
    /// The rest is small: read it, and keep the connection.
    Small,
    /// The rest may be large: read some of it, then close.
    Large,
    /// The client waits for `100 Continue` and will not send it: close.
    Withheld,
}

impl Leftover {
    /// Of the request with this head.
    pub(super) fn of(head: &Parts, incoming: &Incoming) -> Self {
        if head.version > Version::HTTP_10 && head.headers.contains_key(header::EXPECT) {
            Self::Withheld
        } else if incoming
            .size_hint()
            .upper()
            .is_some_and(|bytes| bytes <= SMALL)
        {
            Self::Small
        } else {
            Self::Large
        }
    }

    /// Reads what is to be read of a body that nobody wants.
    pub(super) async fn drain(self, mut incoming: Incoming) {
        if self == Self::Withheld {
            return;
        }
        let mut budget = DRAINED_BYTES;
        let read = async {
            while let Some(Ok(frame)) = incoming.frame().await {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                budget = budget.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
                if budget == 0 {
                    return;
                }
            }
        };
        // Whether the end, the budget or the time came first: the connection decides by what was read.
        drop(timeout(DRAINED_TIME, read).await);
    }
}
