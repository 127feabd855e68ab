//! Paths: one normalisation for matching, keys and forwarding, and the wide reading.

mod pattern;
#[cfg(test)]
mod tests;
mod wide;

pub use pattern::PathPattern;
pub(super) use pattern::Step;

use hyper::Uri;
use percent_encoding::percent_decode_str;
use smallvec::SmallVec;

use self::wide::widen;
use crate::request::Target;

/// How much of a path's spelling matters to a pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Width {
    /// The normalised path, as routes and exemptions compare it.
    Exact,
    /// Whatever an API may take for the same path, as limits compare it.
    Wide,
}

/// The `paths` block: how paths are normalised for routes and forwarding. Limits compare widely whatever it says.
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

/// Whether the case of ASCII letters in a path matters.
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

impl PathRules {
    /// The two readings of a request target (RFC 3986 section 6.2.2, and what origins do beyond it).
    ///
    /// The exact reading decodes escapes of unreserved characters, escapes what may not stand raw, writes the others in
    /// upper case, merges slashes, and then removes dot segments, also those with parameters (`..;x`), which some
    /// origins strip first. The wide reading is the exact one decoded once, with `%2F` as a slash, lower-cased, without
    /// `;parameters`, empty segments, a slash at the end, and the blanks around and dots behind a segment. `*` stays
    /// what it is; that it belongs to `OPTIONS` is not checked here.
    ///
    /// # Errors
    /// No path; a control character, a backslash, an invalid escape or invalid UTF-8; a path above the root; a dot
    /// segment that only shows when a slash or parameter is decoded: no two origins agree where that leads.
    pub fn read(&self, uri: &Uri) -> Result<Target, InvalidPath> {
        let path = uri.path();
        let query = uri.query().map(str::to_owned);
        if path == "*" {
            return Ok(Target {
                exact: path.to_owned(),
                wide: path.to_owned(),
                query,
            });
        }
        let exact = if self.is_exact(path) {
            path.to_owned()
        } else {
            self.normalise(path)?
        };
        let wide = widen(&exact)?;
        Ok(Target { exact, wide, query })
    }

    /// Whether `path` is plainly normal; a few that are take the long way round.
    fn is_exact(self, path: &str) -> bool {
        let mut before = 0;
        path.starts_with('/')
            && path.bytes().all(|byte| {
                let pair = (std::mem::replace(&mut before, byte), byte);
                !matches!(pair, (b'/', b'/' | b'.'))
                    && (byte == b'/' || is_pchar(byte))
                    && !(self.case == Case::Fold && byte.is_ascii_uppercase())
                    && !(self.parameters == Parameters::Strip && byte == b';')
            })
            && (self.trailing_slash == TrailingSlash::Exact || path == "/" || !path.ends_with('/'))
    }

    fn normalise(self, path: &str) -> Result<String, InvalidPath> {
        if !path.starts_with('/') {
            return Err(InvalidPath("the request target has no path"));
        }
        let spelled = self.spell(path)?;
        let mut kept: SmallVec<[&str; 16]> = SmallVec::new();
        let mut ends_with_slash = true;
        for segment in spelled.split('/').skip(1) {
            let bare = segment.split(';').next().unwrap_or_default();
            let segment = if self.parameters == Parameters::Strip {
                bare
            } else {
                segment
            };
            ends_with_slash = true;
            match bare {
                "." => {}
                ".." if kept.pop().is_none() => return Err(ABOVE_ROOT),
                ".." => {}
                _ if segment.is_empty() => {}
                _ => {
                    kept.push(segment);
                    ends_with_slash = false;
                }
            }
        }
        Ok(join(
            &kept,
            ends_with_slash && self.trailing_slash == TrailingSlash::Exact,
        ))
    }

    /// Every character in its one spelling; slashes and dots stay where they are.
    fn spell(self, path: &str) -> Result<String, InvalidPath> {
        if percent_decode_str(path).decode_utf8().is_err() {
            return Err(InvalidPath("the path is not UTF-8"));
        }
        let mut spelled = String::with_capacity(path.len() + 16);
        let mut bytes = path.bytes();
        while let Some(byte) = bytes.next() {
            if byte == b'%' {
                let mut digit = || {
                    bytes
                        .next()
                        .and_then(|digit| char::from(digit).to_digit(16))
                };
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(InvalidPath("the path has an invalid percent-escape"));
                };
                self.spell_escape(
                    u8::try_from(high * 16 + low).unwrap_or_default(),
                    &mut spelled,
                )?;
            } else if byte == b'/' || is_pchar(byte) {
                self.push(byte, &mut spelled);
            } else {
                push_escape(refuse_unsafe(byte)?, &mut spelled);
            }
        }
        Ok(spelled)
    }

    fn spell_escape(self, byte: u8, spelled: &mut String) -> Result<(), InvalidPath> {
        match (byte, self.encoded_slash) {
            (b'/', EncodedSlash::Reject) => {
                return Err(InvalidPath("the path has an encoded slash"));
            }
            (b'/', EncodedSlash::Decode) => spelled.push('/'),
            _ if is_unreserved(byte) => self.push(byte, spelled),
            _ => push_escape(refuse_unsafe(byte)?, spelled),
        }
        Ok(())
    }

    fn push(self, byte: u8, spelled: &mut String) {
        let byte = if self.case == Case::Fold {
            byte.to_ascii_lowercase()
        } else {
            byte
        };
        spelled.push(char::from(byte));
    }
}

const ABOVE_ROOT: InvalidPath = InvalidPath("the path leads above the root");

/// `/a/b` or `/a/b/`; the root is `/` either way.
fn join(segments: &[impl AsRef<str>], ends_with_slash: bool) -> String {
    let length: usize = segments
        .iter()
        .map(|segment| segment.as_ref().len() + 1)
        .sum();
    let mut path = String::with_capacity(length + 1);
    for segment in segments {
        path.push('/');
        path.push_str(segment.as_ref());
    }
    if ends_with_slash || segments.is_empty() {
        path.push('/');
    }
    path
}

/// The segments of a normalised path: none for the root, and an empty last one where a slash ends it.
pub(super) fn segments(path: &str) -> impl Iterator<Item = &str> + Clone {
    let path = path.strip_prefix('/').unwrap_or(path);
    let skip = usize::from(path.is_empty());
    path.split('/').skip(skip)
}

fn refuse_unsafe(byte: u8) -> Result<u8, InvalidPath> {
    match byte {
        0..=0x1f | 0x7f => Err(InvalidPath("the path has a control character")),
        b'\\' => Err(InvalidPath("the path has a backslash")),
        _ => Ok(byte),
    }
}

fn push_escape(byte: u8, spelled: &mut String) {
    spelled.push_str(percent_encoding::percent_encode_byte(byte));
}

/// RFC 3986 section 2.3.
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986 section 3.3, without escapes.
const fn is_pchar(byte: u8) -> bool {
    is_unreserved(byte)
        || matches!(
            byte,
            b'!' | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b','
                | b';'
                | b'='
                | b':'
                | b'@'
        )
}
