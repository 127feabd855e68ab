use proptest::prelude::*;

use super::wide::is_wide;
use super::*;
use crate::request::fold_segment;

fn read_under(rules: PathRules, path: &str) -> Result<Target, InvalidPath> {
    rules.read(&path.parse().unwrap())
}

fn read(path: &str) -> Result<Target, InvalidPath> {
    read_under(PathRules::default(), path)
}

fn exact(path: &str) -> String {
    read(path).unwrap().exact
}

fn wide(path: &str) -> String {
    read(path).unwrap().wide
}

#[test]
fn every_spelling_of_the_login_counts_as_the_login_or_is_refused() {
    for path in [
        "/api/login/",
        "//api/login",
        "/api//login",
        "/api/./login",
        "/api/x/../login",
        "/api/%6cogin",
        "/api%2flogin",
        "/API/Login",
        "/api/login;a=b",
        "/api/login%20",
        "/api/login?",
        "/api/login?x",
        "/api/login#x",
        "/%2e/api/login",
        "/api/..;/api/login",
        "http://gw/api/login",
        "/api/login.",
        "/api/.;x/login",
        "/api/login/.",
        "/api/login/;x",
        "/api;v=1/login",
        "/api%2Flogin%2F",
        "/api/login%3Ba",
        "/api/login%2e",
        "/;x/api/login",
        "/api/%20/login",
        "/api/x/%2e%2e/login",
        "/api/x/.%2E;y/login",
        "/%41pi/LOGIN",
        "/api/login..%20",
        "/%20api/login",
    ] {
        assert_eq!(wide(path), "/api/login", "{path}");
    }
    for path in [
        "/api/login%00",
        "/api/login%0a",
        "/api\\login",
        "/api/%5clogin",
        "/api/login%",
        "/api/login%zz",
        "/api/login%4",
        "/api/login%ff",
        "/api/login%c0%af",
        "/api/login%7f",
        "/api/..%2fapi/login",
        "/api/..%3B/api/login",
        "/..",
        "/api/../../api/login",
        "/..;x",
        "/api/login/%2e%2e%2fx",
        "/api/..%20/x",
        "/a%2f.%2fb",
    ] {
        assert!(read(path).is_err(), "{path}: {:?}", read(path));
    }
    // Never decoded twice: an origin that does not do so either has no such path.
    assert_eq!(wide("/api/%252e%252e/api/login"), "/api/%2e%2e/api/login");
    assert_eq!(exact("/api/%252e"), "/api/%252e");
}

#[test]
fn the_exact_reading_is_the_normal_form() {
    for (path, normal) in [
        ("/", "/"),
        ("//", "/"),
        ("/a/..", "/"),
        ("/a/b/..", "/a/"),
        ("/a/.", "/a/"),
        ("/a/./b/", "/a/b/"),
        ("/%7Ea", "/~a"),
        ("/a%2fb", "/a%2Fb"),
        ("/a%3ab", "/a%3Ab"),
        ("/é", "/%C3%A9"),
        ("/%c3%a9", "/%C3%A9"),
        ("/a|b^\"{c}", "/a%7Cb%5E%22%7Bc%7D"),
        ("/.well-known/x", "/.well-known/x"),
        ("/a;v=1/b", "/a;v=1/b"),
        ("/...", "/..."),
        ("/a[0]", "/a%5B0%5D"),
        ("/A/b", "/A/b"),
    ] {
        assert_eq!(exact(path), normal, "{path}");
    }
    assert_eq!(wide("/a%2Fb;x/%C3%89/C."), "/a/b/é/c");
    assert_eq!(
        read("/a%20b?x=%20&y#z").unwrap().query.as_deref(),
        Some("x=%20&y")
    );
    assert_eq!(read("/a").unwrap().query, None);
    let star = read("*").unwrap();
    assert_eq!((&*star.exact, &*star.wide), ("*", "*"));
    assert!(read("gw:443").is_err(), "the authority form has no path");
    assert_eq!(exact("http://gw"), "/");
}

