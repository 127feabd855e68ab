//! `trusted_proxies` and `clients`.

use super::super::decode::{self, Fields, Shape};
use super::super::key::header;
use super::super::node::Node;
use super::super::report::Findings;
use super::super::units;
use crate::identify::{AddressFrom, ClientRules};

/// How a client is known.
pub(super) fn clients(top: &Fields<'_>, found: &mut Findings) -> ClientRules {
    const CLIENTS: Shape = Shape {
        what: "`clients`",
        known: &["address_from", "trusted_hops", "ipv6_prefix"],
        later: &[],
    };
    let mut rules = ClientRules::default();
    if let Some(node) = top.get("trusted_proxies") {
        let networks = decode::one_or_many(node).iter();
        rules.trusted = networks
            .filter_map(|item| decode::parsed(item, "a network", units::cidr, found))
            .map(|net| net.value)
            .collect();
    }
    let Some((_, node)) = top.entry("clients").filter(|(_, node)| !node.is_empty()) else {
        return rules;
    };
    let Some(fields) = Fields::open(node, &CLIENTS, found) else {
        return rules;
    };
    if let Some(node) = fields.get("address_from") {
        rules.address_from = address_from(node, found).unwrap_or_default();
    }
    let hops = fields
        .get("trusted_hops")
        .and_then(|node| decode::number(node, "`trusted_hops`", 1, 100, found));
    rules.trusted_hops = hops.and_then(|hops| usize::try_from(hops.value).ok());
    let prefix = fields
        .get("ipv6_prefix")
        .and_then(|node| decode::number(node, "`ipv6_prefix`", 1, 128, found));
    rules.ipv6_prefix = prefix
        .and_then(|bits| u8::try_from(bits.value).ok())
        .unwrap_or(rules.ipv6_prefix);
    let read = fields
        .entry("address_from")
        .or_else(|| fields.entry("trusted_hops"));
    if let Some((key, _)) = read.filter(|_| {
        top.get("trusted_proxies")
            .is_none_or(|node| decode::one_or_many(node).is_empty())
    }) {
        found
            .warn(
                key.span,
                "no proxy is trusted, so nobody's word about the client is taken",
            )
            .help("list the proxies in front of this gateway under `trusted_proxies`");
    }
    rules
}

fn address_from(node: &Node, found: &mut Findings) -> Option<AddressFrom> {
    let text = decode::text(node, "`address_from`", found)?;
    if let Some(name) = text.strip_prefix("header ") {
        return found
            .take(node.span, header(name.trim()))
            .map(AddressFrom::Header);
    }
    let known = [
        ("x-forwarded-for", Some(AddressFrom::XForwardedFor)),
        ("forwarded", Some(AddressFrom::Forwarded)),
    ];
    if let Some((_, from)) = known.into_iter().find(|(word, _)| *word == text) {
        return from;
    }
    let words = [
        ("x-forwarded-for", ()),
        ("forwarded", ()),
        ("header NAME", ()),
    ];
    decode::word(
        node,
        "where an address comes from",
        &words,
        &["proxy_protocol"],
        found,
    );
    None
}
