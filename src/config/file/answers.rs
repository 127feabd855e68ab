//! `count`: which answers a limit counts.

use super::super::decode::{self, At};
use super::super::nearest::nearest;
use super::super::node::Node;
use super::super::report::Findings;
use crate::policy::{Answers, Count};

const FORM: &str = "as `count: responses 401, 403, 5xx`; left out, every request counts";

/// `responses 401, 403, 5xx`, with the text for people.
pub(super) fn count(node: &Node, found: &mut Findings) -> Option<At<(Count, String)>> {
    let text = decode::text(node, "`count`", found)?;
    let Some(listed) = text.strip_prefix("responses ").map(str::trim) else {
        let first = text.split_whitespace().next().unwrap_or_default();
        found
            .error(
                node.span,
                format!("`{text}` does not say which answers count"),
            )
            .meant(nearest(first, ["responses"]))
            .help(FORM);
        return None;
    };
    let mut answers = Answers::default();
    for one in listed.split(',').map(str::trim) {
        let Some(range) = statuses(one) else {
            found
                .error(
                    node.span,
                    format!("`{one}` is not a status from 100 to 599, nor a class as 5xx"),
                )
                .help(FORM);
            return None;
        };
        range.for_each(|status| answers.insert(status));
    }
    Some(At {
        value: (Count::Answers(answers), listed.to_owned()),
        span: node.span,
    })
}

/// `401` or `4xx`.
fn statuses(text: &str) -> Option<std::ops::RangeInclusive<u16>> {
    if text.len() != 3 || !text.is_ascii() {
        return None;
    }
    if let Some(class) = text.strip_suffix("xx") {
        let class = class
            .parse::<u16>()
            .ok()
            .filter(|class| (1..=5).contains(class))?;
        return Some(class * 100..=class * 100 + 99);
    }
    let status = text
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse::<u16>().ok())??;
    (100..600).contains(&status).then_some(status..=status)
}
