//! `limits` and `defaults`.

use std::time::Duration;

use super::super::decode::{self, At, Fields, Shape, Zero};
use super::super::key::{self, Per};
use super::super::matcher::{self, Place, Typed};
use super::super::node::{Kind, Node};
use super::super::report::Findings;
use super::super::units::{self, BlockWords, RateDecl};
use super::amounts::{Algorithm, Allow, allow, candidate};
use super::cost::{self, CostDecl};
use super::overrides::{self, OverrideDecl};
use super::plans::{self, PlansDecl};
use super::{answers, reply, slots};
use crate::limit::algorithm::Refill;
use crate::limit::key::IfMissing;
use crate::policy::{Count, IfDown, LimitMode, Preflight, Reply};

/// A limit, as it was typed, with what `defaults` says where it says nothing.
#[derive(Debug)]
pub(in crate::config) struct LimitDecl {
    pub(in crate::config) name: At<String>,
    /// Empty: every request.
    pub(in crate::config) when: Vec<Typed>,
    /// `except` and `skip`.
    pub(in crate::config) except: Vec<Typed>,
    /// None: it was wrong, and noted.
    pub(in crate::config) per: Option<At<Per>>,
    /// None: it was wrong, and noted.
    pub(in crate::config) allow: Option<Allow>,
    /// None: there are none, or they were wrong, and noted.
    pub(in crate::config) plans: Option<PlansDecl>,
    /// None: there are none. What was wrong is left out, and noted.
    pub(in crate::config) overrides: Option<Vec<OverrideDecl>>,
    pub(in crate::config) algorithm: Option<At<Algorithm>>,
    pub(in crate::config) queue: Option<At<u64>>,
    pub(in crate::config) max_wait: Option<At<Duration>>,
    pub(in crate::config) refill: Option<At<Refill>>,
    pub(in crate::config) if_missing: IfMissing,
    pub(in crate::config) mode: LimitMode,
    /// None: what suits the key.
    pub(in crate::config) preflight: Option<Preflight>,
    /// None: what the store says.
    pub(in crate::config) if_down: Option<IfDown>,
    /// None: every request. With the statuses as they were typed.
    pub(in crate::config) count: Option<At<(Count, String)>>,
    /// None: 1.
    pub(in crate::config) cost: Option<At<CostDecl>>,
    /// An amount that is tried beside the others.
    pub(in crate::config) candidate: Option<At<RateDecl>>,
    /// What going over it leads to.
    pub(in crate::config) then: Option<At<BlockWords>>,
    pub(in crate::config) reply: Reply,
}

impl LimitDecl {
    /// Every amount that it enforces: of `allow`, of its plans and of its overrides.
    pub(super) fn rates(&self) -> impl Iterator<Item = &At<RateDecl>> {
        let plans = self.plans.iter().flat_map(|plans| &plans.listed);
        let overrides = self.overrides.iter().flatten();
        self.allow
            .iter()
            .chain(plans.map(|(_, allow)| allow))
            .chain(overrides.filter_map(|one| one.allow.as_ref()))
            .flat_map(Allow::rates)
    }
}

const LIMIT: Shape = Shape {
    what: "a limit",
    known: &[
        "when",
        "except",
        "skip",
        "per",
        "allow",
        "plans",
        "overrides",
        "algorithm",
        "queue",
        "max_wait",
        "refill",
        "if_missing",
        "mode",
        "preflight",
        "if_down",
        "count",
        "cost",
        "candidate",
        "then",
        "reply",
    ],
    later: &["slice", "priority", "show"],
};
const DEFAULTS: Shape = Shape {
    what: "`defaults`",
    known: &[
        "when",
        "except",
        "skip",
        "per",
        "plans",
        "overrides",
        "algorithm",
        "queue",
        "max_wait",
        "refill",
        "if_missing",
        "mode",
        "preflight",
        "if_down",
        "count",
        "cost",
        "candidate",
        "then",
        "reply",
    ],
    later: LIMIT.later,
};
/// A limit's own fields over the defaults.
struct Both<'n> {
    own: Fields<'n>,
    defaults: Fields<'n>,
}

