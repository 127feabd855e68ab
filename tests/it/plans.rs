//! Who gets which amount: plans and overrides, in memory and in Redis.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::support::{
    ALGORITHMS, Client, Gateway, RedisServer, Response, Upstream, code, codes, eventually,
};

fn stores(redis: &RedisServer) -> [String; 2] {
    ["store: memory".to_owned(), redis.store()]
}

fn get(gateway: &Gateway, fields: &[&str]) -> Response {
    Client::connect(gateway.address).send("GET", "/", fields, b"")
}

/// `r` of the one limit that an answer names.
fn left(answer: &Response) -> u64 {
    let state = answer.field("ratelimit").expect("a limit is named");
    let after = state.split(";r=").nth(1).unwrap();
    after.split(';').next().unwrap().parse().unwrap()
}

/// The `q` that an answer names.
fn quota(answer: &Response) -> u64 {
    let policy = answer.field("ratelimit-policy").expect("a limit is named");
    let after = policy.split(";q=").nth(1).unwrap();
    after.split(';').next().unwrap().parse().unwrap()
}

#[test]
fn a_key_whose_plan_changes_keeps_what_it_has_used() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in stores(&redis) {
        for algorithm in ALGORITHMS {
            redis.command(&["FLUSHALL"]);
            let gateway = Gateway::start(&format!(
                "{store}\nupstream: {}\ntrusted_proxies: [127.0.0.1]\nplan: trusted header X-Plan\nlimits:\n  a:\n    per: header X-User\n    algorithm: {algorithm}\n    allow: 1 per 10 days\n    plans: {{free: 25 per 10 days, pro: 100 per 10 days}}\n",
                upstream.url()
            ));
            let mut client = Client::connect(gateway.address);
            let mut ask = |plan: &str| {
                client.send(
                    "GET",
                    "/",
                    &["X-User: acme", &format!("X-Plan: {plan}")],
                    b"",
                )
            };
            let free: Vec<u64> = (0..20).map(|_| left(&ask("free"))).collect();
            assert_eq!(
                free,
                (5..25).rev().collect::<Vec<_>>(),
                "{algorithm} {store}"
            );

            let pro = ask("pro");
            assert_eq!((quota(&pro), left(&pro)), (100, 79), "{algorithm} {store}");
            let pro: Vec<u64> = (0..20).map(|_| left(&ask("pro"))).collect();
            assert_eq!(
                pro,
                (59..79).rev().collect::<Vec<_>>(),
                "{algorithm} {store}"
            );

            let free = ask("free");
            assert_eq!(
                (free.status, quota(&free), left(&free)),
                (429, 25, 0),
                "{algorithm} {store}"
            );
            assert!(
                free.text()
                    .contains("at most 25 per 10 days per header X-User"),
                "{}",
                free.text()
            );
            let other = ask("gold");
            assert_eq!(
                (other.status, quota(&other), left(&other)),
                (429, 1, 0),
                "{algorithm} {store}"
            );
            assert_eq!(
                left(&ask("pro")),
                58,
                "a rejection spends nothing: {algorithm} {store}"
            );
        }
    }
}

#[test]
fn a_key_that_gets_or_loses_an_override_keeps_what_it_has_used() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in stores(&redis) {
        for algorithm in ALGORITHMS {
            redis.command(&["FLUSHALL"]);
            let yaml = |overrides: &str| {
                format!(
                    "{store}\nupstream: {}\nlimits:\n  a:\n    per: header X-User\n    algorithm: {algorithm}\n    allow: 5 per 10 days\n{overrides}",
                    upstream.url()
                )
            };
            let gateway = Gateway::start(&yaml(""));
            let ask = || get(&gateway, &["X-User: acme"]);
            assert_eq!([left(&ask()), left(&ask()), left(&ask())], [4, 3, 2]);
            let more = yaml("    overrides: [{key: acme, allow: 9 per 10 days}]\n");
            gateway.reload(&more, "ok");
            assert_eq!(
                [left(&ask()), left(&ask()), left(&ask())],
                [5, 4, 3],
                "{algorithm} {store}"
            );
            gateway.reload(
                &yaml("    plans: {from: header X-Plan, free: 7 per 10 days}\n"),
                "ok",
            );
            let rejected = ask();
            assert_eq!(
                (rejected.status, left(&rejected)),
                (429, 0),
                "{algorithm} {store}"
            );
            assert_eq!(
                left(&get(&gateway, &["X-User: acme", "X-Plan: free"])),
                0,
                "{algorithm} {store}"
            );
        }
    }
}

