//! What a file means, in plain words: for `sluice check`.

mod amounts;
mod outage;

pub(super) use amounts::{at_once, calendar, sentence, then};

use std::fmt::Write as _;

use hyper::header::LOCATION;

use super::units::short;
use crate::limit::key::IfMissing;
use crate::policy::{
    Choice, Cors, Credentials, HeaderFields, HostRule, LegacyReset, Limit, LimitMode, Mode,
    Origins, Policy, Preflight, RateLimitDialect, RedisAddress, Reply, ReplyBody, StoreSpec,
};

/// What a policy no longer knows: how its matchers were written.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Meaning {
    /// What each route matches.
    pub(super) routes: Vec<String>,
    /// What is never limited; empty: nothing.
    pub(super) skip: String,
    pub(super) limits: Vec<LimitWords>,
}

/// The words of one limit.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct LimitWords {
    /// Empty: every request.
    pub(super) when: String,
    /// Empty: none.
    pub(super) except: String,
    /// A sentence for each amount of `allow`.
    pub(super) amounts: Vec<String>,
    /// What each plan gets.
    pub(super) plans: Vec<String>,
    /// The answers that count; none: every request.
    pub(super) count: Option<String>,
    /// What a request costs; none: 1.
    pub(super) cost: Option<String>,
    /// The amount that is tried.
    pub(super) candidate: Option<String>,
    /// What going over it leads to.
    pub(super) then: Option<String>,
}

/// The whole file.
pub(super) fn explain(policy: &Policy, meaning: &Meaning) -> String {
    let mut out = String::new();
    let listen: Vec<String> = policy.listen.iter().map(ToString::to_string).collect();
    line(
        &mut out,
        &format!(
            "listens on {}; operators on {}",
            listen.join(", "),
            policy.admin
        ),
    );
    line(&mut out, &store(&policy.store));
    if policy.clients.trusted.is_empty() {
        line(
            &mut out,
            "a client is the other end of the connection; no proxy is trusted to name it",
        );
    } else {
        let trusted: Vec<String> = policy
            .clients
            .trusted
            .iter()
            .map(ToString::to_string)
            .collect();
        line(
            &mut out,
            &format!(
                "a client is whom a proxy in {} names, else the other end",
                trusted.join(", ")
            ),
        );
    }
    line(
        &mut out,
        &format!("an IPv6 client is its /{}", policy.clients.ipv6_prefix),
    );
    routes(&mut out, policy, meaning);
    if !meaning.skip.is_empty() {
        line(&mut out, &format!("never limited: {}", meaning.skip));
    }
    headers(&mut out, policy.headers);
    if let Some(cors) = &policy.cors {
        line(&mut out, &pages(cors));
    }
    line(&mut out, "");
    line(&mut out, &limits_heading(policy));
    for (limit, words) in policy.limits.iter().zip(&meaning.limits) {
        describe(&mut out, limit, words, policy);
    }
    out
}

/// What differs from the fields that every client gets.
fn headers(out: &mut String, headers: HeaderFields) {
    if headers.ratelimit == RateLimitDialect::Off {
        line(out, "clients are sent no RateLimit fields");
    }
    match headers.legacy {
        LegacyReset::Off => {}
        LegacyReset::Delta => line(
            out,
            "clients are sent the X-RateLimit fields too, the reset in seconds from now; an upstream's own are removed",
        ),
        LegacyReset::Epoch => line(
            out,
            "clients are sent the X-RateLimit fields too, the reset in seconds since 1970; an upstream's own are removed",
        ),
    }
    if !headers.retry_jitter.is_zero() {
        line(
            out,
            &format!(
                "a rejected client is told to wait up to {} longer than it must",
                short(headers.retry_jitter)
            ),
        );
    }
}

fn pages(cors: &Cors) -> String {
    let origins = match &cors.origins {
        Origins::Any => "every origin".to_owned(),
        Origins::Listed(listed) => {
            let texts = listed
                .iter()
                .map(|one| String::from_utf8_lossy(one.as_bytes()));
            texts.collect::<Vec<_>>().join(", ")
        }
    };
    let credentials = match cors.credentials {
        Credentials::Omit => "",
        Credentials::Include => ", also to requests with credentials",
    };
    format!("pages of {origins} may read what sluice answers by itself{credentials}")
}

fn routes(out: &mut String, policy: &Policy, meaning: &Meaning) {
    line(out, "");
    line(out, "routes, of which the first match wins:");
    for (route, words) in policy.routes.iter().zip(&meaning.routes) {
        if let Some(upstream) = policy.upstreams.get(route.upstream) {
            let servers: Vec<String> = upstream
                .servers
                .iter()
                .map(|server| format!("{}:{}", server.host, server.port))
                .collect();
            let host = match &upstream.host {
                HostRule::Keep => String::new(),
                HostRule::Upstream => ", as its own host".to_owned(),
                HostRule::Fixed(host) => format!(", as host {host}"),
            };
            line(
                out,
                &format!(
                    "  {words} -> {} ({}{host})",
                    upstream.name,
                    servers.join(", ")
                ),
            );
        }
    }
}

fn limits_heading(policy: &Policy) -> String {
    match (policy.limits.is_empty(), policy.mode) {
        (true, _) => "no limits: every request passes".to_owned(),
        (false, Mode::Enforce) => {
            "limits, all of which hold for a request that matches:".to_owned()
        }
        (false, Mode::Shadow) => {
            "limits, all in shadow: they count and report, and reject nothing:".to_owned()
        }
    }
}

