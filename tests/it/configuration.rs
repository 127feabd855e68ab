//! What is refused, at a start and by `check`.

use std::process::Command;

/// The exit code and everything that `sluice ARGUMENTS FILE` says about `yaml`.
fn sluice(arguments: &[&str], yaml: &str) -> (Option<i32>, String) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.yaml");
    std::fs::write(&file, yaml).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(arguments)
        .arg(&file)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

// R44: every bad value is refused at the start and by `check`, with the place and the value.
#[test]
fn bad_values_are_refused() {
    let limit = |fields: &str| {
        format!(
            "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: http://127.0.0.1:9\nlimits:\n  z:\n    per: ip\n{fields}\n"
        )
    };
    let cases = [
        (limit("    allow: 0 per minute"), "0 per minute"),
        (limit("    allow: -1 per minute"), "-1 per minute"),
        (limit("    allow: 1.7 per minute"), "1.7 per minute"),
        (limit("    allow: \"10\""), "10"),
        (limit("    allow: 1e9 per minute"), "1e9"),
        (limit("    allow: 9223372036854775808 per minute"), "9223372036854775808"),
        (limit("    allow: {requests: 5, window: 0s}"), "0s"),
        (limit("    allow: {requests: 5, window: -5s}"), "-5s"),
        (limit("    allow: {requests: 5, window: 1}"), "1"),
        (limit("    allow: 5 per 1year"), "1year"),
        (limit("    allow: 5 per minute\n    algorithm: sliding_windw"), "sliding_windw"),
        (limit("    allow: 5 per minute, burst 0"), "burst 0"),
        (limit("    allow: 5 per minute\n    per: header X Y"), "X Y"),
        (limit("    allow: 5 per minute\n    allow: 6 per minute"), "allow"),
        (limit("    alow: 5 per minute"), "alow"),
        ("limt: {}\nupstream: http://127.0.0.1:9\n".to_owned(), "limt"),
        ("upstream: http://127.0.0.1:9\nstore: etcd://x\n".to_owned(), "etcd"),
        ("upstream: http://127.0.0.1:9\ntrusted_proxies: [\"2001:db8::/129\"]\n".to_owned(), "2001:db8::/129"),
        ("upstreams: {a: http://127.0.0.1:9}\nroutes:\n  - match: /x\n    to: b\n".to_owned(), "b"),
        ("upstreams: {a: http://127.0.0.1:9}\nroutes:\n  - {name: n, match: /x, to: a}\n  - {name: n, match: /y, to: a}\n".to_owned(), "n"),
    ];
    for (yaml, value) in cases {
        let (code, said) = sluice(&["check"], &yaml);
        assert_eq!(code, Some(78), "{yaml}\n{said}");
        assert!(
            said.contains("gateway.yaml:") && said.contains(value) && said.contains('^'),
            "{yaml}\n{said}"
        );
        let (code, started) = sluice(&["run", "-c"], &yaml);
        assert_eq!(code, Some(78), "{yaml}\n{started}");
        assert!(started.contains(value), "{started}");
    }
}

#[test]
fn all_errors_of_a_file_are_told_at_once() {
    let (code, said) = sluice(
        &["check"],
        "listn: 8080\nupstream: http://127.0.0.1:9\nlimits:\n  a:\n    per: ipp\n    allow: 0 per minute\n  b:\n    allow: 5 per fortnight\n    per: ip\n",
    );
    assert_eq!(code, Some(78));
    for (word, hint) in [
        ("listn", "listen"),
        ("ipp", "ip"),
        ("0 per minute", ""),
        ("5 per fortnight", ""),
    ] {
        assert!(
            said.contains(word) && said.contains(hint),
            "{word}:\n{said}"
        );
    }
}

#[test]
fn what_is_not_there_yet_is_refused_and_not_ignored() {
    for field in ["max_connections: 100", "timeouts: {head: 5s}"] {
        let (code, said) = sluice(
            &["check"],
            &format!("upstream: http://127.0.0.1:9\n{field}\n"),
        );
        assert_eq!(code, Some(78), "{field}\n{said}");
        assert!(said.contains("not there yet"), "{field}\n{said}");
    }
}

#[test]
fn check_says_what_a_file_means() {
    let (code, said) = sluice(
        &["check"],
        "upstream: http://127.0.0.1:9\nlimits:\n  a:\n    per: ip\n    allow: 100 per minute, burst 20\n",
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("at most 20 at once, then one every 600 ms"),
        "{said}"
    );
}

#[test]
fn the_shipped_file_is_right() {
    let (code, said) = sluice(&["check"], include_str!("../../gateway.yaml"));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_password_stands_in_no_error() {
    let (code, said) = sluice(
        &["check"],
        "upstream: http://127.0.0.1:9\nstore: redis://u:hush-hush@127.0.0.1:notaport\n",
    );
    assert_eq!(code, Some(78), "{said}");
    assert!(!said.contains("hush-hush"), "{said}");
}
