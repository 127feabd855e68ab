//! `gateway.yaml`: from text to a [`Policy`], or to a report of everything that is wrong with it.
//!
//! text -> [`node`] (a tree that knows where everything was typed) -> [`expand`] (variables) -> [`mod@include`] (other files)
//! -> [`table`] (tables of overrides) -> [`mod@file`] (what was typed) -> [`compile`] (what it means). No step stops at its first error.

mod arguments;
mod compile;
mod decode;
mod expand;
mod explain;
mod file;
mod include;
mod key;
mod mask;
mod matcher;
mod nearest;
mod node;
mod report;
mod table;
mod trap;
mod units;

pub use report::{Colour, Report};

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use self::explain::Meaning;
use self::report::{Findings, Source};
use crate::policy::Policy;

/// The largest file that is read.
const MAX_BYTES: u64 = 4 << 20;

/// A configuration that holds.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it means.
    pub policy: Policy,
    /// What is worth saying about it.
    pub warnings: Report,
    /// The files that it was read from: the main one, and those that it includes or reads tables from.
    pub files: Vec<PathBuf>,
    meaning: Meaning,
}

impl Loaded {
    /// What the file means in plain words, for `sluice check`.
    #[must_use]
    pub fn explain(&self) -> String {
        explain::explain(&self.policy, &self.meaning)
    }
}

/// Reads and compiles the file at `path`; `env` gives the variables of the environment.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(path: &Path, env: &dyn Fn(&str) -> Option<String>) -> Result<Loaded, Report> {
    let name = path.display().to_string();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        return Err(Report::overall(format!("cannot read `{name}`: {error}")));
    }
    match String::from_utf8(bytes) {
        Ok(text) if text.len() as u64 <= MAX_BYTES => parse(&name, &text, env),
        Ok(_) => Err(Report::overall(format!("`{name}` is larger than 4 MiB"))),
        Err(_) => Err(Report::overall(format!("`{name}` is not UTF-8"))),
    }
}

/// Compiles `text`, which is called `name` in reports. Reads nothing but the files that `file:` and
/// `include` name.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(
    name: &str,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Loaded, Report> {
    let mut found = Findings::default();
    let mut sources = vec![Source {
        name: name.to_owned(),
        text: text.to_owned(),
    }];
    let mut root = node::read(0, text, &mut found);
    let mut files = vec![PathBuf::from(name)];
    if let Some(root) = &mut root {
        expand::expand(root, env, &mut found);
        files.extend(include::include(
            root,
            Path::new(name),
            &mut sources,
            env,
            &mut found,
        ));
        files.extend(table::tables(
            root,
            Path::new(name),
            &mut sources,
            &mut found,
        ));
    }
    finish(root.as_ref(), sources, found).map(|loaded| Loaded { files, ..loaded })
}

/// Compiles what `sluice run --to URL --limit '[METHOD] [PATH:] ALLOW per KEY'` says.
///
/// # Errors
/// Everything that is wrong with it.
pub fn from_arguments(to: &str, limits: &[String]) -> Result<Loaded, Report> {
    let mut found = Findings::default();
    let (root, sources) = arguments::tree(to, limits, &mut found);
    finish(Some(&root), sources, found)
}

fn finish(
    root: Option<&node::Node>,
    sources: Vec<Source>,
    mut found: Findings,
) -> Result<Loaded, Report> {
    let compiled = match root {
        Some(root) => {
            file::File::read(root, &mut found).map(|file| compile::compile(&file, &mut found))
        }
        None => None,
    };
    if compiled.is_none() && !found.has_errors() {
        found
            .error_overall("the file is empty")
            .help("the shortest is `upstream: http://localhost:3000`");
    }
    let (errors, warnings) = found.finish(sources);
    match compiled {
        Some((policy, meaning)) if errors.is_empty() => Ok(Loaded {
            policy,
            warnings,
            files: Vec::new(),
            meaning,
        }),
        Some(_) | None => Err(errors),
    }
}

#[cfg(test)]
mod tests;
