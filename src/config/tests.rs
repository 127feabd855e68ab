use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::{Loaded, Report, from_arguments, load, parse};
use crate::policy::{RedisAddress, Secret, StoreSpec, TlsSpec};
use crate::time::Calendar;

const SHIPPED: &str = include_str!("../../gateway.yaml");

fn no_variables(_: &str) -> Option<String> {
    None
}

fn read(text: &str) -> Result<Loaded, Report> {
    parse("gateway.yaml", text, &no_variables)
}

fn with_limit(fields: &str) -> String {
    format!("upstream: http://localhost:3000\nlimits:\n  x: {{per: ip, {fields}}}\n")
}

#[test]
fn the_shipped_file_compiles_without_a_warning() {
    let loaded = read(SHIPPED).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.warnings.len(), 0, "{}", loaded.warnings);
    assert!(
        loaded
            .explain()
            .contains("100 per minute, burst 20: at most 20 at once, then one every 600 ms")
    );
    let amounts = |name: &str| {
        loaded
            .policy
            .limits
            .iter()
            .find(|limit| *limit.name == *name)
            .unwrap()
            .amounts
            .clone()
    };
    assert_eq!(&*amounts("per-ip")[0].code, "tb60s");
    assert_eq!(&*amounts("logins")[0].code, "sw3600s");
    assert_eq!(&*amounts("per-user")[0].shown_as, "per-user-1s");
    assert_eq!(&*amounts("per-user")[1].shown_as, "per-user-1h");
    assert_eq!(&*amounts("exports")[0].code, "lb1s");
}

#[test]
fn the_shortest_file_is_one_route_for_everything() {
    let loaded = read(&with_limit("allow: 100 per minute")).unwrap();
    assert_eq!(&*loaded.policy.upstreams[0].name, "default");
    assert_eq!(loaded.policy.routes.len(), 1);
    assert_eq!(&*loaded.policy.limits[0].per_words, "client address");
    assert_eq!(loaded.policy.limits[0].amounts[0].quota, 100);
}

/// Every bad value that users of other gateways saw accepted.
#[test]
fn bad_amounts_and_windows_are_refused() {
    for amount in [
        "0",
        "-1",
        "1.7",
        "\"10\"",
        "1e9",
        "9223372036854775808",
        "0 per minute",
        "-1 per minute",
        "10",
    ] {
        let report = read(&with_limit(&format!("allow: {amount}"))).unwrap_err();
        let line = report.lines().next().unwrap();
        assert!(
            line.starts_with("gateway.yaml:3:23: ") && !line.contains("not YAML"),
            "{amount}: {line}"
        );
    }
    for requests in ["0", "-1", "1.7", "\"10\"", "1e9", "9223372036854775808"] {
        let report = read(&with_limit(&format!(
            "allow: {{requests: {requests}, window: 1m}}"
        )))
        .unwrap_err();
        assert_eq!(report.len(), 1, "{requests}: {report}");
    }
    for window in ["0s", "-5s", "1", "1year", "10 s", "0"] {
        let report = read(&with_limit(&format!(
            "allow: {{requests: 10, window: {window}}}"
        )))
        .unwrap_err();
        assert_eq!(report.len(), 1, "{window}: {report}");
    }
    for text in [
        "upstream: http://h\nlimt: {}\n",
        "upstream: http://h\nlimits: {x: {per: ip, allow: 1/s, algorithm: magic}}\n",
        "upstream: http://h\nstore: postgres://h\n",
        "upstream: http://h\nlimits: {x: {per: header a b, allow: 1/s}}\n",
        "upstreams: {a: http://h}\nroutes: [{match: /x, to: a}, {match: /x, to: a}]\n",
        "upstream: http://h\nupstream: http://h\n",
        "upstream: http://h\ntrusted_proxies: [2001:db8::/129]\n",
    ] {
        let report = read(text).unwrap_err();
        assert_eq!(report.len(), 1, "{report}");
        assert!(
            report.lines().next().unwrap().starts_with("gateway.yaml:"),
            "{report}"
        );
    }
}

#[test]
fn the_text_of_a_scalar_counts_as_written() {
    let text = "upstream: http://h\nsecret: 00123\naccess_log: off\nstore: {redis: unix:///r.sock, prefix: 1e3}\n";
    let loaded = read(text).unwrap();
    assert_eq!(loaded.policy.secret.unwrap().expose(), "00123");
    assert!(loaded.policy.access_log.is_none());
    let StoreSpec::Redis(redis) = loaded.policy.store else {
        panic!("a Redis")
    };
    assert_eq!(
        (&*redis.prefix, redis.address),
        ("1e3", RedisAddress::Unix("/r.sock".into()))
    );
}

