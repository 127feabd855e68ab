use std::net::SocketAddr;

use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Request};
use proptest::prelude::*;

use super::*;
use crate::request::{Client, PeerTrust};
use crate::route::{HeaderMatcher, HeaderTest, MethodSet, PathRules};

/// What facts borrow from.
#[derive(Debug)]
struct Sample {
    head: Parts,
    host: String,
    target: Target,
    peer: SocketAddr,
    route: Option<String>,
}

impl Sample {
    fn new(method: &str, host: &str, path: &str) -> Self {
        let head = Request::builder()
            .method(method)
            .uri(path)
            .body(())
            .unwrap()
            .into_parts()
            .0;
        let target = PathRules::default().read(&head.uri).unwrap();
        Self {
            head,
            host: host.to_owned(),
            target,
            peer: "192.0.2.1:1000".parse().unwrap(),
            route: None,
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            head: &self.head,
            client: Client {
                peer: self.peer,
                trust: PeerTrust::Untrusted,
                address: self.peer.ip(),
            },
            host: &self.host,
            target: &self.target,
            route: self.route.as_deref(),
            route_params: &[],
            body: None,
        }
    }
}

fn path(pattern: &str) -> Matcher {
    Matcher {
        paths: vec![PathPattern::parse(pattern).unwrap()],
        ..Matcher::default()
    }
}

fn index(width: Width, matchers: Vec<Matcher>) -> Index {
    Index::new(width, matchers.into_iter().enumerate())
}

fn entries(index: &Index, sample: &Sample) -> Vec<usize> {
    index
        .all(&sample.facts())
        .iter()
        .map(|hit| hit.entry)
        .collect()
}

#[test]
fn the_smallest_number_comes_first() {
    let index = Index::new(
        Width::Exact,
        [
            (2, path("/a")),
            (7, path("/**")),
            (1, path("/b")),
            (2, path("/a/**")),
        ],
    );
    let sample = Sample::new("GET", "x", "/a");
    assert_eq!(entries(&index, &sample), [2, 7]);
    assert_eq!(index.first(&sample.facts()).unwrap().entry, 2);
    assert!(!index.is_empty());
    let none = Index::new(Width::Wide, []);
    assert!(none.is_empty() && none.first(&sample.facts()).is_none());
}

#[test]
fn limits_match_widely_and_exemptions_exactly() {
    let matchers = || {
        vec![Matcher {
            methods: MethodSet::new(vec![Method::POST]),
            ..path("/Api/Login")
        }]
    };
    let (wide, exact) = (
        index(Width::Wide, matchers()),
        index(Width::Exact, matchers()),
    );
    for (method, target) in [
        ("POST", "/api/login"),
        ("POST", "/API//login/"),
        ("post", "/Api/Login"),
        ("POST", "/api%2Flogin;x"),
        ("POST", "/api/%6Cogin%20"),
    ] {
        let sample = Sample::new(method, "x", target);
        assert_eq!(entries(&wide, &sample), [0], "{target}");
        assert!(entries(&exact, &sample).is_empty(), "{target}");
    }
    assert_eq!(
        entries(&exact, &Sample::new("POST", "x", "/Api/./%4Cogin")),
        [0]
    );
}

#[test]
fn nothing_slips_through_between_two_readings_of_a_segment() {
    let index = index(
        Width::Wide,
        vec![path("/users/{id}/reset"), path("/files/*")],
    );
    assert_eq!(
        entries(&index, &Sample::new("GET", "x", "/users/a%2Fb/reset")),
        [0]
    );
    assert_eq!(
        entries(&index, &Sample::new("GET", "x", "/users/.../reset")),
        [0]
    );
    assert_eq!(entries(&index, &Sample::new("GET", "x", "/files/;x")), [1]);
    assert_eq!(
        entries(&index, &Sample::new("GET", "x", "/files/%20/")),
        [1]
    );
    let sample = Sample::new("GET", "x", "/users/A%2Fb/Reset");
    let hit = index.first(&sample.facts()).unwrap();
    assert_eq!(hit.params.as_slice(), [("id", Cow::Borrowed("a/b"))]);
}

