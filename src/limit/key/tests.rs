use std::borrow::Cow;

use hyper::Request;
use hyper::header::HeaderValue;
use hyper::http::request::Parts;
use proptest::prelude::*;

use super::derive::{Part, identity};
use super::hash::readable;
use super::*;
use crate::request::{Client, Facts, PeerTrust, Target};

const IP: Source = Source::Ip { v4: 32, v6: 64 };

struct Sample {
    head: Parts,
    target: Target,
    client: Client,
    host: String,
}

impl Sample {
    fn new(method: &str, target: &str, headers: &[(&str, &[u8])]) -> Self {
        let mut request = Request::builder().method(method).uri(target);
        for (name, value) in headers {
            request = request.header(*name, HeaderValue::from_bytes(value).unwrap());
        }
        let head = request.body(()).unwrap().into_parts().0;
        let path = head.uri.path().to_owned();
        let target = Target {
            wide: path.clone(),
            exact: path,
            query: head.uri.query().map(str::to_owned),
        };
        let peer = "203.0.113.9:1".parse().unwrap();
        Self {
            head,
            target,
            client: Client {
                peer,
                trust: PeerTrust::Untrusted,
                address: peer.ip(),
            },
            host: "gw:8080".to_owned(),
        }
    }

    fn from(address: &str) -> Self {
        let mut sample = Self::new("GET", "/", &[]);
        sample.client.address = address.parse().unwrap();
        sample
    }

    fn derive(&self, spec: &KeySpec) -> Derived {
        self.derive_with(spec, &[], &[]).unwrap()
    }

