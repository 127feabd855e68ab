//! `include: limits.d/*.yaml`: more upstreams, routes, exemptions and limits, from files beside the main one.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::decode::{self, Shape};
use super::expand::{self, Environment};
use super::node::{self, Kind, Node};
use super::report::{Findings, Source, Span};

/// How many files one file may include.
const MAX_FILES: usize = 1000;

const INCLUDED: Shape = Shape {
    what: "an included file",
    known: &["upstreams", "routes", "skip", "limits"],
    later: &[],
};

/// Adds to `root` what its `include` names, beside `main`, in the order of file names. Returns the files.
pub(super) fn include(
    root: &mut Node,
    main: &Path,
    sources: &mut Vec<Source>,
    env: Environment<'_>,
    found: &mut Findings,
) -> Vec<PathBuf> {
    let Kind::Mapping(entries) = &mut root.kind else {
        return Vec::new();
    };
    let Some((_, patterns)) = entries
        .iter()
        .find(|(key, _)| key.text() == Some("include"))
        .cloned()
    else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for pattern in decode::one_or_many(&patterns) {
        let Some(text) = decode::text(pattern, "a file to include", found) else {
            continue;
        };
        for path in matching(main, text, pattern.span, found) {
            if files.contains(&path) || files.len() >= MAX_FILES {
                found.error(
                    pattern.span,
                    format!("`{}` is included twice, or is one too many", path.display()),
                );
                continue;
            }
            let text = match read(&path) {
                Ok(text) => text,
                Err(error) => {
                    found.error(
                        pattern.span,
                        format!("cannot read `{}`: {error}", path.display()),
                    );
                    continue;
                }
            };
            let source = sources.len();
            sources.push(Source {
                name: path.display().to_string(),
                text,
            });
            files.push(path);
            let text = sources.last().map_or("", |source| source.text.as_str());
            if let Some(mut node) = node::read(source, text, found) {
                expand::expand(&mut node, env, found);
                add(entries, node, found);
            }
        }
    }
    files
}

/// The files that a pattern names, by name: `*` may stand in the last part of the path.
fn matching(main: &Path, pattern: &str, span: Span, found: &mut Findings) -> Vec<PathBuf> {
    let whole = main.parent().unwrap_or(Path::new("")).join(pattern);
    let (folder, name) = (
        whole.parent().unwrap_or(Path::new("")),
        whole.file_name().and_then(|name| name.to_str()),
    );
    let Some((before, after)) = name.and_then(|name| name.split_once('*')) else {
        return vec![whole];
    };
    if after.contains('*') || folder.display().to_string().contains('*') {
        found.error(
            span,
            "one `*`, in the last part of the path, is all that `include` knows",
        );
        return Vec::new();
    }
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let listed =
        fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, io::Error>>());
    let mut files: Vec<PathBuf> = match listed {
        Ok(entries) => entries.iter().map(fs::DirEntry::path).collect(),
        Err(error) => {
            found.error(span, format!("cannot list `{}`: {error}", folder.display()));
            return Vec::new();
        }
    };
    files.retain(|path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let long = name.len() >= before.len().saturating_add(after.len());
        long && name.starts_with(before)
            && name.ends_with(after)
            && (!name.starts_with('.') || before.starts_with('.'))
    });
    files.sort();
    if files.is_empty() {
        found.warn(span, "no file matches this");
    }
    files
}

/// The text of a regular file.
pub(super) fn read(path: &Path) -> io::Result<String> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    let size = File::open(path)?
        .take(super::MAX_BYTES + 1)
        .read_to_string(&mut text)?;
    match u64::try_from(size) {
        Ok(size) if size <= super::MAX_BYTES => Ok(text),
        Ok(_) | Err(_) => Err(io::Error::other("it is larger than 4 MiB")),
    }
}

/// Adds the sections of an included file to those of the main one.
fn add(entries: &mut Vec<(Node, Node)>, included: Node, found: &mut Findings) {
    let Kind::Mapping(sections) = included.kind else {
        found
            .error(included.span, "an included file is a mapping")
            .help("of upstreams, routes, skip and limits");
        return;
    };
    for (key, value) in sections {
        if key.text().is_some_and(|name| name.starts_with("x-")) {
            continue;
        }
        if !key
            .text()
            .is_some_and(|name| INCLUDED.known.contains(&name))
        {
            INCLUDED.judge(&key, &value, found);
            continue;
        }
        match entries
            .iter_mut()
            .find(|(other, _)| other.text() == key.text())
        {
            Some((_, section)) if section.is_empty() => *section = value,
            Some((_, section)) => join(section, value, found),
            None => entries.push((key, value)),
        }
    }
}

/// Adds to a section what another file says under the same name.
fn join(section: &mut Node, more: Node, found: &mut Findings) {
    if more.is_empty() {
        return;
    }
    match (&mut section.kind, more.kind) {
        (Kind::Mapping(entries), Kind::Mapping(added)) => {
            for (key, value) in added {
                match entries.iter().find(|(other, _)| other.text() == key.text()) {
                    Some((first, _)) => {
                        let (first, name) = (first.span, key.text().unwrap_or_default());
                        found
                            .error(key.span, format!("`{name}` is given in two files"))
                            .label("again here")
                            .also(first, "first here");
                    }
                    None => entries.push((key, value)),
                }
            }
        }
        (Kind::Sequence(items), Kind::Sequence(added)) => items.extend(added),
        (Kind::Sequence(items), kind) => items.push(Node {
            kind,
            span: more.span,
        }),
        (_, kind) => {
            let first = section.clone();
            let mut items = vec![first];
            match kind {
                Kind::Sequence(added) => items.extend(added),
                kind @ (Kind::Scalar { .. } | Kind::Mapping(_)) => items.push(Node {
                    kind,
                    span: more.span,
                }),
            }
            section.kind = Kind::Sequence(items);
        }
    }
}