#[test]
fn anchors_merge_keys_defaults_and_variables_work() {
    let text = "
x-common: &common {per: ip, mode: shadow, allow: '${UNSET}'}
x-other: {if_down: &down deny}
upstream: http://${HOST:-localhost}:${PORT}
defaults: {if_missing: skip}
limits:
  a: {<<: *common, allow: 1/s}
  b: {<<: [{mode: enforce}, *common], allow: 2/s, if_down: *down}
";
    let env = |name: &str| (name == "PORT").then(|| "3000".to_owned());
    let loaded = parse("f", text, &env).unwrap_or_else(|report| panic!("{report}"));
    assert_eq!(loaded.policy.upstreams[0].servers[0].port, 3000);
    assert_eq!(
        loaded.policy.limits[0].mode,
        crate::policy::LimitMode::Shadow
    );
    assert_eq!(
        loaded.policy.limits[1].mode,
        crate::policy::LimitMode::Enforce
    );
    assert_eq!(loaded.policy.limits[1].if_down, crate::policy::IfDown::Deny);
    assert_eq!(
        loaded.policy.limits[1].per.if_missing,
        crate::limit::key::IfMissing::Skip
    );
}

#[test]
fn a_calendar_stands_beside_other_amounts_and_says_so_in_the_key() {
    let loaded = read(&with_limit(
        "allow: [10 per second, 1000 per calendar day in Europe/Paris, 9 per calendar month]",
    ))
    .unwrap();
    let amounts = &loaded.policy.limits[0].amounts;
    let codes: Vec<&str> = amounts.iter().map(|amount| &*amount.code).collect();
    assert_eq!(codes, ["sw1s", "cal-day-Europe/Paris", "cal-month"]);
    let name = &loaded.policy.limits[0].name;
    let shown: Vec<String> = amounts
        .iter()
        .map(|amount| amount.shown_as.replace(&**name, "x"))
        .collect();
    assert_eq!(shown, ["x-1s", "x-day", "x-month"]);
    let windows: Vec<_> = amounts.iter().map(|amount| amount.window).collect();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    assert_eq!(windows, [seconds(1), seconds(86_400), None]);
    let text = loaded.explain();
    for sentence in [
        "1000 per calendar day in Europe/Paris: from midnight to midnight there",
        "9 per calendar month: from the first to the first, midnight UTC",
    ] {
        assert!(text.contains(sentence), "{text}");
    }
}

#[test]
fn the_sum_of_what_gateways_admit_on_their_own_is_said() {
    let store = |fields: &str| format!("store: {{redis: redis://cache{fields}}}\n");
    let limit = with_limit("allow: '100 per minute, burst 20'");
    let says = |text: String| read(&text).unwrap().explain();
    let text = says(store(", instances: 3") + &limit);
    let shares = "while the store is away: each of 3 gateways counts 34 of 100 per minute (20 at once), so 102 together (and 7 at once, so 21)";
    assert!(text.contains(shares), "{text}");
    let text = says(store("") + &limit);
    let seen =
        "while the store is away: each gateway counts on its own, its share among those last seen";
    assert!(text.contains(seen), "{text}");
    let plans = "allow: 10/s, plans: {from: header X-Plan, pro: 100/s}";
    let text = says(store(", instances: 2") + &with_limit(plans));
    let halves = "5 of 10 per second, so 10 together; plans and overrides likewise";
    assert!(text.contains(halves), "{text}");
}

#[test]
fn every_zone_makes_a_code_without_the_marks_of_a_key() {
    for zone in Calendar::zones() {
        let marks = |c: char| matches!(c, ':' | '{' | '}' | ',' | '@' | '=' | ' ');
        assert!(!zone.contains(marks), "{zone}");
    }
}

#[test]
fn bombs_and_depth_are_refused() {
    let mut bomb = String::from("x-a: &a0 [1, 2, 3, 4, 5, 6, 7, 8, 9]\n");
    for i in 1..20 {
        let alias = format!("*a{}", i - 1);
        bomb.push_str(&format!(
            "x-a{i}: &a{i} [{}]\n",
            [alias.as_str(); 9].join(", ")
        ));
    }
    let report = read(&bomb).unwrap_err();
    assert!(
        report.to_string().contains("stand for too much"),
        "{report}"
    );
    assert!(read(&format!("x-a: {}{}", "[".repeat(200), "]".repeat(200))).is_err());
    assert!(read("x-a: &a [*a]").is_err());
}