    fn derive_with(
        &self,
        spec: &KeySpec,
        params: &[(&str, Cow<'_, str>)],
        route_params: &[(&str, Cow<'_, str>)],
    ) -> Result<Derived, Ambiguous> {
        let facts = Facts {
            head: &self.head,
            client: self.client,
            host: &self.host,
            target: &self.target,
            route: Some("api"),
            route_params,
            body: None,
        };
        let values = spec.read(&facts, params)?;
        Ok(spec.derive(&values, &facts, &KeyHasher::new(b"secret")))
    }

    fn identity(&self, parts: &[Source]) -> Identity {
        match self.derive(&spec(parts)) {
            Derived::Identity(identity) => identity,
            other => panic!("{other:?}"),
        }
    }

    fn key(&self, parts: &[Source]) -> String {
        Key::of("sluice", &self.identity(parts), "l", "sw60s")
            .as_str()
            .to_owned()
    }
}

fn spec(parts: &[Source]) -> KeySpec {
    KeySpec {
        parts: parts.iter().map(|part| vec![part.clone()]).collect(),
        if_missing: IfMissing::Ip,
        fallback: IP,
    }
}

fn header(name: &'static str) -> Source {
    Source::Header(HeaderName::from_static(name))
}

fn authorized(value: &str) -> Identity {
    Sample::new("GET", "/", &[("authorization", value.as_bytes())])
        .identity(&[header("authorization")])
}

#[test]
fn keys_look_as_documented() {
    let sample = Sample::new("GET", "/api/login", &[("x-user-id", b"alice")]);
    assert_eq!(sample.key(&[IP]), "sluice:1:{ip=203.0.113.9}:l:sw60s:");
    assert_eq!(
        sample.key(&[Source::Ip { v4: 24, v6: 64 }]),
        "sluice:1:{ip=203.0.113.0/24}:l:sw60s:"
    );
    assert_eq!(
        sample.key(&[IP, Source::Path, Source::Method]),
        "sluice:1:{ip=203.0.113.9}:l:sw60s:path=/api/login,method=GET"
    );
    assert_eq!(
        sample.key(&[Source::Path, IP]),
        "sluice:1:{ip=203.0.113.9}:l:sw60s:path=/api/login,@"
    );
    assert_eq!(sample.key(&[Source::Everyone]), "sluice:1:{l}:l:sw60s:");
    assert_eq!(
        sample.key(&[Source::Host, Source::Route]),
        "sluice:1:{host=gw}:l:sw60s:route=api"
    );
    let hashed = sample.key(&[header("x-user-id")]);
    let hash = hashed
        .strip_prefix("sluice:1:{header=")
        .and_then(|rest| rest.strip_suffix("}:l:sw60s:"))
        .unwrap();
    assert!(
        hash.len() == 26
            && hash
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7')),
        "{hash}"
    );
    assert_eq!(
        Sample::new("PURGE", "/", &[]).key(&[Source::Method]),
        "sluice:1:{method=other}:l:sw60s:"
    );
    assert_eq!(
        Sample::new("post", "/", &[]).key(&[Source::Method]),
        "sluice:1:{method=POST}:l:sw60s:"
    );
}

#[test]
fn the_tag_is_the_narrowest_part() {
    let sample = Sample::new(
        "GET",
        "/a?q=1",
        &[
            ("authorization", b"Bearer x"),
            ("x-id", b"1"),
            ("cookie", b"c=1"),
        ],
    );
    let order = [
        (IP, "ip="),
        (header("authorization"), "header="),
        (header("x-id"), "header="),
        (Source::Cookie("c".into()), "cookie="),
        (Source::Query("q".into()), "query="),
        (Source::Host, "host="),
        (Source::Path, "path="),
        (Source::Method, "method="),
        (Source::Route, "route="),
        (Source::Everyone, ""),
    ];
    let mut parts: Vec<Source> = order.iter().map(|(source, _)| source.clone()).collect();
    for (source, tag) in order {
        let alone = sample.identity(&[source]).tag;
        assert!(alone.starts_with(tag));
        assert_eq!(sample.identity(&parts).tag, alone);
        parts.reverse();
        assert_eq!(sample.identity(&parts).tag, alone);
        parts.reverse();
        parts.remove(0);
    }
}

#[test]
fn r13_r14_addresses_are_unwrapped_and_then_masked() {
    let key = |address: &str| Sample::from(address).identity(&[IP]).tag;
    assert_eq!(key("::ffff:192.0.2.10"), "ip=192.0.2.10");
    assert_eq!(key("192.0.2.10"), "ip=192.0.2.10");
    assert_eq!(key("::ffff:c000:20b"), "ip=192.0.2.11");
    assert_eq!(key("2001:db8:1:2::192.0.2.10"), "ip=2001:db8:1:2::/64");
    for host in 1..13 {
        assert_eq!(
            key(&format!("2001:DB8:1:2::{host}")),
            "ip=2001:db8:1:2::/64"
        );
    }
    assert_eq!(key("2001:db8:1:3::1"), "ip=2001:db8:1:3::/64");
    assert_eq!(key("::1"), key("0:0:0:0:0:0:0:1"));
    assert_eq!(
        Sample::from("2001:db8::1")
            .identity(&[Source::Ip { v4: 32, v6: 128 }])
            .tag,
        "ip=2001:db8::1"
    );
}

#[test]
fn r16_absent_and_empty_are_missing() {
    let absent = Sample::new("GET", "/", &[]);
    let empty = Sample::new(
        "GET",
        "/?q=",
        &[
            ("x-api-key", b""),
            ("cookie", b"c=; d=\"\""),
            ("authorization", b"Basic Og=="),
        ],
    );
    for source in [
        header("x-api-key"),
        header("authorization"),
        Source::Cookie("c".into()),
        Source::Cookie("d".into()),
        Source::Query("q".into()),
        Source::Param("p".into()),
    ] {
        for sample in [&absent, &empty] {
            let ip = Identity {
                tag: "ip=203.0.113.9".to_owned(),
                rest: String::new(),
                found: Found::Missing,
            };
            let share = Identity {
                tag: String::new(),
                rest: "-".to_owned(),
                found: Found::Missing,
            };
            for (if_missing, expected) in [
                (IfMissing::Ip, Derived::Identity(ip)),
                (IfMissing::Share, Derived::Identity(share)),
                (IfMissing::Skip, Derived::Skip),
                (IfMissing::Reject, Derived::Reject),
            ] {
                let spec = KeySpec {
                    if_missing,
                    ..spec(std::slice::from_ref(&source))
                };
                assert_eq!(sample.derive(&spec), expected, "{source:?}");
            }
        }
    }
}

#[test]
fn what_is_partly_missing_is_another_key() {
    let both = [header("x-a"), header("x-b")];
    let a = Sample::new("GET", "/", &[("x-a", b"1")]).identity(&both);
    let b = Sample::new("GET", "/", &[("x-b", b"1")]).identity(&both);
    assert_eq!((a.found, &*a.rest), (Found::Present, "-"));
    assert_eq!((b.found, &*b.rest), (Found::Present, "-,@"));
    assert_ne!(a.tag, b.tag);
}

#[test]
fn the_first_alternative_that_is_present_counts() {
    let either = KeySpec {
        parts: vec![vec![header("x-a"), IP]],
        ..spec(&[])
    };
    let named = Sample::new("GET", "/", &[("x-a", b"1")]);
    assert_eq!(
        named.derive(&either),
        Derived::Identity(named.identity(&[header("x-a")]))
    );
    let unnamed = Sample::new("GET", "/", &[("x-a", b" ")]);
    assert_eq!(
        unnamed.derive(&either),
        Derived::Identity(unnamed.identity(&[IP]))
    );
    assert_eq!(either.words(), "header X-A or client address");
}

#[test]
fn what_occurs_twice_is_ambiguous() {
    let twice: [(&str, &[u8]); 5] = [
        ("x-a", b"1"),
        ("x-a", b"1"),
        ("cookie", b"c=1; d=1"),
        ("cookie", b"c=2"),
        ("x-b", b"1"),
    ];
    let sample = Sample::new("GET", "/?q=1&%71=2&r=1", &twice);
    for source in [
        header("x-a"),
        Source::Cookie("c".into()),
        Source::Query("q".into()),
    ] {
        assert_eq!(
            sample.derive_with(&spec(&[source]), &[], &[]),
            Err(Ambiguous)
        );
    }
    for source in [
        header("x-b"),
        Source::Cookie("d".into()),
        Source::Query("r".into()),
    ] {
        assert!(matches!(
            sample.derive(&spec(&[source])),
            Derived::Identity(_)
        ));
    }
}

#[test]
fn a_trusted_header_counts_from_a_trusted_peer_alone() {
    let source = Source::TrustedHeader(HeaderName::from_static("x-plan"));
    let mut sample = Sample::new("GET", "/", &[("x-plan", b"pro")]);
    assert_eq!(
        sample.identity(std::slice::from_ref(&source)).found,
        Found::Missing
    );
    sample.client.trust = PeerTrust::Trusted;
    let trusted = sample.identity(&[source]);
    assert_eq!(trusted.found, Found::Present);
    assert_ne!(trusted.tag, sample.identity(&[header("x-plan")]).tag);
}

#[test]
fn credentials_have_one_spelling() {
    assert_eq!(authorized("Bearer abc"), authorized("bEARER   abc "));
    assert_ne!(authorized("Bearer abc"), authorized("Bearer ABC"));
    // joe:1, joe:2, and joe:1 with a blank, without padding, in pieces.
    for basic in [
        "Basic am9lOjI=",
        "basic  am9lOjE",
        "BASIC am9l!OjE=",
        "Basic am9l",
    ] {
        assert_eq!(authorized("Basic am9lOjE="), authorized(basic), "{basic}");
    }
    assert_ne!(authorized("Basic am9lOjE="), authorized("Basic am9hOjE="));
    assert_ne!(authorized("Bearer joe"), authorized("Basic am9lOjE="));
}

#[test]
fn values_are_bytes() {
    let of = |value: &[u8]| {
        Sample::new("GET", "/", &[("x-a", value)])
            .identity(&[header("x-a")])
            .tag
    };
    let mut seen: Vec<String> = (0x80..=0xff).map(|byte| of(&[byte])).collect();
    seen.push(of(b"a\tb"));
    seen.push(of("ü".as_bytes()));
    let all = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), all);
}

#[test]
fn cookies_and_queries_are_read_as_servers_do() {
    let cookie = |line: &str| {
        Sample::new("GET", "/", &[("cookie", line.as_bytes())])
            .identity(&[Source::Cookie("sid".into())])
    };
    for line in [
        "sid=abc",
        "a=1;sid=abc",
        " x; sid = abc ;b=2",
        "sid=\"abc\"",
        "sid=%61bc",
    ] {
        assert_eq!(cookie(line), cookie("sid=abc"), "{line}");
    }
    assert_ne!(cookie("sid=abc"), cookie("sid=ABC"));
    assert_eq!(cookie("SID=abc").found, Found::Missing);
    assert_eq!(cookie("sid").found, Found::Missing);
    let query = |query: &str| {
        Sample::new("GET", &format!("/?{query}"), &[]).identity(&[Source::Query("a b".into())])
    };
    for same in ["a+b=x+y", "a%20b=x%20y", "z&%61+b=x+%79&c=1"] {
        assert_eq!(query(same), query("a+b=x+y"), "{same}");
    }
    assert_ne!(query("a+b=%2578"), query("a+b=x"), "decoded once");
}

#[test]
fn params_come_from_the_limit_and_then_from_the_route() {
    let sample = Sample::new("GET", "/", &[]);
    let derive = |params: &[(&str, Cow<'_, str>)], route: &[(&str, Cow<'_, str>)]| match sample
        .derive_with(&spec(&[Source::Param("id".into())]), params, route)
        .unwrap()
    {
        Derived::Identity(identity) => identity.tag,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        derive(&[("id", "7".into())], &[("id", "8".into())]),
        "param.id=7"
    );
    assert_eq!(derive(&[], &[("id", "B%6Fb;v=1".into())]), "param.id=bob");
    assert_eq!(derive(&[("other", "7".into())], &[]), "ip=203.0.113.9");
    assert!(derive(&[("id", "a b".into())], &[]).starts_with("param="));
}

#[test]
fn keys_in_words() {
    let all = [
        IP,
        Source::Ip { v4: 24, v6: 56 },
        header("x-user-id"),
        Source::Cookie("sid".into()),
        Source::Query("q".into()),
        Source::Param("id".into()),
        Source::Path,
        Source::Method,
        Source::Host,
        Source::Route,
        Source::Everyone,
    ];
    assert_eq!(
        spec(&all).words(),
        "client address and client network /24 and header X-User-Id and cookie sid and query parameter q and path parameter id and path \
         and method and host and route and everyone"
    );
}

#[test]
fn the_hash_depends_on_the_secret_and_on_where_the_value_is_from() {
    let hash =
        |secret: &[u8], word, name, value: &[u8]| KeyHasher::new(secret).hash(word, name, value);
    let one = hash(b"s", "header", "ab", b"c");
    assert_eq!(one, hash(b"s", "header", "ab", b"c"));
    assert_ne!(one, hash(b"t", "header", "ab", b"c"));
    assert_ne!(one, hash(b"s", "header", "a", b"bc"));
    assert_ne!(one, hash(b"s", "cookie", "ab", b"c"));
    assert_eq!(
        readable(one.as_bytes()),
        None,
        "what looks like a hash is hashed"
    );
    assert_eq!(format!("{:?}", KeyHasher::new(b"s")), "KeyHasher(***)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn different_parts_are_different_keys(
        one in proptest::collection::vec(proptest::option::of((0_u8..3, "[abc=]{1,2}")), 1..5),
        other in proptest::collection::vec(proptest::option::of((0_u8..3, "[abc=]{1,2}")), 1..5),
    ) {
        let key = |parts: &[Option<(u8, String)>]| {
            let parts: Vec<_> = parts.iter().map(|part| part.clone().map(|(rank, text)| Part { rank, text: format!("{rank}{text}") })).collect();
            identity(&parts)
        };
        prop_assume!(one != other);
        if let (Some(one), Some(other)) = (key(&one), key(&other)) {
            prop_assert_ne!(one, other);
        }
    }

    #[test]
    fn different_values_are_different_keys(one in "[!-~üé]{0,2}", other in "[!-~üé]{0,2}", same in "[!-~]{0,30}") {
        let key = |a: &str, b: &str| {
            let sample = Sample::new("GET", "/", &[("x-a", a.as_bytes()), ("x-b", b.as_bytes())]);
            sample.derive_with(&spec(&[header("x-a"), header("x-b"), Source::Param("p".into())]), &[("p", Cow::Borrowed(a))], &[])
        };
        prop_assert_eq!(one == other, key(&one, &same) == key(&other, &same));
        prop_assert_eq!(one == other, key(&same, &one) == key(&same, &other));
        prop_assert_eq!(one == other, key(&one, &other) == key(&other, &one));
    }

    #[test]
    fn no_mark_of_a_key_comes_from_a_client(value in proptest::collection::vec(any::<u8>(), 0..80), path in ".{0,80}") {
        let mut sample = Sample::new("GET", "/", &[]);
        sample.target.wide = format!("/{path}");
        sample.host.clone_from(&path);
        if let Ok(value) = HeaderValue::from_bytes(&value) {
            sample.head.headers.insert("x-a", value);
        }
        let param = [("p", Cow::Borrowed(&*path))];
        let derived = sample.derive_with(&spec(&[header("x-a"), Source::Path, Source::Host, Source::Param("p".into())]), &param, &[]);
        let Ok(Derived::Identity(identity)) = derived else { return Err(TestCaseError::fail("no identity")) };
        let key = Key::of("sluice", &identity, "l", "sw60s");
        prop_assert!(key.as_str().len() < 300);
        prop_assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert_eq!(key.as_str().matches(['{', '}']).count(), 2);
        prop_assert_eq!(key.as_str().matches(':').count(), 5);
    }
}
