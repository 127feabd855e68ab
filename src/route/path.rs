//! Paths: one normalisation for matching, keys and forwarding; patterns; the wide reading.

use crate::request::Target;

/// How much of a path's spelling matters to a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Width {
    /// The normalised path, as routes and exemptions compare it.
    Exact,
    /// Whatever an API may take for the same path, as limits compare it.
    Wide,
}

/// The `paths` block: how paths are normalised for routes and forwarding.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct PathRules {
    /// `parameters: keep` is the only form so far... see the fields.
    pub encoded_slash: EncodedSlash,
}

/// What `%2F` in a path means.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum EncodedSlash {
    /// It stays as it is, and is not a slash.
    #[default]
    Keep,
    /// The request is answered 400.
    Reject,
    /// It is a slash.
    Decode,
}

/// Why a target has no path that it could be judged by; answered 400.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct InvalidPath(pub &'static str);

/// A path in a matcher.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathPattern {
    text: String,
}

impl PathRules {
    /// The two readings of a request target.
    ///
    /// # Errors
    /// See `InvalidPath`.
    pub fn read(&self, _uri: &hyper::Uri) -> Result<Target, InvalidPath> {
        Err(InvalidPath("stub"))
    }
}
