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
    /// `case`.
    pub case: Case,
    /// `trailing_slash`.
    pub trailing_slash: TrailingSlash,
    /// `parameters`.
    pub parameters: Parameters,
    /// `encoded_slash`.
    pub encoded_slash: EncodedSlash,
}

/// Whether the case of letters in a path matters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Case {
    /// It does.
    #[default]
    Exact,
    /// It does not: the path is lower-cased.
    Fold,
}

/// Whether `/x/` is another path than `/x`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum TrailingSlash {
    /// It is.
    #[default]
    Exact,
    /// It is not: the slash at the end is removed.
    Strip,
}

/// What becomes of `;name=value` in the segments of a path.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Parameters {
    /// It is part of the path.
    #[default]
    Keep,
    /// It is removed.
    Strip,
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

impl PathPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong with it, in words for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned() })
    }

    /// The text that it was read from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names that it captures, in order.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        std::iter::empty()
    }

    /// The same pattern for paths that were read under `rules`.
    #[must_use]
    pub fn under(&self, _rules: &PathRules) -> Self {
        self.clone()
    }
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
