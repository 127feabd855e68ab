//! The bodies that pass through, a frame at a time: the client's on its way up, the answer on its way down. Nothing is held
//! but the beginning of a body that a limit counts by.

mod answer;
mod idle;
mod leftover;
mod upload;

pub use answer::Body;
pub(super) use answer::{Content, Relay, Trailers};
pub(super) use leftover::Leftover;
pub use upload::Upload;
pub(super) use upload::{Progress, UploadState};

/// Why a body ended before its end. The other side sees a connection that breaks, never a clean end.
#[derive(Debug)]
pub enum BodyError {
    /// Nothing came for too long.
    Idle,
    /// The side that sends it broke off.
    Broken(hyper::Error),
}

impl std::fmt::Display for BodyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Idle => "nothing came for too long",
            Self::Broken(_) => "the sender broke off",
        })
    }
}

impl std::error::Error for BodyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Idle => None,
            Self::Broken(error) => Some(error),
        }
    }
}