#[test]
fn rules_change_the_exact_reading_only() {
    let rules = PathRules {
        case: Case::Fold,
        trailing_slash: TrailingSlash::Strip,
        parameters: Parameters::Strip,
        encoded_slash: EncodedSlash::Decode,
    };
    for path in [
        "/Api;v=1/%4Cogin/",
        "/api%2flogin",
        "/api/login;",
        "/api/;x/login",
    ] {
        assert_eq!(
            read_under(rules, path).unwrap().exact,
            "/api/login",
            "{path}"
        );
    }
    assert_eq!(read_under(rules, "/%C3%89").unwrap().exact, "/%C3%89");
    assert!(read_under(rules, "/a/..%2f..%2fb").is_err());
    assert_eq!(read_under(rules, "/a/%2e%2e%2fb").unwrap().exact, "/b");
    let reject = PathRules {
        encoded_slash: EncodedSlash::Reject,
        ..PathRules::default()
    };
    assert!(read_under(reject, "/a%2fb").is_err());
    assert!(read_under(reject, "/a/b").is_ok());
    let pattern = PathPattern::parse("/API/{id}/Login/")
        .unwrap()
        .under(&rules);
    assert!(matches(&pattern, "/api/x/login"));
}

fn matches(pattern: &PathPattern, path: &str) -> bool {
    captured(pattern, path).is_some()
}

fn captured(pattern: &PathPattern, path: &str) -> Option<Vec<(String, String)>> {
    let path: Vec<_> = segments(path).map(std::borrow::Cow::Borrowed).collect();
    let params = pattern.capture(&path)?;
    Some(
        params
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value.into_owned()))
            .collect(),
    )
}

#[test]
fn patterns_match_whole_segments() {
    for (pattern, yes, no) in [
        ("/", vec!["/"], vec!["/a"]),
        ("/**", vec!["/", "/a", "/a/", "/a/b"], vec![]),
        (
            "/api/**",
            vec!["/api", "/api/", "/api/x/y"],
            vec!["/apis", "/", "/API"],
        ),
        ("/a/*", vec!["/a/b"], vec!["/a", "/a/", "/a/b/", "/a/b/c"]),
        ("/a/", vec!["/a/"], vec!["/a"]),
        (
            "/**/x",
            vec!["/x", "/a/x", "/x/x"],
            vec!["/", "/x/", "/x/a"],
        ),
        (
            "/**/a/**/b/*",
            vec!["/a/b/c", "/a/a/b/b/c", "/q/a/b/b/b/c"],
            vec!["/a/b", "/b/a/c"],
        ),
        ("/a%2fb", vec!["/a%2Fb"], vec!["/a/b"]),
        ("/%7e/é", vec!["/~/%C3%A9"], vec![]),
    ] {
        let parsed = PathPattern::parse(pattern).unwrap();
        for path in yes {
            assert!(matches(&parsed, path), "{pattern} {path}");
        }
        for path in no {
            assert!(!matches(&parsed, path), "{pattern} {path}");
        }
    }
}

#[test]
fn patterns_capture_by_name() {
    let pattern = PathPattern::parse("/users/{id}/**/{file}").unwrap();
    assert_eq!(pattern.params().collect::<Vec<_>>(), ["id", "file"]);
    let pairs = |id: &str, file: &str| {
        Some(vec![
            ("id".to_owned(), id.to_owned()),
            ("file".to_owned(), file.to_owned()),
        ])
    };
    assert_eq!(captured(&pattern, "/users/7/x"), pairs("7", "x"));
    assert_eq!(captured(&pattern, "/users/7/a/b/x"), pairs("7", "x"));
    assert_eq!(captured(&pattern, "/users/7"), None);
}

#[test]
fn patterns_say_what_is_wrong() {
    for (pattern, says) in [
        ("*.jpg", "file endings"),
        ("/images/*.jpg", "whole segment"),
        ("", "empty"),
        ("api", "starts with `/`"),
        ("/a//b", "one slash"),
        ("/{a}/{a}", "twice"),
        ("/{}", "a name has"),
        ("/{a b}", "a name has"),
        ("/x{a}", "whole segment"),
        ("/a?b", "query"),
        ("/a/../b", "resolved first"),
        ("/a/%2e", "resolved first"),
        ("/a b", "%20"),
        ("/a%", "percent-escape"),
        ("/a\\b", "backslash"),
        ("/***", "whole segment"),
    ] {
        let wrong = PathPattern::parse(pattern).unwrap_err();
        assert!(wrong.contains(says), "{pattern}: {wrong}");
    }
}

