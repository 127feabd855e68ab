//! Limits.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::decode::At;
use super::super::explain::LimitWords;
use super::super::file::{File, LimitDecl};
use super::super::key::Per;
use super::super::matcher::Typed;
use super::super::nearest::nearest;
use super::super::report::{Findings, Span};
use super::choice::{self, Allowed};
use super::routes::{Routes, captures};
use super::{check_name, check_routes_exist, costs, exact, queues, then, words};
use crate::limit::key::Source;
use crate::limit::{KeySpec, Meter};
use crate::policy::{Amount, Count, Limit, Preflight};
use crate::route::{Index, Matcher, PathPattern, Width};

/// Limits, with what they apply to.
#[derive(Default)]
pub(super) struct Limits {
    pub(super) limits: Vec<Limit>,
    /// Pairs of a limit's number and a matcher.
    pub(super) matchers: Vec<(usize, Matcher)>,
    pub(super) words: Vec<LimitWords>,
}

impl Limits {
    /// The limits whose key is in the body.
    pub(super) fn body_index(&self) -> Index {
        let by_body = |number: usize| self.limits.get(number).is_some_and(Limit::counts_by_body);
        let matchers = self.matchers.iter().filter(|(number, _)| by_body(*number));
        Index::new(Width::Wide, matchers.cloned())
    }

    /// Whether a key holds what only its client should know.
    pub(super) fn hash_credentials(&self) -> bool {
        let sources = self
            .limits
            .iter()
            .flat_map(|limit| limit.per.parts.iter().flatten());
        sources.into_iter().any(|source| {
            matches!(
                source,
                Source::Header(_)
                    | Source::TrustedHeader(_)
                    | Source::Cookie(_)
                    | Source::Query(_)
                    | Source::Param(_)
                    | Source::Body(_)
            )
        })
    }
}

pub(super) fn limits(file: &File, routes: &Routes, found: &mut Findings) -> Limits {
    let mut all = Limits::default();
    let mut names = HashMap::new();
    let mut shown = HashMap::new();
    for decl in &file.limits {
        check_name("a limit", &decl.name, &mut names, found);
        check_routes_exist(&decl.when, routes, found);
        check_routes_exist(&decl.except, routes, found);
        if let Some(per) = &decl.per {
            let sources: Vec<&Source> = per.value.parts.iter().flatten().collect();
            check_captures(decl, &sources, per.span, file, found);
            check_body(decl, per, found);
        }
        let from = decl.plans.as_ref().map(|plans| plans.from.as_ref());
        if let Some(from) = from.and_then(|from| from.or(file.plan.as_ref())) {
            let sources: Vec<&Source> = from.value.sources.iter().collect();
            check_captures(decl, &sources, from.span, file, found);
        }
        let Some((limit, words)) = limit(decl, file, routes, found) else {
            continue;
        };
        for amount in limit.windows() {
            check_shown(&amount.shown_as, decl, &mut shown, found);
        }
        let number = all.limits.len();
        all.limits.push(limit);
        all.words.push(words);
        if decl.when.is_empty() {
            all.matchers.push((number, Matcher::default()));
        }
        all.matchers.extend(
            decl.when
                .iter()
                .map(|typed| (number, typed.matcher.clone())),
        );
    }
    queues::check(file, found);
    all
}

/// Clients tell limits apart by the names that they see.
fn check_shown(
    name: &Arc<str>,
    decl: &LimitDecl,
    shown: &mut HashMap<Arc<str>, Span>,
    found: &mut Findings,
) {
    match shown.get(name) {
        Some(first) if *first != decl.name.span => {
            found
                .error(
                    decl.name.span,
                    format!("clients would see two limits as `{name}`"),
                )
                .also(*first, "the other")
                .help("a limit of several windows is shown as `NAME-1s`; rename one of the two");
        }
        Some(_) => {}
        None => {
            shown.insert(Arc::clone(name), decl.name.span);
        }
    }
}

