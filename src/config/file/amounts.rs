//! Amounts: what `allow` says, and the algorithm that holds it.

use super::super::decode::{self, At, Fields, Shape, Zero};
use super::super::node::{Kind, Node};
use super::super::report::Findings;
use super::super::units::{self, Rate, RateDecl, Within};

/// What a limit allows.
#[derive(Clone, Debug)]
pub(in crate::config) enum Allow {
    Unlimited,
    /// All of them hold; at least one.
    Rates(Vec<At<RateDecl>>),
}

impl Allow {
    /// Its amounts; of `unlimited`, none.
    pub(in crate::config) fn rates(&self) -> &[At<RateDecl>] {
        match self {
            Self::Unlimited => &[],
            Self::Rates(rates) => rates,
        }
    }
}

/// The word of `algorithm`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::config) enum Algorithm {
    SlidingWindow,
    SlidingLog,
    FixedWindow,
    TokenBucket,
    LeakyBucket,
}

impl Algorithm {
    pub(super) const WORDS: [(&'static str, Self); 6] = [
        ("sliding_window", Self::SlidingWindow),
        ("sliding_log", Self::SlidingLog),
        ("fixed_window", Self::FixedWindow),
        ("token_bucket", Self::TokenBucket),
        ("gcra", Self::TokenBucket),
        ("leaky_bucket", Self::LeakyBucket),
    ];

    /// Whether it has a burst.
    pub(in crate::config) fn is_bucket(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket)
    }

    /// Its name.
    pub(in crate::config) fn word(self) -> &'static str {
        Self::WORDS
            .iter()
            .find(|(_, one)| *one == self)
            .map_or("", |(word, _)| word)
    }
}

const LONG: Shape = Shape {
    what: "an amount",
    known: &["requests", "window", "burst"],
    later: &[],
};

/// What `allow` says: one amount or a list of them.
pub(super) fn allow(node: &Node, found: &mut Findings) -> Option<Allow> {
    let items = decode::one_or_many(node);
    if items.is_empty() {
        found
            .error(node.span, "an empty list allows nothing")
            .help("as `allow: 100 per minute`");
        return None;
    }
    let mut rates = Vec::new();
    let mut whole = true;
    for item in items {
        match amount(item, found) {
            Some(Rate::Limited(value)) => rates.push(At {
                value,
                span: item.span,
            }),
            Some(Rate::Unlimited) if items.len() == 1 => return Some(Allow::Unlimited),
            Some(Rate::Unlimited) => {
                found
                    .error(item.span, "`unlimited` stands alone")
                    .help("remove it: the other amounts hold");
                whole = false;
            }
            None => whole = false,
        }
    }
    whole.then_some(Allow::Rates(rates))
}

/// The one amount that is tried beside those of `allow`.
pub(super) fn candidate(node: &Node, found: &mut Findings) -> Option<At<RateDecl>> {
    let wrong = |title: &str, found: &mut Findings| {
        found
            .error(node.span, title)
            .help("as `candidate: 50 per minute`");
        None
    };
    if matches!(node.kind, Kind::Sequence(_)) {
        return wrong("a candidate is one amount, not a list", found);
    }
    match amount(node, found)? {
        Rate::Limited(value) if value.within == Within::Concurrent => wrong(
            "what is under way cannot be tried: a request that is rejected would hold a slot",
            found,
        ),
        Rate::Limited(value) => Some(At {
            value,
            span: node.span,
        }),
        Rate::Unlimited => wrong("`unlimited` would try nothing", found),
    }
}

fn amount(node: &Node, found: &mut Findings) -> Option<Rate> {
    if !matches!(node.kind, Kind::Mapping(_)) {
        return decode::parsed(node, "an amount", units::rate, found).map(|rate| rate.value);
    }
    let fields = Fields::open(node, &LONG, found)?;
    let count = |name: &str, what: &str, found: &mut Findings| {
        let node = fields.get(name)?;
        let number = decode::number(node, what, 0, u64::MAX, found)?;
        found
            .take(
                node.span,
                units::at_least_one(&number.value.to_string(), what),
            )
            .map(|value| At { value, ..number })
    };
    let requests = count("requests", "an amount", found);
    let burst = count("burst", "a burst", found);
    let window = fields
        .get("window")
        .and_then(|node| decode::duration(node, "a window", Zero::Refused, found));
    for name in ["requests", "window"] {
        if fields.get(name).is_none() {
            found
                .error(node.span, format!("an amount needs `{name}`"))
                .help("as `{requests: 100, window: 1m}`");
        }
    }
    if fields.get("burst").is_some() && burst.is_none() {
        return None;
    }
    Some(Rate::Limited(RateDecl {
        amount: requests?.value,
        within: Within::Window {
            length: window?.value,
            burst: burst.map(|burst| burst.value),
        },
    }))
}
