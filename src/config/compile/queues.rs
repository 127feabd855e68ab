//! One queue a request: two limits that both make a request wait would each hold the other's place.

use super::super::file::{File, LimitDecl};
use super::super::matcher::Typed;
use super::super::report::Findings;

/// Notes limits with queues that one request could meet.
pub(super) fn check(file: &File, found: &mut Findings) {
    let queued: Vec<&LimitDecl> = file
        .limits
        .iter()
        .filter(|decl| decl.queue.as_ref().is_some_and(|queue| queue.value > 0))
        .collect();
    for (index, decl) in queued.iter().enumerate() {
        let met = queued
            .iter()
            .take(index)
            .find(|other| !apart(&other.when, &decl.when));
        if let (Some(other), Some(queue)) = (met, &decl.queue) {
            let place = other
                .queue
                .as_ref()
                .map_or(other.name.span, |queue| queue.span);
            found
                .error(queue.span, "a request waits in one queue, and could meet two")
                .also(place, format!("that of `{}`", other.name.value))
                .help("let their `when` name different methods or different first segments of the path");
        }
    }
}

/// Whether no request is met by a matcher of each list.
fn apart(one: &[Typed], other: &[Typed]) -> bool {
    !one.is_empty() && !other.is_empty() && one.iter().all(|a| other.iter().all(|b| differ(a, b)))
}

/// Whether two matchers obviously match no common request: by method, or by the first segment of the path.
fn differ(a: &Typed, b: &Typed) -> bool {
    let methods = !a.methods.is_empty()
        && !b.methods.is_empty()
        && !a.methods.iter().any(|method| {
            b.methods
                .iter()
                .any(|other| same(method.as_str(), other.as_str()))
        });
    let (paths, others) = (&a.matcher.paths, &b.matcher.paths);
    let segments = !paths.is_empty()
        && !others.is_empty()
        && paths.iter().all(|path| {
            others
                .iter()
                .all(|other| first_differs(path.as_str(), other.as_str()))
        });
    methods || segments
}

/// `GET` also means `HEAD`.
fn same(one: &str, other: &str) -> bool {
    one == other || matches!((one, other), ("GET", "HEAD") | ("HEAD", "GET"))
}

/// Limits match widely: only letters, digits and the like mean the same in every reading.
fn first_differs(one: &str, other: &str) -> bool {
    let first = |path: &str| {
        path.split('/')
            .nth(1)
            .map(str::to_ascii_lowercase)
            .unwrap_or_default()
    };
    let (one, other) = (first(one), first(other));
    let literal = |text: &str| {
        !text.is_empty()
            && text
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    literal(&one) && literal(&other) && one != other
}