/// A `param` that nothing captures would never be there.
fn check_captures(
    decl: &LimitDecl,
    sources: &[&Source],
    span: Span,
    file: &File,
    found: &mut Findings,
) {
    let own = decl
        .when
        .iter()
        .flat_map(|typed| &typed.matcher.paths)
        .flat_map(PathPattern::params);
    let known: Vec<&str> = own.chain(captures(file)).collect();
    for source in sources {
        if let Source::Param(name) = source
            && !known.contains(&&**name)
        {
            found
                .error(span, format!("no path captures `{name}`"))
                .help(format!(
                    "write `{{{name}}}` in a path of `when` or of a route"
                ))
                .meant(nearest(name, known.iter().copied()));
        }
    }
}

/// Requests wait for their body where its key is in it, so a limit says which.
fn check_body(decl: &LimitDecl, per: &At<Per>, found: &mut Findings) {
    let mut sources = per.value.parts.iter().flatten();
    let Some(Source::Body(field)) = sources.find(|source| matches!(source, Source::Body(_))) else {
        return;
    };
    let named = |typed: &Typed| !typed.methods.is_empty() && !typed.matcher.paths.is_empty();
    if decl.when.is_empty() || !decl.when.iter().all(named) {
        found
            .error(
                per.span,
                format!(
                    "`body {}` needs a `when` that names method and path",
                    field.name()
                ),
            )
            .help("as `when: POST /login`: only such requests wait until their body is read");
    }
}

/// What preflights are where the limit does not say: only by address, or all together, they can be told whose they are.
fn preflight(per: &Per) -> Preflight {
    let counts = |source: &Source| matches!(source, Source::Ip { .. } | Source::Everyone);
    if per.parts.iter().flatten().all(counts) {
        Preflight::Count
    } else {
        Preflight::Free
    }
}

fn limit(
    decl: &LimitDecl,
    file: &File,
    routes: &Routes,
    found: &mut Findings,
) -> Option<(Limit, LimitWords)> {
    let Allowed {
        amounts,
        choice,
        sentences,
        plans,
    } = choice::allowed(decl, file, routes, found)?;
    warn_of_burst(decl, &amounts, found);
    let cost = costs::cost(decl, &amounts, file, routes, found);
    let then = then::block(decl, &amounts, &cost, found).unzip();
    let candidate = then::candidate(decl, file, routes, found).unzip();
    let per = &decl.per.as_ref()?.value;
    let except = decl
        .except
        .iter()
        .map(|typed| (0, exact(&typed.matcher, file.paths)));
    let limit = Limit {
        name: Arc::from(decl.name.value.as_str()),
        except: Index::new(Width::Exact, except),
        per: KeySpec {
            parts: per.parts.clone(),
            if_missing: decl.if_missing,
            fallback: Source::Ip {
                v4: 32,
                v6: file.clients.ipv6_prefix,
            },
        },
        per_words: Arc::from(per.words.as_str()),
        cost,
        amounts,
        choice,
        count: decl
            .count
            .as_ref()
            .map_or(Count::Every, |count| count.value.0.clone()),
        mode: decl.mode,
        candidate: candidate.0,
        then: then.0,
        preflight: decl.preflight.unwrap_or_else(|| preflight(per)),
        if_down: decl.if_down.unwrap_or(file.store_if_down),
        reply: decl.reply.clone(),
    };
    let words = LimitWords {
        when: words(&decl.when),
        except: words(&decl.except),
        amounts: sentences,
        plans,
        count: decl.count.as_ref().map(|count| count.value.1.clone()),
        cost: decl.cost.as_ref().and_then(|cost| cost.value.words()),
        candidate: candidate.1,
        then: then.1,
    };
    Some((limit, words))
}

/// A bucket drains while the answer is on its way, and what has drained is not given back a second time.
fn warn_of_burst(decl: &LimitDecl, amounts: &[Amount], found: &mut Findings) {
    let count = decl.count.as_ref().map(|count| count.span);
    let cost = decl.cost.as_ref().filter(|cost| cost.value.is_of_answer());
    let Some(span) = count.or(cost.map(|cost| cost.span)) else {
        return;
    };
    let is_bucket = |amount: &Amount| matches!(amount.meter, Meter::Bucket(_));
    if amounts.iter().any(is_bucket) {
        found
            .warn(span, "a bucket gives back less the later the answer comes")
            .help("a window gives back in full: leave out `burst`, or the bucket's `algorithm`");
    }
}
