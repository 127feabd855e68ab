//! The shape of the house: which module may use which, who names which crate, and how long a file is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A module uses only modules of lower lines, never another of its own line or above. The first line is the lowest.
const LAYERS: [&[&str]; 11] = [
    &["time", "request"],
    &["limit", "route", "identify"],
    &["policy", "telemetry"],
    &["store", "upstream", "config"],
    &["snapshot", "limiter"],
    &["gateway"],
    &["server"],
    &["reload", "admin"],
    &["app"],
    &["cli"],
    &["main"],
];

/// Crates that are named in one module, and how the paths of its files begin.
const NAMED_ONCE: [(&str, &str); 3] = [
    ("redis", "src/store/redis"),
    ("serde_yaml", "src/config/"),
    ("prometheus", "src/telemetry/metrics.rs"),
];

/// The most lines of a file, tests not counted.
const LONGEST: usize = 400;

/// A file of `src/`, without its comments and tests.
struct Source {
    /// From the root of the repository, with slashes.
    path: String,
    code: String,
    lines: usize,
}

impl Source {
    /// The module of the layer table that it belongs to.
    fn module(&self) -> &str {
        let name = self.path.trim_start_matches("src/");
        name.split(['/', '.']).next().unwrap()
    }
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|line| line.contains(&module))
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    files.sort();
    let texts: Vec<_> = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap())
        .collect();
    let tests: BTreeSet<_> = files
        .iter()
        .zip(&texts)
        .flat_map(|(file, text)| test_files(file, text))
        .collect();
    let is_test = |file: &Path| {
        tests
            .iter()
            .any(|test| file.starts_with(test) || file == test.with_extension("rs"))
    };
    let source = |(file, text): (&PathBuf, &String)| {
        let product = without_tests(text);
        let code = product
            .iter()
            .map(|line| without_comment(line))
            .collect::<Vec<_>>()
            .join("\n");
        let path = file
            .strip_prefix(root)
            .unwrap()
            .to_str()
            .unwrap()
            .replace('\\', "/");
        Source {
            path,
            code,
            lines: product.len(),
        }
    };
    files
        .iter()
        .zip(&texts)
        .filter(|(file, _)| !is_test(file))
        .map(source)
        .collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|end| end == "rs") {
            files.push(path);
        }
    }
}

/// The modules that `text` declares for tests only, as paths without an end.
fn test_files(file: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match file.file_stem().unwrap().to_str().unwrap() {
        "lib" | "main" => file.parent().unwrap().to_owned(),
        _ => file.with_extension(""),
    };
    let mut found = Vec::new();
    let mut for_tests = false;
    for line in text.lines() {
        let declared = line
            .strip_suffix(';')
            .and_then(|line| line.rsplit_once("mod "));
        if let (true, Some((_, name))) = (for_tests, declared) {
            found.push(folder.join(name));
        }
        for_tests = line.trim() == "#[cfg(test)]";
    }
    found
}

/// The lines outside of `#[cfg(test)] mod tests { .. }`, whose end is a brace in the first column.
fn without_tests(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let block = lines
            .peek()
            .is_some_and(|next| next.contains("mod ") && next.ends_with('{'));
        if line == "#[cfg(test)]" && block {
            lines.by_ref().find(|line| *line == "}");
        } else {
            kept.push(line);
        }
    }
    kept
}

fn without_comment(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// The first segments of every path below `root::`, groups in braces unfolded.
fn used<'c>(code: &'c str, root: &str) -> BTreeSet<&'c str> {
    let mut found = BTreeSet::new();
    for (at, _) in code.match_indices(root) {
        if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[at + root.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(heads(group)),
            None => found.extend(Some(word(rest)).filter(|word| !word.is_empty())),
        }
    }
    found
}

/// The first segment of each entry of a group, up to its closing brace.
fn heads(group: &str) -> Vec<&str> {
    let mut depth = 0;
    let mut heads = Vec::new();
    let mut at_start = true;
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => at_start = true,
            c if at_start && !c.is_whitespace() => {
                heads.push(word(&group[at..]));
                at_start = false;
            }
            _ => {}
        }
    }
    heads
}

fn word(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
        .unwrap_or_default()
}

/// Whether `code` names the crate itself: not a module of that name inside another.
fn names_crate(code: &str, name: &str) -> bool {
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = &code[..at];
        match before.strip_suffix("::") {
            Some(path) => !path.ends_with(|c: char| c.is_alphanumeric() || c == '_'),
            None => !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'),
        }
    }) || code.contains(&format!("use {name};"))
        || code.contains(&format!("use {name} as "))
}

#[test]
fn modules_use_only_lower_ones() {
    let mut wrong = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| source.path != "src/lib.rs")
    {
        let module = source.module();
        let Some(own) = layer(module) else {
            wrong.push(format!(
                "{}: `{module}` is not in the table of layers",
                source.path
            ));
            continue;
        };
        let paths = used(&source.code, "crate::")
            .into_iter()
            .chain(used(&source.code, "sluice::"));
        for other in paths.filter(|other| *other != module) {
            if layer(other).is_none_or(|other| other >= own) {
                wrong.push(format!(
                    "{}: `{module}` must not use `{other}`",
                    source.path
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_crate_at_the_edge_is_named_in_one_module() {
    let sources = sources();
    for (name, place) in NAMED_ONCE {
        let by = sources
            .iter()
            .filter(|source| names_crate(&source.code, name));
        let by: Vec<_> = by.map(|source| source.path.as_str()).collect();
        assert!(
            by.iter().all(|path| path.starts_with(place)),
            "{name} is named by {by:?}"
        );
        if place.ends_with('/') {
            assert!(by.len() <= 1, "{name} is named by {by:?}");
        }
    }
}

#[test]
fn files_stay_short() {
    let long: Vec<_> = sources()
        .iter()
        .filter(|source| source.lines > LONGEST)
        .map(|source| format!("{}: {} lines", source.path, source.lines))
        .collect();
    assert!(long.is_empty(), "{}", long.join("\n"));
}

#[test]
fn modules_lie_beside_their_folder() {
    let found: Vec<_> = sources().into_iter().map(|source| source.path).collect();
    assert!(found.len() > 10, "it reads the tree");
    assert!(!found.iter().any(|path| path.ends_with("/mod.rs")));
}

#[test]
fn paths_are_found() {
    let code = "use crate::limit::{Key, Cost};\nuse crate::{route, time::{Micros, Timestamp}, policy as p};\npub(crate) fn f(x: crate::store::X) { mycrate::no(); }";
    let expected = ["limit", "policy", "route", "store", "time"];
    assert_eq!(
        used(code, "crate::").into_iter().collect::<Vec<_>>(),
        expected
    );
    assert!(names_crate("use redis::Client;", "redis"));
    assert!(names_crate("fn f(x: ::redis::Client)", "redis"));
    assert!(!names_crate(
        "use self::redis::Client; use crate::store::redis::X; use miniredis::Y;",
        "redis"
    ));
    let text = "a\n#[cfg(test)]\nmod tests {\n    b\n}\nc\n#[cfg(test)]\nmod laws;\n";
    assert_eq!(without_tests(text), ["a", "c", "#[cfg(test)]", "mod laws;"]);
    let declared = test_files(Path::new("src/limit/algorithm.rs"), text);
    assert_eq!(declared, [PathBuf::from("src/limit/algorithm/laws")]);
}
