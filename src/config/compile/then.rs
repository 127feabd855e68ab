//! What follows when a limit is gone over, and what is tried beside it.

use std::sync::Arc;

use super::super::explain;
use super::super::file::{Allow, File, LimitDecl};
use super::super::report::Findings;
use super::super::units;
use super::meters;
use super::routes::Routes;
use crate::limit::algorithm::{Block, InvalidMeter};
use crate::policy::{Amount, Begins, CostRule, Count, Then};
use crate::time::Micros;

/// The block of a limit over these amounts, with what it means in words.
pub(super) fn block(
    decl: &LimitDecl,
    amounts: &[Amount],
    cost: &CostRule,
    found: &mut Findings,
) -> Option<(Then, String)> {
    let typed = decl.then.as_ref()?;
    let Some(first) = amounts.first() else {
        found
            .error(
                typed.span,
                "nobody goes over a limit that is unlimited for everybody",
            )
            .help("give it an amount, or remove `then`");
        return None;
    };
    let every = Count::Every;
    let count = decl.count.as_ref().map_or(&every, |count| &count.value.0);
    let begins = Begins::of(count, cost);
    let (count, within) = match (begins, typed.value.after) {
        (Begins::Answers, Some(_)) => {
            found
                .error(typed.span, "the answers begin this block, not rejections")
                .help("it begins when what stays charged reaches the amount: leave out `after`");
            return None;
        }
        (Begins::Answers, None) if amounts.iter().any(|amount| amount.code != first.code) => {
            found
                .error(
                    typed.span,
                    "a limit that blocks for its answers has one amount",
                )
                .help("make two limits of it");
            return None;
        }
        (Begins::Answers, None) => (first.meter.amount(), first.meter.window()),
        (Begins::Rejections, Some((count, within))) => (count, Micros::from(within)),
        (Begins::Rejections, None) => (1, Micros::SECOND),
    };
    match Block::new(Micros::from(typed.value.length), count, within) {
        Ok(block) => {
            let then = Then {
                block,
                begins,
                words: Arc::from(units::span_in_words(typed.value.length)),
            };
            let sentence = explain::then(&then, typed.value.after);
            Some((then, sentence))
        }
        Err(InvalidMeter(why)) => {
            found.error(typed.span, why);
            None
        }
    }
}

/// The amount that is tried beside those of `allow`, with what it means in words. Its code is marked, so that it never
/// meets the counter of one of those.
pub(super) fn candidate(
    decl: &LimitDecl,
    file: &File,
    routes: &Routes,
    found: &mut Findings,
) -> Option<(Amount, String)> {
    let tried = decl.candidate.as_ref()?;
    let mut rates = decl.allow.as_ref().map_or(&[][..], Allow::rates).to_vec();
    rates.push(tried.clone());
    // What is wrong with the limit itself was noted with its amounts; what is wrong now is the candidate.
    let plan = meters::plan(decl, &rates, file, routes, &mut Findings::default())
        .or_else(|| meters::plan(decl, std::slice::from_ref(tried), file, routes, found))?;
    match meters::amount(&plan, decl, &tried.value, 1) {
        Ok((amount, sentence)) => {
            let code = Arc::from(format!("candidate-{}", amount.code));
            Some((Amount { code, ..amount }, sentence))
        }
        Err(InvalidMeter(why)) => {
            found.error(tried.span, why);
            None
        }
    }
}

#[cfg(test)]
mod tests;