#[test]
fn no_report_shows_a_secret() {
    for text in [
        "store: redis://:hunter2@h/x\n",
        "store: {redis: redis://u:hunter2@h, unknown: 1}\n",
        "store: {redis: redis://h, pasword: hunter2}\n",
        "store: {redis: 'redis://:hunter2 x@h'}\n",
        "store: {redis: rediss://u:hunter2@h}\n",
        "store: redis://u:hunter2@h:99999\n",
        "secret: [hunter2]\n",
        "secret: {a: hunter2}\n",
        "secret: hunter2\nsecret: hunter2\n",
        "store: {redis: redis://a:b@h, password: hunter2}\n",
        "store: {memory: {}, password: \"hunter2\"}\n",
        "store:\n  redis: redis://h\n  password: hunter2: x\n",
        "password: *hunter2\n",
        "upstream: http://u:hunter2@h\n",
        "upstreams: {a: http://h}\nroutes: [{match: /, to: 'http://u:hunter2@h'}]\n",
        "sercet: hunter2\n",
    ] {
        let report = read(text).unwrap_err();
        assert!(!report.to_string().contains("hunter2"), "{text}\n{report}");
        assert!(
            !report.lines().any(|line| line.contains("hunter2")),
            "{text}\n{report}"
        );
    }
    let loaded = read("upstream: http://h\nstore: redis://u:hunter2@h\nsecret: hunter2\n").unwrap();
    assert!(!format!("{loaded:?}").contains("hunter2"));
    assert!(!loaded.explain().contains("hunter2"));
}

