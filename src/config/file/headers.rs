//! `headers`.

use super::super::decode::{self, Fields, Shape, Zero};
use super::super::node::Node;
use super::super::report::Findings;
use crate::policy::{HeaderFields, LegacyReset, RateLimitDialect};

const HEADERS: Shape = Shape {
    what: "`headers`",
    known: &["ratelimit", "legacy", "retry_jitter"],
    later: &[],
};

pub(super) fn headers(node: &Node, found: &mut Findings) -> HeaderFields {
    let Some(fields) = Fields::open(node, &HEADERS, found) else {
        return HeaderFields::default();
    };
    let legacy = [
        ("off", LegacyReset::Off),
        ("delta", LegacyReset::Delta),
        ("epoch", LegacyReset::Epoch),
    ];
    HeaderFields {
        ratelimit: fields
            .get("ratelimit")
            .and_then(|node| ratelimit(node, found))
            .unwrap_or_default(),
        legacy: fields
            .get("legacy")
            .and_then(|node| decode::word(node, "a reset of the older fields", &legacy, &[], found))
            .map(|at| at.value)
            .unwrap_or_default(),
        retry_jitter: fields
            .get("retry_jitter")
            .and_then(|node| decode::duration(node, "`retry_jitter`", Zero::Allowed, found))
            .map(|at| at.value)
            .unwrap_or_default(),
    }
}

fn ratelimit(node: &Node, found: &mut Findings) -> Option<RateLimitDialect> {
    let why = match node.text() {
        Some("draft12") => "`draft12` is refused: the text of that draft is not known yet",
        Some("both") => {
            "`both` is refused: it contains `draft12`, and the text of that draft is not known yet"
        }
        _ => {
            let words = [
                ("draft11", RateLimitDialect::Draft11),
                ("off", RateLimitDialect::Off),
            ];
            return decode::word(node, "a draft of the fields", &words, &[], found)
                .map(|at| at.value);
        }
    };
    found.error(node.span, why).help("write `draft11` or `off`");
    None
}