#[test]
fn only_a_trusted_peer_names_a_plan() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\ntrusted_proxies: [127.0.0.2]\nplan: trusted header X-Plan\nlimits:\n  a:\n    per: header X-User\n    allow: 3 per hour\n    plans: {{free: 30 per hour, partner: unlimited}}\n",
        upstream.url()
    ));
    let ask = |source: [u8; 4], fields: &[&str]| {
        let mut client = Client::connect_from(source, gateway.address);
        client.send("GET", "/", &[&["X-User: acme"], fields].concat(), b"")
    };
    let (trusted, anyone) = ([127, 0, 0, 2], [127, 0, 0, 1]);
    assert_eq!(quota(&ask(trusted, &["X-Plan: free"])), 30);
    assert_eq!(
        quota(&ask(trusted, &["X-Plan:  \tfree "])),
        30,
        "blanks do not count"
    );
    assert_eq!(quota(&ask(anyone, &["X-Plan: free"])), 3);
    for fields in [&["X-Plan: Free"][..], &["X-Plan:"], &["X-Plan: gold"], &[]] {
        assert_eq!(quota(&ask(trusted, fields)), 3, "{fields:?}");
    }
    let partner = ask(trusted, &["X-Plan: partner"]);
    assert_eq!((partner.status, partner.field("ratelimit")), (200, None));

    let twice = ask(trusted, &["X-Plan: free", "X-Plan: partner"]);
    assert_eq!(twice.status, 400);
    assert!(
        twice
            .text()
            .contains("says twice which plan it has: trusted header X-Plan"),
        "{}",
        twice.text()
    );
    assert_eq!(
        ask(anyone, &["X-Plan: free", "X-Plan: partner"]).status,
        429,
        "it is not read"
    );
}

#[test]
fn a_plan_may_come_from_elsewhere() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\nplan: header X-Plan\nlimits:\n  a:\n    when: /t/{{tenant}}\n    per: ip\n    allow: 2 per hour\n    plans:\n      from: param tenant or cookie plan\n      acme: 8 per hour\n  b:\n    when: /b\n    per: ip\n    allow: 2 per hour\n    plans: {{from: cookie plan or query plan, pro: 9 per hour}}\n",
        upstream.url()
    ));
    let ask = |path: &str, fields: &[&str]| {
        quota(&Client::connect(gateway.address).send("GET", path, fields, b""))
    };
    assert_eq!(ask("/t/acme", &["X-Plan: none"]), 8);
    assert_eq!(
        ask("/t/other", &["Cookie: plan=acme"]),
        2,
        "the first that is there counts"
    );
    assert_eq!(ask("/b", &["Cookie: plan=pro", "X-Plan: none"]), 9);
    assert_eq!(ask("/b?plan=pro", &[]), 9);
    assert_eq!(ask("/b", &["X-Plan: pro"]), 2);
}

#[test]
fn a_credential_is_named_by_its_hash() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    let hash = |text: &str| -> String {
        Sha256::digest(text)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    for store in stores(&redis) {
        redis.command(&["FLUSHALL"]);
        let hex = hash("bearer s3cret");
        let gateway = Gateway::start(&format!(
            "{store}\nupstream: {}\nlimits:\n  a:\n    per: header Authorization\n    allow: 2 per hour\n    overrides:\n      - {{key: \"sha256:{hex}\", allow: 7 per hour}}\n      - {{key: BASIC alice, allow: 8 per hour}}\n      - {{key: Token plain, skip: true}}\n",
            upstream.url()
        ));
        let ask = |value: &str| get(&gateway, &[&format!("Authorization: {value}")]);
        assert_eq!(quota(&ask("Bearer s3cret")), 7);
        assert_eq!(left(&ask("BEARER   s3cret ")), 5, "the same key");
        assert_eq!(quota(&ask("Bearer s3cret2")), 2);
        assert_eq!(quota(&ask(&format!("Bearer {hex}"))), 2);
        assert_eq!(quota(&ask("Basic YWxpY2U6cHc=")), 8, "alice:pw");
        assert_eq!(ask("token plain").field("ratelimit"), None);
        let metrics = gateway.metrics();
        assert_eq!(
            metrics.value("sluice_decisions_total{limit=\"a\",decision=\"skipped\"}"),
            1.0
        );
        for secret in ["s3cret", "alice", "plain", hex.as_str()] {
            assert!(!gateway.log().contains(secret), "{}", gateway.log());
            assert!(
                redis.keys().iter().all(|key| !key.contains(secret)),
                "{:?}",
                redis.keys()
            );
        }
    }
}

