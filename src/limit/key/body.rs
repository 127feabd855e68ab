//! `body FIELD`: a value that stands in a request's body.
//!
//! Servers differ in what they take for JSON, for a form and for the same name. A request counts under every reading that
//! some of them make; where two readings find different values, nobody can tell whose it is.

mod form;
mod json;
#[cfg(test)]
mod tests;

use hyper::HeaderMap;
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::read::Reading;
use crate::request::Facts;

/// The name of a value in a body.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct BodyField {
    name: Box<str>,
    /// The names on the way to it through objects of JSON.
    path: Vec<Box<str>>,
}

impl BodyField {
    /// The field of this name; dots lead into objects of JSON. None where a name on the way is empty.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let path: Vec<Box<str>> = name.split('.').map(Box::from).collect();
        path.iter().all(|name| !name.is_empty()).then(|| Self {
            name: name.into(),
            path,
        })
    }

    /// As it was written.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// What a body says that it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    Json,
    Multipart,
    /// A form, something else, or nothing.
    Other,
}

/// Reads a field from the beginning of the body; missing where nobody read that.
pub(super) fn read<'f>(field: &BodyField, facts: &'f Facts<'_>) -> Reading<'f> {
    let Some(opening) = facts.body else {
        return Reading::Missing;
    };
    let headers = &facts.head.headers;
    if is_coded(headers) {
        return Reading::Missing;
    }
    let text = opening
        .bytes
        .strip_prefix(b"\xEF\xBB\xBF")
        .unwrap_or(&opening.bytes);
    let json = || json::find(&field.path, text, opening.extent);
    let form = || form::find(&field.name, text, opening.extent);
    let looks_like_json = text.trim_ascii_start().starts_with(b"{");
    match (kind(headers), looks_like_json) {
        (Kind::Json, _) | (Kind::Multipart, true) => json(),
        (Kind::Multipart, false) => Reading::Missing,
        (Kind::Other, false) => form(),
        // Many servers read JSON whatever its type.
        (Kind::Other, true) => match (json(), form()) {
            (Reading::Missing, one) | (one, Reading::Missing) => one,
            _ => Reading::Twice,
        },
    }
}

fn is_coded(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    codings.any(|coding| {
        let coding = coding.as_bytes().trim_ascii();
        !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")
    })
}

fn kind(headers: &HeaderMap) -> Kind {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return Kind::Other;
    };
    let essence = line.as_bytes().split(|byte| *byte == b';').next();
    let essence = essence
        .unwrap_or_default()
        .trim_ascii()
        .to_ascii_lowercase();
    if essence.ends_with(b"/json") || essence.ends_with(b"+json") {
        Kind::Json
    } else if essence.starts_with(b"multipart/") {
        Kind::Multipart
    } else {
        Kind::Other
    }
}

/// Blanks around a value do not count.
fn value(text: &str) -> Reading<'static> {
    let bytes = text.trim_ascii().as_bytes().to_vec();
    std::borrow::Cow::<[u8]>::Owned(bytes).into()
}

/// Whether some server takes one name for the other: letter case, and the two letters beyond ASCII whose lower case is
/// within it, as simple case folding has it.
fn same(one: impl Iterator<Item = char>, other: &str) -> bool {
    let fold = |letter: char| match letter {
        'ſ' => 's',
        '\u{212A}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    one.map(fold).eq(other.chars().map(fold))
}
