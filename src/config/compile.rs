//! From what was typed to what it means: every name resolved, every check made, every error noted.

mod calendars;
mod choice;
mod costs;
mod limits;
mod meters;
mod overrides;
mod queues;
mod routes;
mod slots;
mod then;

pub(super) use meters::Plan;

use std::collections::HashMap;

use super::decode::At;
use super::explain::Meaning;
use super::file::File;
use super::matcher::Typed;
use super::nearest::nearest;
use super::report::Findings;
use crate::policy::{Policy, StoreSpec};
use crate::route::{Index, Matcher, PathRules, Width};

/// Compiles a file. What comes back holds only if nothing was found to be wrong.
pub(super) fn compile(file: &File, found: &mut Findings) -> (Policy, Meaning) {
    let upstreams = routes::upstreams(file, found);
    let routes = routes::routes(file, &upstreams, found);
    let limits = limits::limits(file, &routes, found);
    check_routes_exist(&file.skip, &routes, found);
    if let Some(plan) = &file.plan
        && file.limits.iter().all(|limit| limit.plans.is_none())
    {
        found
            .warn(plan.span, "no limit has `plans`, so nobody asks for a plan")
            .help("as `plans: {free: 100 per minute, pro: 1000 per minute}` in a limit");
    }
    if matches!(file.store, StoreSpec::Redis(_))
        && file.secret.is_none()
        && limits.hash_credentials()
    {
        let note = "there is no `secret`: the gateways share a random one through the store, and whoever reads the \
                    store can then test guesses of what clients send";
        let help = "set `secret: ${SLUICE_SECRET}`, the same on every gateway";
        match file.store_span {
            Some(span) => found.warn(span, note).help(help),
            None => found.warn_overall(note).help(help),
        };
    }
    let skip = file
        .skip
        .iter()
        .map(|typed| (0, exact(&typed.matcher, file.paths)));
    let policy = Policy {
        listen: file.listen.clone(),
        admin: file.admin,
        workers: file.workers,
        store: file.store.clone(),
        secret: file.secret.clone(),
        clients: file.clients.clone(),
        upstreams: upstreams.specs,
        route_index: Index::new(Width::Exact, routes.matchers),
        routes: routes.routes,
        skip: Index::new(Width::Exact, skip),
        body_index: limits.body_index(),
        limit_index: Index::new(Width::Wide, limits.matchers),
        limits: limits.limits,
        mode: file.mode,
        paths: file.paths,
        headers: file.headers,
        cors: file.cors.clone(),
        drain: file.drain,
        access_log: file.access_log.clone(),
    };
    let meaning = Meaning {
        routes: routes.words,
        skip: words(&file.skip),
        limits: limits.words,
    };
    (policy, meaning)
}

/// A matcher for requests whose path was read under `rules`.
fn exact(matcher: &Matcher, rules: PathRules) -> Matcher {
    Matcher {
        paths: matcher
            .paths
            .iter()
            .map(|path| path.under(&rules))
            .collect(),
        ..matcher.clone()
    }
}

/// Matchers in words.
fn words(matchers: &[Typed]) -> String {
    matchers
        .iter()
        .map(|typed| typed.words.as_str())
        .collect::<Vec<_>>()
        .join(" or ")
}

/// The longest name.
const NAME: usize = 32;

/// Notes a name that is malformed, or that another one has already, ignoring case.
fn check_name(
    what: &str,
    name: &At<String>,
    seen: &mut HashMap<String, super::report::Span>,
    found: &mut Findings,
) {
    let text = &name.value;
    let start = text.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let rest = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    if !start || text.len() > NAME || !text.chars().all(rest) {
        found
            .error(name.span, format!("`{text}` is not a name for {what}"))
            .help(format!(
                "at most {NAME} of a-z, 0-9, `-` and `_`, beginning with a letter or digit"
            ));
    }
    match seen.get(&text.to_lowercase()) {
        Some(first) => {
            found
                .error(name.span, format!("`{text}` is the name of {what} already"))
                .also(*first, "first here")
                .help("names are unique, ignoring case");
        }
        None => {
            seen.insert(text.to_lowercase(), name.span);
        }
    }
}

/// Notes every `route NAME` of a name that no route has.
fn check_routes_exist(matchers: &[Typed], routes: &routes::Routes, found: &mut Findings) {
    for typed in matchers {
        for name in &typed.matcher.routes {
            if !routes.routes.iter().any(|route| route.name == *name) {
                let known = routes.routes.iter().map(|route| &*route.name);
                found
                    .error(typed.span, format!("no route is called `{name}`"))
                    .meant(nearest(name, known));
            }
        }
    }
}