#[test]
fn overrides_are_found_by_network_and_by_several_parts() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&format!(
        "upstream: {}\ntrusted_proxies: [127.0.0.1]\nlimits:\n  net:\n    when: /net\n    per: ip\n    allow: 2 per hour\n    overrides:\n      - {{key: 10.0.0.0/8, allow: 10 per hour}}\n      - {{key: 10.1.0.0/16, allow: 11 per hour}}\n      - {{key: 10.1.2.3, allow: unlimited}}\n      - {{key: \"2001:db8:1:2::9\", allow: 12 per hour}}\n      - {{key: \"2001:db8::/32\", allow: 13 per hour}}\n  parts:\n    when: /parts/**\n    per: [header X-User, path]\n    allow: 2 per hour\n    overrides:\n      - {{key: [acme, /Parts/A/], allow: 20 per hour}}\n      - {{key: [globex, /parts/a], skip: true}}\n  either:\n    when: /either\n    per: header X-User or ip\n    allow: 2 per hour\n    overrides:\n      - {{key: 10.0.0.1, allow: 30 per hour}}\n      - {{key: acme, allow: 31 per hour}}\n  missing:\n    when: /missing\n    per: header X-User\n    allow: 2 per hour\n    overrides: [{{key: 127.0.0.1, skip: true}}]\n",
        upstream.url()
    ));
    let ask = |path: &str, fields: &[&str]| {
        Client::connect(gateway.address).send("GET", path, fields, b"")
    };
    for (address, amount) in [
        ("10.2.0.1", 10),
        ("::ffff:10.2.0.2", 10),
        ("10.1.2.4", 11),
        ("192.0.2.1", 2),
        ("2001:db8:1:2::1", 12),
        ("2001:db8:1:3::1", 13),
        ("2001:db9::1", 2),
    ] {
        let answer = ask("/net", &[&format!("X-Forwarded-For: {address}")]);
        assert_eq!(quota(&answer), amount, "{address}");
    }
    let free = ask("/net", &["X-Forwarded-For: 10.1.2.3"]);
    assert_eq!((free.status, free.field("ratelimit")), (200, None));

    assert_eq!(quota(&ask("/parts/a", &["X-User: acme"])), 20);
    assert_eq!(quota(&ask("/parts/b", &["X-User: acme"])), 2);
    assert_eq!(quota(&ask("/parts/a", &[])), 2, "a part is missing");
    assert_eq!(
        ask("/parts/a", &["X-User: globex"]).field("ratelimit"),
        None
    );

    let from = "X-Forwarded-For: 10.0.0.1";
    assert_eq!(quota(&ask("/either", &[from])), 30);
    assert_eq!(quota(&ask("/either", &[from, "X-User: acme"])), 31);
    assert_eq!(
        quota(&ask("/either", &["X-User: 10.0.0.1"])),
        2,
        "a client does not become another's address"
    );

    assert_eq!(
        codes(3, gateway.address, "/missing", &[]),
        [200, 200, 429],
        "a missing key has no override"
    );
    assert_eq!(
        code(gateway.address, "/missing", &["X-User: 127.0.0.1"]),
        200
    );
}

