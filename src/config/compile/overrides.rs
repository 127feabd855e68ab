//! The keys of `overrides`, in the spelling in which the keys of requests are read.

use std::collections::HashMap;
use std::net::IpAddr;

use hyper::Uri;
use hyper::header::AUTHORIZATION;
use ipnet::{IpNet, Ipv4Net};

use super::super::decode::At;
use super::super::file::{File, LimitDecl, OverrideDecl};
use super::super::nearest::nearest;
use super::super::report::{Findings, Span};
use super::super::units::{self, Wrong};
use super::choice::Amounts;
use super::routes::Routes;
use crate::limit::key::{Source, is_basic_login, method};
use crate::policy::{Grant, Overrides, Term, sha256};
use crate::request::fold_value;

/// What single keys get.
pub(super) fn overrides(
    decl: &LimitDecl,
    file: &File,
    routes: &Routes,
    amounts: &mut Amounts<'_>,
    found: &mut Findings,
) -> Option<Overrides> {
    let (per, overrides) = (&decl.per.as_ref()?.value, decl.overrides.as_ref()?);
    let first = overrides.first();
    if let Some(first) = first.filter(|_| per.parts.iter().flatten().all(is_everyone)) {
        found
            .error(
                first.span,
                "`everyone` has one key, so there is nothing to override",
            )
            .help("change `allow`");
        return None;
    }
    let keys = Keys {
        parts: &per.parts,
        file,
        routes,
    };
    let mut known: Vec<(Vec<Term>, Grant)> = Vec::new();
    let mut spans = Vec::new();
    let mut whole = true;
    for one in overrides {
        let terms = keys.spellings(one, found);
        let grant = match &one.allow {
            None => Some(Grant::Skip),
            Some(allow) => amounts
                .add(allow, found)
                .map(|(allowance, _)| Grant::Allow(allowance)),
        };
        match (terms, grant) {
            (Some(terms), Some(grant)) => {
                spans.extend(terms.iter().map(|_| one.span));
                known.extend(terms.into_iter().map(|terms| (terms, grant)));
            }
            _ => whole = false,
        }
    }
    whole &= check_twice(&known, &spans, found);
    warn_of_credentials(overrides, &per.parts, found);
    whole.then(|| Overrides::new(known))
}

fn is_everyone(source: &Source) -> bool {
    matches!(source, Source::Everyone)
}

/// A key that is given twice, be it once by its hash.
fn check_twice(known: &[(Vec<Term>, Grant)], spans: &[Span], found: &mut Findings) -> bool {
    let by_hash = known
        .iter()
        .any(|(terms, _)| terms.iter().any(|term| matches!(term, Term::Sha256(_))));
    let hashed = |term: &Term| match term {
        Term::Text(text) if by_hash => Term::Sha256(sha256(text)),
        term => term.clone(),
    };
    let mut first: HashMap<Vec<Term>, Span> = HashMap::new();
    let mut whole = true;
    for ((terms, _), span) in known.iter().zip(spans) {
        let key = terms.iter().map(hashed).collect();
        // Two spellings of one override may be the same.
        if let Some(first) = first.insert(key, *span).filter(|first| first != span) {
            found
                .error(*span, "this key is given twice")
                .also(first, "first here");
            whole = false;
        }
    }
    whole
}

/// A file is read by more people than should know what clients send.
fn warn_of_credentials(overrides: &[OverrideDecl], parts: &[Vec<Source>], found: &mut Findings) {
    let is_credential = |source: &Source| match source {
        Source::Header(name) | Source::TrustedHeader(name) => *name == AUTHORIZATION,
        _ => false,
    };
    let mut plain = overrides
        .iter()
        .flat_map(|one| one.key.iter().zip(parts))
        .filter(|(key, part)| {
            let basic = |text: &str| text.trim_start().to_ascii_lowercase().starts_with("basic ");
            part.iter().any(is_credential)
                && !key.value.starts_with("sha256:")
                && !basic(&key.value)
        });
    if let Some((key, _)) = plain.next() {
        found
            .warn(key.span, "a credential stands in this file")
            .help("write `sha256:` and the SHA-256 of the value, as of `bearer TOKEN`, the scheme in lower case");
    }
}

/// How the keys of a limit are read.
struct Keys<'f> {
    parts: &'f [Vec<Source>],
    file: &'f File,
    routes: &'f Routes,
}