#[test]
fn captures_come_from_the_reading_that_is_compared() {
    let sample = Sample::new("GET", "x", "/users/B%C3%B6b;x");
    for (width, value) in [(Width::Exact, "B%C3%B6b;x"), (Width::Wide, "böb")] {
        let index = index(width, vec![path("/users/{id}")]);
        assert_eq!(
            index.first(&sample.facts()).unwrap().params.as_slice(),
            [("id", Cow::Borrowed(value))]
        );
    }
}

#[test]
fn all_that_is_asked_must_hold() {
    let beta = HeaderMatcher {
        name: HeaderName::from_static("x-beta"),
        tests: vec![HeaderTest::Is(HeaderValue::from_static("1"))],
    };
    let trace = HeaderMatcher {
        name: HeaderName::from_static("x-trace"),
        tests: vec![HeaderTest::Present],
    };
    let matcher = Matcher {
        hosts: vec![
            HostPattern::parse(".example.com").unwrap(),
            HostPattern::parse("example.org").unwrap(),
        ],
        methods: MethodSet::new(vec![Method::GET]),
        headers: vec![beta, trace],
        from: vec!["192.0.2.0/24".parse().unwrap()],
        routes: vec!["api".into()],
        ..path("/**")
    };
    let index = index(Width::Exact, vec![matcher]);
    let mut sample = Sample::new("HEAD", "a.b.example.com:8080", "/x");
    sample.route = Some("api".to_owned());
    sample
        .head
        .headers
        .append("x-beta", HeaderValue::from_static("0"));
    sample
        .head
        .headers
        .append("x-beta", HeaderValue::from_static("1"));
    assert!(entries(&index, &sample).is_empty());
    sample
        .head
        .headers
        .append("x-trace", HeaderValue::from_static(""));
    assert_eq!(entries(&index, &sample), [0]);
    let changes: [fn(&mut Sample); 4] = [
        |sample| sample.host = "example.com".to_owned(),
        |sample| sample.head.method = Method::POST,
        |sample| sample.peer = "198.51.100.1:1".parse().unwrap(),
        |sample| sample.route = None,
    ];
    for change in changes {
        let mut sample = Sample {
            head: sample.head.clone(),
            host: sample.host.clone(),
            target: sample.target.clone(),
            peer: sample.peer,
            route: sample.route.clone(),
        };
        change(&mut sample);
        assert!(entries(&index, &sample).is_empty());
    }
    sample.host = "example.org".to_owned();
    assert_eq!(entries(&index, &sample), [0]);
}

#[test]
fn what_names_no_path_matches_every_target() {
    let index = index(Width::Exact, vec![Matcher::default(), path("/**")]);
    assert_eq!(entries(&index, &Sample::new("OPTIONS", "x", "*")), [0]);
    assert_eq!(entries(&index, &Sample::new("OPTIONS", "x", "/")), [0, 1]);
}

