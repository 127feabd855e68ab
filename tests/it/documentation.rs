//! What the documentation shows works.

use std::process::Command;

use crate::support::Authority;

/// Every block of `language` in a page of Markdown.
fn blocks<'a>(page: &'a str, language: &str) -> Vec<&'a str> {
    let fence = format!("```{language}\n");
    page.split(fence.as_str())
        .skip(1)
        .filter_map(|rest| rest.split("\n```").next())
        .collect()
}

#[test]
fn every_example_is_accepted() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("gateway.yaml");
    let authority = Authority::new();
    authority.sign("gateway", &["gateway"]);
    let etc = authority.dir().display();
    for (name, page) in [
        ("README.md", include_str!("../../README.md")),
        (
            "docs/configuration.md",
            include_str!("../../docs/configuration.md"),
        ),
        ("docs/redis.md", include_str!("../../docs/redis.md")),
    ] {
        let examples = blocks(page, "yaml");
        assert!(!examples.is_empty(), "{name} has examples");
        for table in blocks(page, "csv") {
            std::fs::write(dir.path().join("overrides.csv"), table).unwrap();
        }
        for example in examples {
            // The files that examples name are there, with what belongs into them.
            let example = example.replace("/etc/sluice/", &format!("{etc}/"));
            std::fs::write(&file, &example).unwrap();
            let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
                .arg("check")
                .arg(&file)
                .output()
                .unwrap();
            assert!(
                output.status.success(),
                "{name}:\n{example}\n{}",
                String::from_utf8_lossy(&output.stdout)
            );
        }
    }
}

#[test]
fn the_file_of_the_compose_setup_is_right() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/deploy/gateway.yaml");
    let output = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["check", file])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
}

#[test]
fn the_readme_begins_with_the_two_commands() {
    let commands: Vec<&str> = blocks(include_str!("../../README.md"), "sh")
        .into_iter()
        .flat_map(str::lines)
        .take(2)
        .collect();
    assert_eq!(commands, ["cargo run --release -- demo", "./tests/run"]);
}
