use super::*;

const PROXY: &str = "127.0.0.1:4000";

fn rules(trusted: &[&str]) -> ClientRules {
    ClientRules {
        trusted: trusted.iter().map(|net| net.parse().unwrap()).collect(),
        ..ClientRules::default()
    }
}

fn headers(lines: &[(&str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_bytes(value).unwrap(),
        );
    }
    headers
}

fn client(rules: &ClientRules, peer: &str, lines: &[(&str, &str)]) -> String {
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    rules
        .identify(peer.parse().unwrap(), &headers(&lines))
        .address
        .to_string()
}

fn xff(value: &str) -> String {
    client(
        &rules(&["127.0.0.1/32", "10.0.0.0/8"]),
        PROXY,
        &[("x-forwarded-for", value)],
    )
}

fn forwarded(lines: &[&str]) -> String {
    let rules = ClientRules {
        address_from: AddressFrom::Forwarded,
        ..rules(&["127.0.0.1/32", "10.0.0.0/8"])
    };
    let lines: Vec<_> = lines.iter().map(|line| ("forwarded", *line)).collect();
    client(&rules, PROXY, &lines)
}

#[test]
fn r13_mapped_addresses_are_ipv4_by_range_not_by_spelling() {
    assert_eq!(xff("::ffff:192.0.2.10"), "192.0.2.10");
    assert_eq!(xff("::ffff:c000:20a"), "192.0.2.10");
    assert_eq!(xff("0:0:0:0:0:FFFF:C000:020A"), "192.0.2.10");
    assert_eq!(xff("::ffff:c000:20b"), "192.0.2.11");
    assert_eq!(xff("2001:db8:1:2::192.0.2.10"), "2001:db8:1:2::c000:20a");
    assert_eq!(xff("::1"), "::1");
    let dual_stack = "[::ffff:127.0.0.1]:4000";
    assert_eq!(client(&rules(&[]), dual_stack, &[]), "127.0.0.1");
    assert_eq!(
        client(
            &rules(&["127.0.0.1/32"]),
            dual_stack,
            &[("x-forwarded-for", "192.0.2.1")]
        ),
        "192.0.2.1"
    );
}

#[test]
fn r16_without_the_field_the_peer_is_the_client() {
    let rules = rules(&["10.0.0.0/8"]);
    assert_eq!(client(&rules, "127.0.0.1:1", &[]), "127.0.0.1");
    assert_eq!(
        client(&rules, "127.0.0.2:1", &[("x-forwarded-for", "")]),
        "127.0.0.2"
    );
    assert_eq!(client(&rules, "10.0.0.2:1", &[]), "10.0.0.2");
    assert_eq!(
        client(&rules, "10.0.0.2:1", &[("x-forwarded-for", "")]),
        "10.0.0.2"
    );
}

#[test]
fn r17_what_the_client_wrote_is_not_believed() {
    for spoof in 0..6 {
        let spoof = format!("203.0.113.{spoof}");
        assert_eq!(xff(&format!("{spoof}, 198.51.100.9")), "198.51.100.9");
        let lines = [
            ("x-forwarded-for", &*spoof),
            ("x-forwarded-for", "198.51.100.9"),
        ];
        assert_eq!(
            client(&rules(&["127.0.0.1/32"]), PROXY, &lines),
            "198.51.100.9"
        );
        for name in [
            "x-forwarded-for",
            "x-real-ip",
            "forwarded",
            "cf-connecting-ip",
        ] {
            assert_eq!(
                client(&rules(&["127.0.0.1/32"]), "127.0.0.2:9", &[(name, &spoof)]),
                "127.0.0.2"
            );
        }
        assert_eq!(
            client(&rules(&["127.0.0.1/32"]), PROXY, &[("x-real-ip", &spoof)]),
            "127.0.0.1"
        );
    }
}

