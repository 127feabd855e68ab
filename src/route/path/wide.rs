//! The wide reading: whatever an API may take for the same path.

use percent_encoding::percent_decode_str;
use smallvec::SmallVec;

use super::{InvalidPath, join};
use crate::request::{bare_segment, fold_segment};

/// The wide reading of an exact path.
pub(super) fn widen(exact: &str) -> Result<String, InvalidPath> {
    if is_wide(exact) {
        return Ok(exact.to_owned());
    }
    let decoded = percent_decode_str(exact).decode_utf8_lossy();
    let mut kept: SmallVec<[_; 16]> = SmallVec::new();
    for segment in decoded.split('/') {
        // An exact path has none of these, so an encoding hid it.
        if matches!(bare_segment(segment), "." | "..") {
            return Err(InvalidPath("the path hides a dot segment"));
        }
        let folded = fold_segment(segment);
        if !folded.is_empty() {
            kept.push(folded);
        }
    }
    Ok(join(&kept, false))
}

/// Whether an exact path is plainly its own wide reading.
pub(super) fn is_wide(exact: &str) -> bool {
    let mut before = 0;
    exact.bytes().all(|byte| {
        let pair = (std::mem::replace(&mut before, byte), byte);
        !matches!(pair, (b'.', b'/') | (_, b'%' | b';' | b'A'..=b'Z' | 0x80..))
    }) && !exact.ends_with('.')
        && (exact == "/" || !exact.ends_with('/'))
}
