//! The text of a value in a key.

use smallvec::SmallVec;

/// Turns credentials and whatever is long or binary into 26 letters that tell nothing.
#[derive(Clone)]
pub struct KeyHasher {
    key: [u8; 32],
}

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyHasher(***)")
    }
}

/// RFC 4648 section 6, in lower case.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// 128 bits at 5 a letter.
const HASH_LETTERS: usize = 26;

/// The longest value that stays readable.
const MAX_READABLE: usize = 64;

impl KeyHasher {
    /// A hasher keyed by `secret`, which may have any length. Another secret makes every hashed key another one.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self {
            key: blake3::derive_key("sluice 1: identities in keys", secret),
        }
    }

    /// The hash of a value together with where it is from: keyed BLAKE3, cut to 128 bits. `word` and `name` are
    /// delimited by their length, so no two triples hash the same bytes.
    pub(super) fn hash(&self, word: &str, name: &str, value: &[u8]) -> String {
        let mut text: SmallVec<[u8; 256]> = SmallVec::new();
        for delimited in [word, name] {
            text.extend(delimited.len().to_be_bytes());
            text.extend_from_slice(delimited.as_bytes());
        }
        text.extend_from_slice(value);
        let hash = blake3::keyed_hash(&self.key, &text);
        base32(hash.as_bytes().first_chunk().copied().unwrap_or_default())
    }
}

fn base32(bytes: [u8; 16]) -> String {
    let mut left = u128::from_be_bytes(bytes);
    let mut letters = [0; HASH_LETTERS];
    for letter in letters.iter_mut().rev() {
        let digit = usize::try_from(left & 31).unwrap_or_default();
        *letter = ALPHABET.get(digit).copied().unwrap_or_default();
        left = left.wrapping_shr(5);
    }
    letters.into_iter().map(char::from).collect()
}

/// The value as text, if it is short and harmless in a key, and cannot be taken for a hash.
pub(super) fn readable(value: &[u8]) -> Option<&str> {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/*".contains(byte);
    let like_a_hash =
        value.len() == HASH_LETTERS && value.iter().all(|byte| ALPHABET.contains(byte));
    let fits = !value.is_empty() && value.len() <= MAX_READABLE;
    if fits && !like_a_hash && value.iter().all(harmless) {
        std::str::from_utf8(value).ok()
    } else {
        None
    }
}