#[test]
fn the_walk_stops_at_the_first_stranger_and_at_what_is_no_address() {
    assert_eq!(
        xff("203.0.113.1, 198.51.100.9, 10.0.0.3, 10.0.0.2"),
        "198.51.100.9"
    );
    assert_eq!(
        xff("10.0.0.4, 10.0.0.3"),
        "10.0.0.4",
        "everything trusted: the leftmost"
    );
    assert_eq!(xff("203.0.113.1, unknown, 10.0.0.3"), "10.0.0.3");
    assert_eq!(
        xff("203.0.113.1,, 10.0.0.3 ,"),
        "203.0.113.1",
        "empty elements mean nothing"
    );
    for junk in [
        "unknown",
        "\"",
        "_hidden",
        "1.2.3.4.5",
        "0x7f.1",
        "127.1",
        "1.2.3.4%0",
        "010.1.1.1",
        "1.2.3.4:",
        "1.2.3.4:x",
        "1.2.3.4:99999",
        "[::1",
        "[1.2.3.4]",
        "fe80::1%",
        "é",
    ] {
        assert_eq!(xff(&format!("203.0.113.1, {junk}")), "127.0.0.1", "{junk}");
    }
    assert_eq!(xff("1.2.3.4:567"), "1.2.3.4");
    assert_eq!(xff("[2001:DB8::1]:80"), "2001:db8::1");
    assert_eq!(xff("[2001:db8::1]"), "2001:db8::1");
    assert_eq!(xff("fe80::1%eth0"), "fe80::1");
}

#[test]
fn long_chains_are_cut() {
    let chain = |length: usize| format!("203.0.113.1{}", ", 10.0.0.9".repeat(length));
    assert_eq!(xff(&chain(31)), "203.0.113.1");
    assert_eq!(xff(&chain(32)), "10.0.0.9");
    assert_eq!(xff(&",".repeat(10_000)), "127.0.0.1");
    assert_eq!(xff(&"x".repeat(65_536)), "127.0.0.1");
    assert_eq!(
        xff(&format!("203.0.113.1{}, 10.0.0.9", " ".repeat(2048))),
        "10.0.0.9"
    );
}

#[test]
fn hops_count_from_the_right_and_only_for_a_trusted_peer() {
    let hops = |hops, value: &str| {
        let rules = ClientRules {
            trusted_hops: Some(hops),
            ..rules(&["127.0.0.1/32"])
        };
        client(&rules, PROXY, &[("x-forwarded-for", value)])
    };
    let chain = "203.0.113.1, 198.51.100.9, 192.0.2.7";
    assert_eq!(hops(1, chain), "192.0.2.7");
    assert_eq!(hops(2, chain), "198.51.100.9");
    assert_eq!(
        hops(9, chain),
        "203.0.113.1",
        "a shorter chain: the leftmost"
    );
    assert_eq!(hops(2, "203.0.113.1, junk, 192.0.2.7"), "192.0.2.7");
    assert_eq!(hops(2, ""), "127.0.0.1");
    let strangers = ClientRules {
        trusted_hops: Some(1),
        ..rules(&[])
    };
    assert_eq!(
        client(&strangers, PROXY, &[("x-forwarded-for", chain)]),
        "127.0.0.1"
    );
}

