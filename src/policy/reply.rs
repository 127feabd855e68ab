//! What a client is answered that a limit rejects.

mod template;

pub use template::{Escape, Slot, Template};

use hyper::StatusCode;
use hyper::header::{HeaderName, HeaderValue};

/// The answer of a limit to the requests that it rejects.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reply {
    /// Never informational, nor 304.
    pub status: StatusCode,
    /// Fields beside those that the gateway sends anyway; `Location` where it redirects. None of them frames the answer.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// What it says.
    pub body: ReplyBody,
}

/// What an answer to a rejected request says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ReplyBody {
    /// A problem (RFC 9457).
    Problem,
    /// Nothing.
    Empty,
    /// A text of its own.
    Own {
        /// Its `Content-Type`.
        content_type: HeaderValue,
        /// The text, with places to fill in.
        text: Template,
    },
}

impl Default for Reply {
    /// 429 with a problem.
    fn default() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            fields: Vec::new(),
            body: ReplyBody::Problem,
        }
    }
}
