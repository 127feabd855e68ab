//! What does not belong to `N concurrent`: how rates are counted, and which answers count.

use super::super::decode::Fields;
use super::super::report::Findings;
use super::super::units::Within;
use super::cost::CostDecl;
use super::limits::LimitDecl;
use crate::policy::CostRule;

/// Fields that say how a rate is counted.
const OF_RATES: [&str; 4] = ["algorithm", "queue", "max_wait", "refill"];

/// Notes what does not go with `N concurrent`, and takes out what `defaults` says for rates where the limit has none.
pub(super) fn check(decl: &mut LimitDecl, own: &Fields<'_>, found: &mut Findings) {
    let (mut any, mut alone) = (false, true);
    for rate in decl.rates() {
        let is_slots = rate.value.within == Within::Concurrent;
        any |= is_slots;
        alone &= is_slots;
    }
    if !any {
        return;
    }
    if alone {
        for name in OF_RATES {
            if let Some(node) = own.get(name) {
                found
                    .error(
                        node.span,
                        format!("`{name}` says how a rate is counted, and this limit has none"),
                    )
                    .help("remove it, or add a rate to `allow`");
            }
        }
        decl.algorithm = None;
        decl.queue = None;
        decl.max_wait = None;
        decl.refill = None;
    }
    if alone && own.get("count").is_none() {
        decl.count = None;
    }
    if alone && own.get("cost").is_none() {
        decl.cost.take_if(|cost| is_answered(&cost.value));
    }
    let cost = decl.cost.as_ref().filter(|cost| is_answered(&cost.value));
    let said = [
        (decl.count.as_ref().map(|count| count.span), "`count`"),
        (cost.map(|cost| cost.span), "a cost from the answer"),
    ];
    for (span, what) in said {
        if let Some(span) = span {
            found
                .error(span, format!("{what} does not go with `concurrent`"))
                .help("a slot is held until the answer has ended, whatever it says: make a limit of its own of it");
        }
    }
}

/// Whether only the answer says it.
fn is_answered(cost: &CostDecl) -> bool {
    matches!(cost, CostDecl::Rule(CostRule::Answer(_)))
}