#[test]
fn the_environment_is_not_shown_either() {
    let env = |_: &str| Some("hunter2".to_owned());
    for text in [
        "store: 'redis://:${P}@'\n",
        "store: {redis: 'redis://:${P}@h/x'}\n",
        "store: '${P}'\n",
    ] {
        let report = parse("f", text, &env).unwrap_err();
        assert!(!report.to_string().contains("hunter2"), "{report}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    assert!(load(Path::new("/nonexistent/gateway.yaml"), &no_variables).is_err());
    assert!(read("").is_err());
    assert!(read("# nothing\n").is_err());
    assert!(read("- a\n").is_err());
    assert!(read("a: 1\n---\nb: 2\n").is_err());
}

#[test]
fn arguments_mean_what_a_file_would() {
    let loaded = |limit: &str| from_arguments("localhost:3000", &[limit.to_owned()]);
    let limit = |text: &str| {
        let loaded = loaded(text).unwrap_or_else(|report| panic!("{report}"));
        loaded
            .explain()
            .lines()
            .skip_while(|line| !line.starts_with("  limit-1"))
            .take(2)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert_eq!(
        limit("100 per minute per ip"),
        "  limit-1: every request, per client address\n    100 per minute: never more than 100 in any 1m"
    );
    assert!(
        limit("POST /login: 5 per hour per ip")
            .contains("limit-1: POST /login, per client address")
    );
    assert!(
        limit("/api/**: 10/s, burst 20 per header X-User")
            .contains("limit-1: /api/**, per header X-User")
    );
    assert!(limit("POST 5 per hour per ip").contains("limit-1: method POST, per client address"));
    assert!(limit("10/s per ip, path").contains("per client address and path"));
    assert!(limit("unlimited per ip").contains("unlimited"));
    for text in [
        "",
        "100",
        "100 per minute",
        "per ip",
        "100 per minute per ipp",
        "x: 1/s per ip",
        "0/s per ip",
    ] {
        let report = loaded(text).unwrap_err();
        assert!(
            report.lines().all(|line| line.starts_with("--limit:1:")),
            "{text}: {report}"
        );
    }
    assert!(from_arguments("ftp://x", &[]).is_err());
    assert_eq!(from_arguments("http://x", &[]).unwrap().warnings.len(), 1);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        if let Err(report) = read(&text) {
            prop_assert!(!report.is_empty());
            prop_assert!(!report.render(super::Colour::On).is_empty());
        }
    }

    #[test]
    fn no_change_of_the_shipped_file_makes_it_panic(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0_usize..12, "[-a-z0-9:,{}*&!|>'\"#\\[\\]\n /$é]{0,6}"), 1..6)
    ) {
        let mut text: Vec<char> = SHIPPED.chars().collect();
        for (at, length, new) in cuts {
            let at = at.index(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        if let Err(report) = read(&text) {
            prop_assert!(!report.to_string().is_empty());
        }
    }
}

#[test]
fn included_files_add_their_sections() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/config/include");
    let main = folder.join("main.yaml");
    let loaded = load(&main, &no_variables).unwrap_or_else(|report| panic!("{report}"));
    let limits: Vec<&str> = loaded
        .policy
        .limits
        .iter()
        .map(|limit| &*limit.name)
        .collect();
    let routes: Vec<&str> = loaded
        .policy
        .routes
        .iter()
        .map(|route| &*route.name)
        .collect();
    assert_eq!(limits, ["main", "from-a", "from-b"]);
    assert_eq!(routes, ["/main", "/a", "/b"]);
    assert_eq!(loaded.files.len(), 3);
    let report = load(&folder.join("conflict.yaml"), &no_variables)
        .unwrap_err()
        .to_string();
    assert!(
        report.contains("`from-a` is given in two files"),
        "{report}"
    );
    assert!(
        report.contains("conflict.yaml:6:3") && report.contains("a.yaml:6:3"),
        "{report}"
    );
    assert!(
        report.contains("an included file has no field `listen`"),
        "{report}"
    );
}

#[test]
fn so_much_at_once_is_said_in_words_and_has_no_window() {
    let several = with_limit("allow: [20 concurrent, 10 per second]");
    let loaded = read(&several).unwrap();
    let text = loaded.explain();
    assert!(
        text.contains("20 concurrent: at most 20 at once, each until its answer has ended"),
        "{text}"
    );
    let [slots, rate] = &loaded.policy.limits[0].amounts[..] else {
        panic!("two amounts")
    };
    let shown = [&*slots.shown_as, &*rate.shown_as];
    assert_eq!(shown, ["x-concurrent", "x-1s"]);
    assert_eq!((&*slots.code, slots.window), ("cc", None));
    let alone = from_arguments("localhost:3000", &["20 concurrent per ip".to_owned()]).unwrap();
    assert_eq!(&*alone.policy.limits[0].amounts[0].words, "20 at once");
}

#[test]
fn a_large_file_takes_no_time() {
    let mut text = String::from("upstream: http://h\nlimits:\n");
    for i in 0..20_000 {
        text.push_str(&format!("  l{i}: {{per: ip, allow: 1/s, color: {i}}}\n"));
    }
    let start = std::time::Instant::now();
    let report = read(&text).unwrap_err();
    assert_eq!(report.len(), 20_000);
    assert!(report.to_string().contains("and 19800 more"));
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn a_master_is_found_by_its_sentinels() {
    let text = "upstream: http://h
store:
  sentinel: {master: mymaster, nodes: [rediss://:guard@10.0.0.1, rediss://10.0.0.2:7000]}
  password: word
";
    let loaded = read(text).unwrap_or_else(|report| panic!("{report}"));
    let said = loaded.explain();
    assert!(
        said.contains("in Redis at the master `mymaster` of the sentinels 10.0.0.1:26379, 10.0.0.2:7000 with TLS, database 0"),
        "{said}"
    );
    assert!(!said.contains("guard") && !said.contains("word"), "{said}");
    let StoreSpec::Redis(redis) = loaded.policy.store else {
        panic!("a Redis")
    };
    assert_eq!(redis.tls, Some(TlsSpec::default()));
    assert_eq!(redis.password, Some(Secret::new("word")));
    let RedisAddress::Sentinel(sentinels) = redis.address else {
        panic!("sentinels")
    };
    assert_eq!(sentinels.nodes[0].password, Some(Secret::new("guard")));
    assert_eq!(sentinels.nodes[1].password, None);
}

#[test]
fn says_what_a_request_costs() {
    let file = "upstream: http://a:1
limits:
  plain: {per: ip, allow: 100/s, cost: 1}
  number: {per: ip, allow: 100/s, cost: 5}
  kinds: {per: ip, allow: 100/s, cost: {POST /search: 10, from 10.0.0.0/8: 3}}
  proxy: {per: ip, allow: 100/s, cost: 'request header x-cost, at most 50, else 2'}
  header: {per: ip, allow: 100/s, cost: 'response header X-Cost, at most 50'}
  trailer: {per: ip, allow: 100/s, cost: 'response trailer x-cost,  at most  50'}
  json: {per: ip, allow: 100/s, cost: 'response json usage.total_tokens, at most 50'}
";
    let text = read(file)
        .unwrap_or_else(|report| panic!("{report}"))
        .explain();
    let costs: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| line.contains("cost"))
        .collect();
    assert_eq!(
        costs,
        [
            "a request costs 5",
            "POST /search costs 10, from 10.0.0.0/8 costs 3, any other request 1",
            "a request costs what a trusted proxy says in X-Cost, at most 50, and 2 where none does",
            "a request is charged 50 until the answer says in its header X-Cost what it cost",
            "a request is charged 50 until the answer says in its trailer X-Cost what it cost",
            "a request is charged 50 until the answer says in its JSON at usage.total_tokens what it cost",
        ]
    );
}