fn describe(out: &mut String, limit: &Limit, words: &LimitWords, policy: &Policy) {
    let when = if words.when.is_empty() {
        "every request"
    } else {
        &words.when
    };
    let except = if words.except.is_empty() {
        String::new()
    } else {
        format!(", except {}", words.except)
    };
    let shadow = match limit.mode {
        LimitMode::Enforce => "",
        LimitMode::Shadow => " (shadow: never rejects)",
        LimitMode::Tag => " (tag: never rejects, tells the upstream)",
    };
    line(
        out,
        &format!(
            "  {}{shadow}: {when}{except}, per {}",
            limit.name, limit.per_words
        ),
    );
    for sentence in &words.amounts {
        line(out, &format!("    {sentence}"));
    }
    if let Some(choice) = &limit.choice {
        chosen(out, choice, &words.plans);
    }
    key(out, limit);
    let count = words.count.as_ref();
    let tried = words.candidate.as_ref();
    let said = [
        count.map(|answers| format!("counts only what is answered {answers}")),
        words.cost.clone(),
        reply(&limit.reply),
        words.then.clone(),
        tried.map(|amount| format!("tries, and never enforces: {amount}")),
    ];
    for sentence in said.iter().flatten() {
        line(out, &format!("    {sentence}"));
    }
    if limit.preflight == Preflight::Free {
        line(out, "    CORS preflights are free of it");
    }
    if let StoreSpec::Redis(store) = &policy.store {
        let outage = outage::outage(limit, store);
        line(out, &format!("    while the store is away: {outage}"));
    }
}

/// What becomes of a request by its key, or by the lack of one.
fn key(out: &mut String, limit: &Limit) {
    let missing = match limit.per.if_missing {
        IfMissing::Ip => None,
        IfMissing::Skip => Some("a request without the key is not limited"),
        IfMissing::Share => Some("requests without the key share one counter"),
        IfMissing::Reject => Some("a request without the key is answered 400"),
    };
    if let Some(missing) = missing {
        line(out, &format!("    {missing}"));
    }
    if limit.counts_by_body() {
        line(
            out,
            "    waits for the first 16 KiB of the body, where its key is",
        );
    }
}

/// Who gets something else than the others. Overrides are counted, for there may be thousands.
fn chosen(out: &mut String, choice: &Choice, plans: &[String]) {
    if let Some(from) = choice.plans.as_ref().map(|plans| &plans.from_words) {
        line(
            out,
            &format!("    but by plan, which {from} names, if it is one of these:"),
        );
        for plan in plans {
            line(out, &format!("      {plan}"));
        }
    }
    let (own, skipped) = choice.overrides.count();
    match own {
        0 => {}
        1 => line(out, "    but 1 key has an amount of its own"),
        own => line(
            out,
            &format!("    but {own} keys have amounts of their own"),
        ),
    }
    match skipped {
        0 => {}
        1 => line(out, "    but 1 key is not counted"),
        skipped => line(out, &format!("    but {skipped} keys are not counted")),
    }
}

/// What a limit answers; none: what every limit does that does not say.
fn reply(reply: &Reply) -> Option<String> {
    if *reply == Reply::default() {
        return None;
    }
    let status = reply.status.as_u16();
    let location = reply.fields.iter().find(|(name, _)| *name == LOCATION);
    if let Some((_, location)) = location {
        let to = String::from_utf8_lossy(location.as_bytes());
        return Some(format!("sends a rejected client to {to} ({status})"));
    }
    let body = match &reply.body {
        ReplyBody::Problem => "a problem".to_owned(),
        ReplyBody::Empty => "no body".to_owned(),
        ReplyBody::Own { content_type, .. } => {
            format!(
                "a {} of its own",
                String::from_utf8_lossy(content_type.as_bytes())
            )
        }
    };
    Some(format!("answers a rejected request {status}, with {body}"))
}

fn store(store: &StoreSpec) -> String {
    match store {
        StoreSpec::Memory { max_keys } => {
            format!("counts in this process, at most {max_keys} keys")
        }
        StoreSpec::Redis(redis) => {
            let database = match redis.address {
                RedisAddress::Cluster(_) => String::new(),
                RedisAddress::Tcp { .. } | RedisAddress::Unix(_) | RedisAddress::Sentinel(_) => {
                    format!(", database {}", redis.database)
                }
            };
            format!(
                "counts in Redis {}{}{database}, keys {}:..., waiting at most {}",
                place(&redis.address),
                if redis.tls.is_some() { " with TLS" } else { "" },
                redis.prefix,
                short(redis.deadline)
            )
        }
    }
}

fn place(address: &RedisAddress) -> String {
    match address {
        RedisAddress::Tcp { host, port } => format!("at {host}:{port}"),
        RedisAddress::Unix(path) => format!("at {}", path.display()),
        RedisAddress::Cluster(nodes) => {
            let nodes: Vec<_> = nodes.iter().map(ToString::to_string).collect();
            format!("in the cluster of {}", nodes.join(", "))
        }
        RedisAddress::Sentinel(sentinels) => {
            let nodes: Vec<_> = sentinels
                .nodes
                .iter()
                .map(|node| format!("{}:{}", node.host, node.port))
                .collect();
            format!(
                "at the master `{}` of the sentinels {}",
                sentinels.master,
                nodes.join(", ")
            )
        }
    }
}

fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _written = writeln!(out, "{text}");
}
