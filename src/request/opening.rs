//! The beginning of a request's body.

use bytes::Bytes;

/// What is read of a body before the request is judged, where a limit's key is in it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Opening {
    /// At most [`Opening::BYTES`], without framing.
    pub bytes: Bytes,
    /// Whether that is all.
    pub extent: Extent,
}

/// How much of a body is known.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Extent {
    /// All of it.
    #[default]
    Whole,
    /// More follows, or may.
    Cut,
}

impl Opening {
    /// The most that is looked at.
    pub const BYTES: usize = 16 * 1024;
}