impl<'n> Both<'n> {
    fn get(&self, name: &str) -> Option<&'n Node> {
        self.own.get(name).or_else(|| self.defaults.get(name))
    }

    /// A field that is one of `words`; `what` it is, for messages.
    fn word<T: Copy>(
        &self,
        name: &str,
        what: &str,
        words: &[(&'static str, T)],
        found: &mut Findings,
    ) -> Option<T> {
        let node = self.get(name)?;
        decode::word(node, what, words, &[], found).map(|at| at.value)
    }
}

/// Every limit of the file.
pub(super) fn read(top: &Fields<'_>, ipv6_prefix: u8, found: &mut Findings) -> Vec<LimitDecl> {
    let none = Fields::none(top.span);
    let defaults = top
        .get("defaults")
        .and_then(|node| Fields::open(node, &DEFAULTS, found));
    let defaults = defaults.unwrap_or(none);
    // So that what is wrong in `defaults` is said even where every limit has its own.
    fields(
        &Both {
            own: none,
            defaults,
        },
        ipv6_prefix,
        found,
    );
    let Some(node) = top.get("limits") else {
        let title = "there are no limits: every request passes";
        let problem = match top.entry("limits") {
            Some((key, _)) => found.warn(key.span, title),
            None => found.warn_overall(title),
        };
        problem.help(SHORTEST);
        return Vec::new();
    };
    let Kind::Mapping(entries) = &node.kind else {
        found
            .error(node.span, "`limits` is a mapping of names to limits")
            .help(SHORTEST);
        return Vec::new();
    };
    let named = entries.iter().filter_map(|(name, body)| {
        let text = decode::text(name, "the name of a limit", found)?;
        let name = At {
            value: text.to_owned(),
            span: name.span,
        };
        if body.is_empty() {
            found
                .error(name.span, "this limit says nothing")
                .help("it needs `per` and `allow`");
            return None;
        }
        let own = Fields::open(body, &LIMIT, found)?;
        Some(limit(name, &Both { own, defaults }, ipv6_prefix, found))
    });
    named.collect()
}

const SHORTEST: &str = "the shortest is `limits: {per-ip: {per: ip, allow: 100 per minute}}`";

fn limit(name: At<String>, both: &Both<'_>, ipv6_prefix: u8, found: &mut Findings) -> LimitDecl {
    let mut decl = fields(both, ipv6_prefix, found);
    if both.get("per").is_none() {
        found
            .error(name.span, "this limit needs `per`: whose counter is it?")
            .help(
                "as `per: ip`, `per: header X-User-Id`, or `per: everyone` for one counter for all",
            );
    }
    match both.own.get("allow") {
        Some(node) => decl.allow = allow(node, found),
        None if both.get("plans").or(both.get("overrides")).is_some() => {
            found
                .error(
                    name.span,
                    "this limit needs `allow`: how much is left to the others?",
                )
                .help("`allow` is what a request gets that has no listed plan and no override");
        }
        None => {
            found
                .error(name.span, "this limit needs `allow`: how much?")
                .help("as `allow: 100 per minute`");
        }
    }
    decl.name = name;
    slots::check(&mut decl, &both.own, found);
    if both.own.get("then").is_none() && decl.rates().next().is_none() {
        decl.then = None;
    }
    decl
}

const MODES: [(&str, LimitMode); 3] = [
    ("enforce", LimitMode::Enforce),
    ("shadow", LimitMode::Shadow),
    ("tag", LimitMode::Tag),
];
const MISSING: [(&str, IfMissing); 4] = [
    ("ip", IfMissing::Ip),
    ("skip", IfMissing::Skip),
    ("share", IfMissing::Share),
    ("reject", IfMissing::Reject),
];
const REFILLS: [(&str, Refill); 2] = [
    ("continuous", Refill::Continuous),
    ("interval", Refill::Interval),
];
const PREFLIGHTS: [(&str, Preflight); 2] = [("count", Preflight::Count), ("free", Preflight::Free)];

/// Everything of a limit but its name and amounts.
fn fields(both: &Both<'_>, ipv6_prefix: u8, found: &mut Findings) -> LimitDecl {
    let matchers = |name: &str, found: &mut Findings| {
        let listed = both
            .get(name)
            .map(|node| matcher::list(node, Place::Elsewhere, found));
        listed.unwrap_or_default()
    };
    let except = [matchers("except", found), matchers("skip", found)].concat();
    let per = both
        .get("per")
        .and_then(|node| key::per(node, ipv6_prefix, found));
    LimitDecl {
        name: At {
            value: String::new(),
            span: both.own.span,
        },
        when: matchers("when", found),
        except,
        plans: both
            .get("plans")
            .and_then(|node| plans::plans(node, ipv6_prefix, found)),
        overrides: both
            .get("overrides")
            .map(|node| overrides::overrides(node, per.as_ref().map(|per| &per.value), found)),
        per,
        allow: None,
        algorithm: both
            .get("algorithm")
            .and_then(|node| decode::word(node, "an algorithm", &Algorithm::WORDS, &[], found)),
        queue: both
            .get("queue")
            .and_then(|node| decode::number(node, "`queue`", 0, 1_000_000, found)),
        max_wait: both
            .get("max_wait")
            .and_then(|node| decode::duration(node, "`max_wait`", Zero::Refused, found)),
        refill: both
            .get("refill")
            .and_then(|node| decode::word(node, "a refill", &REFILLS, &[], found)),
        if_missing: both
            .word("if_missing", "a rule for missing keys", &MISSING, found)
            .unwrap_or_default(),
        mode: both
            .word("mode", "a mode", &MODES, found)
            .unwrap_or_default(),
        preflight: both.word("preflight", "a rule for preflights", &PREFLIGHTS, found),
        if_down: both.get("if_down").and_then(|node| if_down(node, found)),
        count: both
            .get("count")
            .and_then(|node| answers::count(node, found)),
        cost: both.get("cost").and_then(|node| cost::cost(node, found)),
        candidate: both
            .get("candidate")
            .and_then(|node| candidate(node, found)),
        then: both
            .get("then")
            .and_then(|node| decode::parsed(node, "`then`", units::block, found)),
        reply: both
            .get("reply")
            .and_then(|node| reply::reply(node, found))
            .unwrap_or_default(),
    }
}

/// `allow`, `deny` or `local`.
pub(super) fn if_down(node: &Node, found: &mut Findings) -> Option<IfDown> {
    let words = [
        ("allow", IfDown::Allow),
        ("deny", IfDown::Deny),
        ("local", IfDown::Local),
    ];
    decode::word(node, "a rule for a store that is away", &words, &[], found).map(|at| at.value)
}
