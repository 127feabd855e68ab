//! Which requests a route, a limit or an exemption is about.
//!
//! A [`Matcher`] is what a person wrote; an [`Index`] holds many and finds those that match without trying them all.
//! Limits compare widely and exemptions exactly: [`Width`] says which.

mod host;
mod index;
mod matcher;
mod path;

pub use host::{HostPattern, InvalidHost, effective_host};
pub use index::{Hit, Index};
pub use matcher::{HeaderMatcher, HeaderTest, Matcher, MethodSet};
pub use path::{
    Case, EncodedSlash, InvalidPath, Parameters, PathPattern, PathRules, TrailingSlash, Width,
};
