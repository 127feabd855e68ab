//! Masking values of the query.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

/// `path` with `query`, where the value of every parameter called one of `names` is `***`.
///
/// Names are compared decoded and in any letter case, and `;` separates like `&`: a secret stays out of the log however an
/// API reads its query.
#[must_use]
pub fn masked(path: &str, query: Option<&str>, names: &[String]) -> String {
    let Some(query) = query else {
        return path.to_owned();
    };
    let mut text = String::with_capacity(path.len() + 1 + query.len());
    text.push_str(path);
    text.push('?');
    if names.is_empty() {
        text.push_str(query);
        return text;
    }
    for part in query.split_inclusive(['&', ';']) {
        let (pair, end) = match part.strip_suffix(['&', ';']) {
            Some(pair) => part.split_at(pair.len()),
            None => (part, ""),
        };
        match pair.split_once('=') {
            Some((name, _)) if is_secret(name, names) => {
                text.push_str(name);
                text.push_str("=***");
            }
            _ => text.push_str(pair),
        }
        text.push_str(end);
    }
    text
}

fn is_secret(name: &str, names: &[String]) -> bool {
    let name = if name.contains('+') {
        Cow::from(name.replace('+', " "))
    } else {
        Cow::from(name)
    };
    let name = percent_decode_str(&name).decode_utf8_lossy();
    names
        .iter()
        .any(|secret| secret.eq_ignore_ascii_case(name.trim()))
}