/// Every entry tried in turn, each pattern by itself.
fn linear(width: Width, matchers: &[(usize, Matcher)], facts: &Facts<'_>) -> Vec<usize> {
    let mut found: Vec<_> = matchers
        .iter()
        .filter(|(_, matcher)| {
            matcher.hosts.is_empty()
                || matcher
                    .hosts
                    .iter()
                    .any(|host| host.matches(facts.host_name()))
        })
        .filter(|(_, matcher)| {
            let captures =
                |pattern: &PathPattern, path: Vec<Cow<'_, str>>| pattern.capture(&path).is_some();
            matcher.paths.is_empty()
                || matcher.paths.iter().any(|pattern| match width {
                    Width::Exact => captures(
                        pattern,
                        segments(&facts.target.exact).map(Cow::Borrowed).collect(),
                    ),
                    Width::Wide => {
                        captures(
                            &pattern.wide(),
                            segments(&facts.target.wide).map(Cow::Borrowed).collect(),
                        ) || captures(&pattern.wide(), as_sent(facts.target).collect())
                    }
                })
        })
        .filter(|(_, matcher)| matcher.matches_rest(width, facts))
        .map(|(entry, _)| *entry)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn matchers() -> impl Strategy<Value = Matcher> {
    let step = prop_oneof![
        Just("a"),
        Just("B"),
        Just("*"),
        Just("**"),
        Just("{n}"),
        Just("a%2Fb"),
        Just("...")
    ];
    let path = (
        proptest::collection::vec(step, 0..5),
        prop_oneof![3 => Just(""), 1 => Just("/")],
    )
        .prop_filter_map("a name twice", |(steps, end)| {
            PathPattern::parse(&format!(
                "/{}{}",
                steps.join("/"),
                if steps.is_empty() { "" } else { end }
            ))
            .ok()
        });
    let host = prop_oneof![
        Just("x.com"),
        Just(".x.com"),
        Just(".a.x.com"),
        Just("a.x.com")
    ]
    .prop_map(|host| HostPattern::parse(host).unwrap());
    let method = prop_oneof![Just(Method::GET), Just(Method::POST)];
    (
        proptest::collection::vec(path, 0..3),
        proptest::collection::vec(host, 0..2),
        proptest::collection::vec(method, 0..2),
    )
        .prop_map(|(paths, hosts, methods)| Matcher {
            paths,
            hosts,
            methods: MethodSet::new(methods),
            ..Matcher::default()
        })
}

fn samples() -> impl Strategy<Value = Sample> {
    let step = prop_oneof![
        Just("a"),
        Just("A"),
        Just("b"),
        Just("B"),
        Just("a%2Fb"),
        Just("..."),
        Just("%20"),
        Just("a;x")
    ];
    let host = prop_oneof![
        Just("x.com"),
        Just("a.x.com:8080"),
        Just("b.a.x.com"),
        Just("y"),
        Just("[::1]:80")
    ];
    let method = prop_oneof![Just("GET"), Just("HEAD"), Just("POST"), Just("post")];
    (
        method,
        host,
        proptest::collection::vec(step, 0..6),
        prop_oneof![Just(""), Just("/")],
    )
        .prop_map(|(method, host, steps, end)| {
            Sample::new(method, host, &format!("/{}{end}", steps.join("/")))
        })
}

fn agrees(matchers: &[(usize, Matcher)], samples: &[Sample]) -> Result<(), TestCaseError> {
    for width in [Width::Exact, Width::Wide] {
        let index = Index::new(width, matchers.to_vec());
        for sample in samples {
            let facts = sample.facts();
            let expected = linear(width, matchers, &facts);
            prop_assert_eq!(
                index.first(&facts).map(|hit| hit.entry),
                expected.first().copied()
            );
            for hit in index.all(&facts) {
                let named = |(entry, matcher): &&(usize, Matcher)| {
                    *entry == hit.entry
                        && matcher
                            .paths
                            .iter()
                            .any(|path| path.params().eq(hit.params.iter().map(|(name, _)| *name)))
                };
                prop_assert!(
                    hit.params.is_empty() || matchers.iter().any(|matcher| named(&matcher))
                );
            }
            prop_assert_eq!(
                entries(&index, sample),
                expected,
                "{:?} {:?}",
                width,
                sample.target
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_small_index_finds_what_a_scan_finds(
        matchers in proptest::collection::vec((0_usize..6, matchers()), 0..8),
        samples in proptest::collection::vec(samples(), 1..6),
    ) {
        agrees(&matchers, &samples)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_large_index_finds_what_a_scan_finds(
        matchers in proptest::collection::vec((0_usize..250, matchers()), 300),
        samples in proptest::collection::vec(samples(), 20),
    ) {
        agrees(&matchers, &samples)?;
    }
}