#[test]
fn an_override_wins_over_a_plan_and_each_has_its_bursts() {
    let (redis, upstream) = (RedisServer::start(), Upstream::echo());
    for store in stores(&redis) {
        redis.command(&["FLUSHALL"]);
        let gateway = Gateway::start(&format!(
            "{store}\nupstream: {}\nlimits:\n  a:\n    per: header X-User\n    allow:\n      - 10 per 5 hours, burst 2\n      - 1000 per 10 days\n    plans:\n      from: query plan\n      pro:\n        - 1000 per 10 days\n        - 20 per 5 hours, burst 4\n    overrides:\n      - key: acme\n        allow: [\"30 per 5 hours, burst 6\", \"1000 per 10 days, burst 5\"]\n",
            upstream.url()
        ));
        let passed = |user: &str, path: &str| {
            let user = format!("X-User: {user}");
            let statuses = codes(8, gateway.address, path, &[&user]);
            statuses.iter().filter(|status| **status == 200).count()
        };
        assert_eq!(passed("one", "/"), 2, "{store}");
        assert_eq!(passed("two", "/?plan=pro"), 4, "{store}");
        assert_eq!(passed("acme", "/?plan=pro"), 5, "{store}");
        let answer =
            Client::connect(gateway.address).send("GET", "/?plan=pro", &["X-User: three"], b"");
        assert_eq!(
            answer.field("ratelimit-policy"),
            Some("\"a-5h\";q=20;w=18000;sluice-burst=4, \"a-10d\";q=1000;w=864000")
        );
    }
}

#[test]
fn a_table_of_overrides_is_read_and_read_again() {
    let upstream = Upstream::echo();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let (new, file) = (dir.path().join("new"), dir.path().join(name));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &file).unwrap();
        file
    };
    let table = |acme: &str| {
        let many: String = (0..5_000)
            .map(|at| format!("user-{at},{} per hour\n", 10 + at % 7))
            .collect();
        format!("{many}acme,{acme}\n\"say \"\"hi\"\"\",skip\r\n")
    };
    write("overrides.csv", &table("40 per hour"));
    let file = write(
        "gateway.yaml",
        &format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: {}\nlimits:\n  a:\n    per: header X-User\n    allow: 2 per hour\n    overrides: file:overrides.csv\n",
            upstream.url()
        ),
    );
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sluice"));
    command.args(["run", "-c"]).arg(&file);
    let table_of = dir.path().join("overrides.csv");
    let replace = move |text: &str| {
        let new = table_of.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &table_of).unwrap();
    };
    let gateway = Gateway::spawn(command, dir);
    let ask = |user: &str| get(&gateway, &[&format!("X-User: {user}")]);
    assert_eq!(quota(&ask("acme")), 40);
    assert_eq!(quota(&ask("user-4999")), 11);
    assert_eq!(quota(&ask("user-5000")), 2);
    assert_eq!(ask("say \"hi\"").field("ratelimit"), None);

    let reloads = |result: &str, times: f64| {
        let series = format!("sluice_config_reloads_total{{result=\"{result}\"}}");
        eventually("the table is read again", Duration::from_secs(20), || {
            (gateway.metrics().value(&series) >= times).then_some(())
        });
    };
    replace(&table("41 per hour"));
    reloads("ok", 1.0);
    let acme = ask("acme");
    assert_eq!((quota(&acme), left(&acme)), (41, 39), "what was used stays");
    replace(&table("41 per hout"));
    reloads("invalid", 1.0);
    assert_eq!(quota(&ask("acme")), 41);
    assert!(
        gateway.log().contains("overrides.csv:5001:"),
        "{}",
        gateway.log()
    );
    assert!(!gateway.log().contains("acme"), "a key may be a credential");
    replace("acme,42 per hour\n");
    reloads("ok", 2.0);
    assert_eq!((quota(&ask("acme")), quota(&ask("user-4999"))), (42, 2));
}

#[test]
fn check_says_who_gets_what() {
    let yaml = "upstream: http://localhost:3000\ntrusted_proxies: [10.0.0.0/8]\nplan: trusted header X-Plan\nlimits:\n  a:\n    per: header X-User\n    allow: 10 per minute\n    plans: {free: 100 per minute, partner: unlimited}\n    overrides: [{key: x, allow: 5 per minute}, {key: y, allow: 5 per minute}, {key: z, skip: true}]\n";
    let loaded = sluice::config::parse("gateway.yaml", yaml, &|_| None).unwrap();
    let words = loaded.explain();
    for line in [
        "    10 per minute: never more than 10 in any 1m\n",
        "    but by plan, which trusted header X-Plan names, if it is one of these:\n",
        "      free: 100 per minute: never more than 100 in any 1m\n",
        "      partner: unlimited\n",
        "    but 2 keys have amounts of their own\n",
        "    but 1 key is not counted\n",
    ] {
        assert!(words.contains(line), "{line}{words}");
    }
    assert_eq!(loaded.policy.limits[0].amounts.len(), 3, "each amount once");
}