#[test]
fn patterns_cost_no_more_than_both_lengths() {
    let pattern = PathPattern::parse(&"/**/a".repeat(30)).unwrap();
    assert!(!matches(&pattern, &format!("{}/b", "/a".repeat(20_000))));
}

/// Paths made of what trips normalisers.
fn paths() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("/"),
        Just("/"),
        Just("."),
        Just(".."),
        Just("/../"),
        Just("a"),
        Just("B"),
        Just(";x"),
        Just(";"),
        Just("%2f"),
        Just("%2F"),
        Just("%2e"),
        Just("%2E"),
        Just("%41"),
        Just("%7e"),
        Just("%3b"),
        Just("%20"),
        Just("%25"),
        Just("%c3%a9"),
        Just("é"),
        Just("|"),
        Just("~"),
        Just("%3a"),
        Just(":"),
        Just("%00"),
        Just("%"),
        Just("\\"),
        Just("[")
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| format!("/{}", pieces.concat()))
}

fn all_rules() -> impl Strategy<Value = PathRules> {
    (
        prop_oneof![Just(Case::Exact), Just(Case::Fold)],
        prop_oneof![Just(TrailingSlash::Exact), Just(TrailingSlash::Strip)],
        prop_oneof![Just(Parameters::Keep), Just(Parameters::Strip)],
        prop_oneof![
            Just(EncodedSlash::Keep),
            Just(EncodedSlash::Reject),
            Just(EncodedSlash::Decode)
        ],
    )
        .prop_map(
            |(case, trailing_slash, parameters, encoded_slash)| PathRules {
                case,
                trailing_slash,
                parameters,
                encoded_slash,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn normal_paths_are_normal(path in paths(), rules in all_rules()) {
        let Ok(target) = read_under(rules, &path) else { return Ok(()) };
        let exact = &target.exact;
        let again = read_under(rules, exact).unwrap();
        prop_assert_eq!(&again, &target, "once is enough");
        prop_assert!(exact.starts_with('/'));
        for never in ["//", "/./", "/../", "\\"] {
            prop_assert!(!exact.contains(never), "{}", exact);
        }
        prop_assert!(!exact.ends_with("/.") && !exact.ends_with("/.."));
        for (at, _) in exact.match_indices('%') {
            let hex = &exact[at + 1..at + 3];
            prop_assert_eq!(hex, hex.to_ascii_uppercase());
            prop_assert!(!is_unreserved(u8::from_str_radix(hex, 16).unwrap()));
        }
        prop_assert!(exact.is_ascii());
        prop_assert!(exact.parse::<Uri>().is_ok_and(|uri| uri.path() == exact), "it can be forwarded");
    }

    #[test]
    fn the_wide_reading_does_not_depend_on_case_or_slash(path in paths()) {
        let Ok(target) = read(&path) else { return Ok(()) };
        let wide = &target.wide;
        prop_assert!(wide.starts_with('/') && !wide.contains("//") && !wide.contains(';'));
        prop_assert!(wide == "/" || !wide.ends_with('/'));
        prop_assert_eq!(wide, &widen(&target.exact).unwrap());
        for rules in [
            PathRules { case: Case::Fold, ..PathRules::default() },
            PathRules { trailing_slash: TrailingSlash::Strip, ..PathRules::default() },
        ] {
            prop_assert_eq!(&read_under(rules, &path).unwrap().wide, wide);
        }
    }

    #[test]
    fn short_cuts_change_nothing(path in paths(), rules in all_rules()) {
        if rules.is_exact(&path) {
            prop_assert_eq!(&rules.normalise(&path).unwrap(), &path);
        }
        if let Ok(exact) = rules.normalise(&path) && is_wide(&exact) {
            let folded: Vec<_> = exact.split('/').map(fold_segment).filter(|segment| !segment.is_empty()).collect();
            prop_assert_eq!(join(&folded, false), exact);
        }
    }

    #[test]
    fn a_literal_pattern_matches_its_own_path(path in paths()) {
        let Ok(target) = read(&path) else { return Ok(()) };
        if let Ok(pattern) = PathPattern::parse(&target.exact) {
            prop_assert!(matches(&pattern, &target.exact));
            prop_assert!(matches(&pattern.wide(), &target.wide));
        }
    }
}
