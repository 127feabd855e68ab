//! The name of a request, in every log that it comes to.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The field that carries it.
pub(super) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest name that is kept, in bytes.
const LONGEST: usize = 64;

/// Gives names: a count that begins anywhere, so that no two workers or processes are likely to meet.
#[derive(Debug)]
pub(super) struct RequestIds(Cell<u64>);

impl Default for RequestIds {
    fn default() -> Self {
        Self(Cell::new(RandomState::new().hash_one(std::process::id())))
    }
}

impl RequestIds {
    /// The name that the request came with, if it is harmless in any log; else a new one.
    pub(super) fn of(&self, fields: &HeaderMap) -> HeaderValue {
        match fields.get(X_REQUEST_ID).filter(|id| is_harmless(id)) {
            Some(id) => id.clone(),
            None => self.next(),
        }
    }

    fn next(&self) -> HeaderValue {
        let number = self.0.replace(self.0.get().wrapping_add(1));
        let text = HeaderValue::try_from(format!("{number:016x}"));
        text.unwrap_or(HeaderValue::from_static("0"))
    }
}

fn is_harmless(id: &HeaderValue) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (1..=LONGEST).contains(&id.len()) && id.as_bytes().iter().all(plain)
}