impl Keys<'_> {
    /// Every key that is meant: one, unless a part has alternatives that spell the same text differently.
    fn spellings(&self, one: &OverrideDecl, found: &mut Findings) -> Option<Vec<Vec<Term>>> {
        let mut all = vec![Vec::new()];
        let mut whole = true;
        for (key, alternatives) in one.key.iter().zip(self.parts) {
            let Some(terms) = found.take(key.span, self.terms(key, alternatives)) else {
                whole = false;
                continue;
            };
            let longer = |begun: &Vec<Term>| -> Vec<Vec<Term>> {
                let with = |term: &Term| [begun.as_slice(), std::slice::from_ref(term)].concat();
                terms.iter().map(with).collect()
            };
            all = all.iter().flat_map(longer).collect();
        }
        whole.then_some(all)
    }

    fn terms(&self, key: &At<String>, alternatives: &[Source]) -> Result<Vec<Term>, Wrong> {
        let text = key.value.trim();
        let network = alternatives.iter().find_map(|source| match *source {
            Source::Ip { v4, v6 } => Some((v4, v6)),
            _ => None,
        });
        let is_address = text.parse::<IpAddr>().is_ok() || text.parse::<IpNet>().is_ok();
        if let Some((v4, v6)) = network.filter(|_| is_address || alternatives.len() == 1) {
            return Ok(vec![Term::Network(client_network(text, v4, v6)?)]);
        }
        if let Some(hex) = text.strip_prefix("sha256:") {
            return Ok(vec![Term::Sha256(digest(hex)?)]);
        }
        let mut terms = Vec::new();
        for source in alternatives {
            if matches!(source, Source::Ip { .. }) {
                continue;
            }
            let term = Term::Text(self.value(&key.value, source)?.into_bytes().into());
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        Ok(terms)
    }

    /// The text as a request's key is read from `source`.
    fn value(&self, typed: &str, source: &Source) -> Result<String, Wrong> {
        let text = typed.trim();
        Ok(match source {
            Source::Header(name) | Source::TrustedHeader(name) if *name == AUTHORIZATION => {
                credentials(text)?
            }
            Source::Header(_) | Source::TrustedHeader(_) | Source::Body(_) => text.to_owned(),
            Source::Cookie(_) | Source::Query(_) => typed.to_owned(),
            Source::Param(_) => fold_value(text).into_owned(),
            Source::Path => self.path(text)?,
            Source::Method => match method(text) {
                "other" if text != "other" => {
                    return Err(Wrong::new(format!("`{text}` is not a method"))
                        .help("all that are not known count as `other`"));
                }
                known => known.to_owned(),
            },
            Source::Host => text.trim_end_matches('.').to_ascii_lowercase(),
            Source::Route => {
                let mut names = self.routes.routes.iter().map(|route| &*route.name);
                if !names.clone().any(|name| name == text) {
                    return Err(Wrong::new(format!("no route is called `{text}`"))
                        .meant(nearest(text, names.by_ref())));
                }
                text.to_owned()
            }
            Source::Everyone | Source::Ip { .. } => text.to_owned(),
        })
    }

    /// A path in its wide reading.
    fn path(&self, text: &str) -> Result<String, Wrong> {
        let wrong = |why: &str| {
            Wrong::new(format!("`{text}` is not a path{why}"))
                .help("as `/api/users`; there is no `*`")
        };
        let uri: Uri = match text.parse() {
            Ok(uri) if text.starts_with('/') && !text.contains(['?', '*']) => uri,
            Ok(_) | Err(_) => return Err(wrong("")),
        };
        match self.file.paths.read(&uri) {
            Ok(target) => Ok(target.wide),
            Err(invalid) => Err(wrong(&format!(": {}", invalid.0))),
        }
    }
}

/// The network of an override, as wide as a client at least: a bare address means its client.
fn client_network(text: &str, v4: u8, v6: u8) -> Result<IpNet, Wrong> {
    const MAPPED: u8 = 96;
    if let Ok(address) = text.parse::<IpAddr>() {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { v4 } else { v6 };
        return match IpNet::new(address, bits) {
            Ok(net) => Ok(net.trunc()),
            Err(_) => units::cidr(text),
        };
    }
    let net = match units::cidr(text)? {
        IpNet::V6(net) if net.prefix_len() >= MAPPED => match net.addr().to_ipv4_mapped() {
            Some(address) => Ipv4Net::new(address, net.prefix_len().saturating_sub(MAPPED))
                .map_or(IpNet::V6(net), IpNet::V4),
            None => IpNet::V6(net),
        },
        net => net,
    };
    let bits = if net.addr().is_ipv4() { v4 } else { v6 };
    if net.prefix_len() > bits {
        return Err(Wrong::new(format!(
            "a client is its /{bits} here, and `{text}` is a part of one"
        ))
        .help(format!("write the client: `{}`", widened(net, bits))));
    }
    Ok(net)
}

fn widened(net: IpNet, bits: u8) -> IpNet {
    IpNet::new(net.addr(), bits).map_or(net, |net| net.trunc())
}

/// 64 hexadecimal digits.
fn digest(hex: &str) -> Result<[u8; 32], Wrong> {
    let wrong = || {
        Wrong::new("`sha256:` is followed by 64 hexadecimal digits")
            .help("as `printf %s VALUE | sha256sum` prints them")
    };
    if hex.len() != 64 || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut digest = [0; 32];
    for (byte, at) in digest.iter_mut().zip((0_usize..64).step_by(2)) {
        let digits = hex.get(at..at.saturating_add(2)).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).ok().ok_or_else(wrong)?;
    }
    Ok(digest)
}

/// `bearer TOKEN`, `basic USER`: the scheme in lower case. No message holds what follows it.
fn credentials(text: &str) -> Result<String, Wrong> {
    let Some((scheme, rest)) = text.split_once(|c: char| c.is_ascii_whitespace()) else {
        return Ok(text.to_owned());
    };
    let (scheme, rest) = (scheme.to_ascii_lowercase(), rest.trim());
    if scheme == "basic" && is_basic_login(rest.as_bytes()) {
        return Err(
            Wrong::new("Basic counts by user name, and this is a user with a password")
                .help("write `basic USER`"),
        );
    }
    Ok(format!("{scheme} {rest}"))
}
