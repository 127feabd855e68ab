//! Upstreams and routes.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::decode::At;
use super::super::file::{File, RouteDecl};
use super::super::nearest::nearest;
use super::super::report::{Findings, Span};
use super::{check_name, exact, words};
use crate::policy::{Route, UpstreamSpec, UpstreamTimeouts};
use crate::route::{Matcher, PathPattern};

/// Upstreams, by number.
pub(super) struct Upstreams {
    pub(super) specs: Vec<Arc<UpstreamSpec>>,
}

/// Routes, with what leads to them.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) routes: Vec<Route>,
    /// Pairs of a route's number and a matcher.
    pub(super) matchers: Vec<(usize, Matcher)>,
    /// For each route, what it matches.
    pub(super) words: Vec<String>,
}

pub(super) fn upstreams(file: &File, found: &mut Findings) -> Upstreams {
    let mut seen = HashMap::new();
    let specs = file.upstreams.iter().map(|decl| {
        check_name("an upstream", &decl.name, &mut seen, found);
        Arc::new(UpstreamSpec {
            name: Arc::from(decl.name.value.as_str()),
            servers: decl.servers.clone(),
            host: decl.host.clone(),
            timeouts: decl.timeouts.over(UpstreamTimeouts::default()),
        })
    });
    Upstreams {
        specs: specs.collect(),
    }
}

pub(super) fn routes(file: &File, upstreams: &Upstreams, found: &mut Findings) -> Routes {
    let Some(decls) = &file.routes else {
        return everything(file, upstreams, found);
    };
    let mut all = Routes::default();
    let mut seen = HashMap::new();
    let mut catch_all: Option<Span> = None;
    if decls.is_empty() {
        found.error_overall("`routes` is empty: every request would be answered 404");
    }
    for decl in decls {
        // A route that leads nowhere is still a route, for those who name it.
        let target = target(decl, upstreams, found);
        let (upstream, served) =
            target.map_or_else(Default::default, |(number, spec)| (number, spec.timeouts));
        if let Some(first) = catch_all {
            found
                .warn(
                    decl.span,
                    "no request reaches this route: the first match wins",
                )
                .also(first, "this one takes every request");
        }
        if decl.matchers.iter().any(|typed| typed.words == "/**") {
            catch_all = catch_all.or(Some(decl.span));
        }
        let number = all.routes.len();
        let timeouts = decl.timeouts.over(served);
        all.routes.push(Route {
            name: name(decl, &mut seen, found),
            upstream,
            timeouts,
        });
        all.words.push(words(&decl.matchers));
        all.matchers.extend(
            decl.matchers
                .iter()
                .map(|typed| (number, exact(&typed.matcher, file.paths))),
        );
    }
    for (number, decl) in file.upstreams.iter().enumerate() {
        if !decls.is_empty() && !all.routes.iter().any(|route| route.upstream == number) {
            let told = decls
                .iter()
                .filter_map(|route| route.to.as_ref())
                .any(|to| to.value == decl.name.value);
            if !told {
                found.warn(
                    decl.name.span,
                    format!("no route leads to `{}`", decl.name.value),
                );
            }
        }
    }
    all
}

/// Where a route leads.
fn target<'u>(
    decl: &RouteDecl,
    upstreams: &'u Upstreams,
    found: &mut Findings,
) -> Option<(usize, &'u Arc<UpstreamSpec>)> {
    let to = decl.to.as_ref()?;
    let target = upstreams
        .specs
        .iter()
        .enumerate()
        .find(|(_, spec)| *spec.name == *to.value);
    if target.is_none() {
        let known = upstreams.specs.iter().map(|spec| &*spec.name);
        let problem = found.error(
            to.span,
            format!(
                "no upstream is called `{}`",
                super::super::mask::shown(&to.value)
            ),
        );
        if to.value.contains("://") {
            problem.help("name the server under `upstreams`, and that name here");
        }
        problem.meant(nearest(&to.value, known));
    }
    target
}

/// The route's name, else the text of its `match`; unique in either case.
fn name(decl: &RouteDecl, seen: &mut HashMap<String, Span>, found: &mut Findings) -> Arc<str> {
    if let Some(name) = &decl.name {
        check_name("a route", name, seen, found);
        return Arc::from(name.value.as_str());
    }
    let text = decl
        .matchers
        .iter()
        .map(|typed| typed.words.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let span = decl.matchers.first().map_or(decl.span, |typed| typed.span);
    match seen.get(&text) {
        Some(first) => {
            found
                .error(span, format!("two routes match `{text}`"))
                .also(*first, "first here")
                .help("the first match wins: remove one, or give it a `name`");
        }
        None => {
            seen.insert(text.clone(), span);
        }
    }
    Arc::from(text)
}

/// The routes of a file that names none: one for everything, where there is one upstream.
fn everything(file: &File, upstreams: &Upstreams, found: &mut Findings) -> Routes {
    let [spec] = upstreams.specs.as_slice() else {
        if let Some(decl) = file.upstreams.first() {
            found
                .error(
                    decl.name.span,
                    "there are several upstreams and no `routes`: which requests go where?",
                )
                .help("add `routes: [{match: /**, to: NAME}]`");
        }
        return Routes::default();
    };
    let matcher = match PathPattern::parse("/**") {
        Ok(all) => Matcher {
            paths: vec![all.under(&file.paths)],
            ..Matcher::default()
        },
        Err(_) => Matcher::default(),
    };
    let route = Route {
        name: Arc::from("/**"),
        upstream: 0,
        timeouts: spec.timeouts,
    };
    Routes {
        routes: vec![route],
        matchers: vec![(0, matcher)],
        words: vec!["/**".into()],
    }
}

/// The name of a captured parameter that some route has.
pub(super) fn captures(file: &File) -> Vec<&str> {
    let matchers = file
        .routes
        .iter()
        .flatten()
        .flat_map(|route| &route.matchers);
    matchers
        .flat_map(|typed| &typed.matcher.paths)
        .flat_map(PathPattern::params)
        .collect()
}

/// The shortest time that a route waits for its answer, and where it was said.
pub(super) fn shortest_response(file: &File, routes: &Routes) -> Option<At<std::time::Duration>> {
    let span = file.upstreams.first().map(|decl| decl.name.span)?;
    let shortest = routes
        .routes
        .iter()
        .min_by_key(|route| route.timeouts.response)?;
    Some(At {
        value: shortest.timeouts.response,
        span,
    })
}