#[test]
fn forwarded_is_read_with_its_quotes() {
    assert_eq!(forwarded(&["for=192.0.2.43"]), "192.0.2.43");
    assert_eq!(
        forwarded(&[r#"FOR="[2001:db8:cafe::17]:4711";proto=https"#]),
        "2001:db8:cafe::17"
    );
    assert_eq!(
        forwarded(&[r#"by="a,b;for=6.6.6.6";for="192.0.2.43:80""#]),
        "192.0.2.43"
    );
    assert_eq!(
        forwarded(&["for=203.0.113.1, for=198.51.100.9;by=10.0.0.1, for=10.0.0.2"]),
        "198.51.100.9"
    );
    assert_eq!(
        forwarded(&["for=203.0.113.1", "for=198.51.100.9"]),
        "198.51.100.9"
    );
    assert_eq!(forwarded(&[r#"for="\1\9\2.0.2.43""#]), "192.0.2.43");
    for junk in [
        "for=unknown",
        "for=_obf",
        "for=2001:db8::1",
        r#"for="2001:db8::1""#,
        "proto=https",
        "for=1.2.3.4;for=5.6.7.8",
        "for =1.2.3.4",
        "for= 1.2.3.4",
        r#"for="1.2.3.4"x"#,
        "1.2.3.4",
        r#"for="1.2.3.4"#,
        r#"a";for=1.2.3.4"#,
        "for=1.2.3.4;=x",
        "for=",
    ] {
        assert_eq!(forwarded(&["for=203.0.113.1", junk]), "127.0.0.1", "{junk}");
    }
}

#[test]
fn an_open_quote_does_not_swallow_what_the_proxy_wrote() {
    assert_eq!(
        forwarded(&[r#"for="evil"#, "for=198.51.100.9"]),
        "198.51.100.9"
    );
    for evil in [
        r#"for=""#,
        r#"for="\"#,
        r#"x", for=6.6.6.6, by=""#,
        r#"for=x", for=6.6.6.6"#,
    ] {
        for appended in ["for=198.51.100.9", r#"for="[2001:db8::1]""#] {
            let seen = forwarded(&[&format!("{evil}, {appended}")]);
            assert!(
                seen == "127.0.0.1" || appended.contains(&seen),
                "{evil}: {seen}"
            );
        }
    }
}

#[test]
fn a_single_field_has_one_address_or_does_not_count() {
    let rules = ClientRules {
        address_from: AddressFrom::Header(HeaderName::from_static("cf-connecting-ip")),
        ..rules(&["127.0.0.1/32"])
    };
    let name = "cf-connecting-ip";
    assert_eq!(client(&rules, PROXY, &[(name, " 192.0.2.1 ")]), "192.0.2.1");
    assert_eq!(
        client(&rules, PROXY, &[(name, "192.0.2.1, 192.0.2.2")]),
        "127.0.0.1"
    );
    assert_eq!(
        client(&rules, PROXY, &[(name, "192.0.2.1"), (name, "192.0.2.2")]),
        "127.0.0.1"
    );
    assert_eq!(
        client(&rules, PROXY, &[("x-forwarded-for", "192.0.2.1")]),
        "127.0.0.1",
        "not from another field"
    );
}

#[test]
fn the_upstream_sees_one_field_that_is_true() {
    let trusting = rules(&["127.0.0.1/32"]);
    let sent = headers(&[
        ("x-forwarded-for", b"203.0.113.1\xff"),
        ("x-forwarded-for", b""),
        ("x-forwarded-for", b"198.51.100.9"),
    ]);
    let seen = |rules: &ClientRules, peer: &str, sent: &HeaderMap| {
        let client = rules.identify(peer.parse().unwrap(), sent);
        rules.forwarded_for(&client, sent).as_bytes().to_vec()
    };
    assert_eq!(
        seen(&trusting, PROXY, &sent),
        b"203.0.113.1\xff, 198.51.100.9, 127.0.0.1"
    );
    assert_eq!(seen(&trusting, "[::ffff:127.0.0.2]:1", &sent), b"127.0.0.2");
    let other = ClientRules {
        address_from: AddressFrom::Forwarded,
        ..trusting
    };
    let sent = headers(&[
        ("x-forwarded-for", b"6.6.6.6"),
        ("forwarded", b"for=198.51.100.9"),
    ]);
    assert_eq!(seen(&other, PROXY, &sent), b"198.51.100.9, 127.0.0.1");
    assert_eq!(seen(&other, PROXY, &HeaderMap::new()), b"127.0.0.1");
}
