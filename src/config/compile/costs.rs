//! What a request costs a limit, and that it can pass.

use super::super::decode::At;
use super::super::file::{CostDecl, File, LimitDecl};
use super::super::report::{Findings, Span};
use super::check_routes_exist;
use super::routes::Routes;
use crate::limit::{Cost, Meter, Retry, Verdict};
use crate::policy::{Amount, CostRule, MatchedCost};
use crate::route::{Index, Width};
use crate::time::Timestamp;

/// The cost of a limit with these amounts.
pub(super) fn cost(
    decl: &LimitDecl,
    amounts: &[Amount],
    file: &File,
    routes: &Routes,
    found: &mut Findings,
) -> CostRule {
    let Some(At { value, span }) = &decl.cost else {
        return CostRule::default();
    };
    let rule = match value {
        CostDecl::Rule(rule) => rule.clone(),
        CostDecl::Kinds { kinds, otherwise } => {
            let typed: Vec<_> = kinds.iter().map(|(typed, _)| typed.clone()).collect();
            check_routes_exist(&typed, routes, found);
            let matchers = typed.into_iter().map(|typed| typed.matcher).enumerate();
            CostRule::Matched(MatchedCost {
                index: Index::new(Width::Wide, matchers),
                costs: kinds.iter().map(|(_, cost)| *cost).collect(),
                otherwise: *otherwise,
            })
        }
    };
    check(value, *span, amounts, found);
    if matches!(rule, CostRule::Request(_)) && file.clients.trusted.is_empty() {
        found
            .warn(*span, "nobody is trusted to say what a request costs")
            .help("only a proxy in `trusted_proxies` is believed: every request costs what stands after `else`");
    }
    rule
}

/// Every cost that the limit may charge on entry, with where it stands.
fn on_entry(decl: &CostDecl, whole: Span) -> Vec<(Cost, Span)> {
    match decl {
        CostDecl::Rule(CostRule::Fixed(cost)) => vec![(*cost, whole)],
        CostDecl::Rule(CostRule::Request(request)) => vec![(request.otherwise, whole)],
        CostDecl::Rule(CostRule::Answer(answer)) => vec![(answer.most, whole)],
        CostDecl::Rule(CostRule::Matched(_)) => Vec::new(),
        CostDecl::Kinds { kinds, otherwise } => {
            let kinds = kinds.iter().map(|(typed, cost)| (*cost, typed.span));
            kinds.chain([(*otherwise, whole)]).collect()
        }
    }
}

/// A cost above what an amount holds can never pass.
fn check(decl: &CostDecl, whole: Span, amounts: &[Amount], found: &mut Findings) {
    for (cost, span) in on_entry(decl, whole) {
        if let Some(amount) = amounts.iter().find(|amount| never(&amount.meter, cost)) {
            found
                .error(
                    span,
                    format!("what costs {} never passes `{}`", cost.get(), amount.words),
                )
                .help("lower the cost, or allow more at once");
        }
    }
    if let CostDecl::Rule(CostRule::Request(request)) = decl
        && let Some(amount) = amounts
            .iter()
            .find(|amount| never(&amount.meter, request.most))
        && !never(&amount.meter, request.otherwise)
    {
        found
            .warn(
                whole,
                format!(
                    "what costs {} never passes `{}`",
                    request.most.get(),
                    amount.words
                ),
            )
            .help("a request that costs as much is answered 429 without Retry-After");
    }
}

fn never(meter: &Meter, cost: Cost) -> bool {
    let fresh = (meter.kind().fresh)();
    let verdict = meter.judge().judge(&fresh, Timestamp::from_micros(0), cost);
    verdict == Verdict::Reject(Retry::Never)
}
