//! From nodes to values: what every field needs. Nothing here stops at an error; each is noted, and reading goes on.

use std::fs::File;
use std::io::Read;
use std::time::Duration;

use super::nearest::nearest;
use super::node::{Kind, Node, Style};
use super::report::{Findings, Span};
use super::trap;
use super::units::{self, Wrong};
use crate::policy::Secret;

/// A value, and where it was typed.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) value: T,
    pub(super) span: Span,
}

/// The fields that a mapping may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// What the mapping is, for messages: "a limit".
    pub(super) what: &'static str,
    /// Fields that are read.
    pub(super) known: &'static [&'static str],
    /// Fields that are documented and not built.
    pub(super) later: &'static [&'static str],
}

/// A mapping whose fields are all known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'n> {
    pub(super) span: Span,
    entries: &'n [(Node, Node)],
}

impl<'n> Fields<'n> {
    /// The fields of `node`, after every one that has no place there was noted.
    pub(super) fn open(node: &'n Node, shape: &Shape, found: &mut Findings) -> Option<Self> {
        let Kind::Mapping(entries) = &node.kind else {
            found
                .error(node.span, format!("{} is a mapping of fields", shape.what))
                .help(shape.list());
            return None;
        };
        for (key, value) in entries {
            shape.judge(key, value, found);
        }
        Some(Self {
            span: node.span,
            entries,
        })
    }

    /// A mapping without fields.
    pub(super) const fn none(span: Span) -> Self {
        Self { span, entries: &[] }
    }

    /// The value of a field; one without a value counts as left out.
    pub(super) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entry(name)
            .map(|(_, value)| value)
            .filter(|value| !value.is_empty())
    }

    /// The key and value of a field, even an empty one.
    pub(super) fn entry(&self, name: &str) -> Option<(&'n Node, &'n Node)> {
        self.entries
            .iter()
            .find(|(key, _)| key.text() == Some(name))
            .map(|(key, value)| (key, value))
    }
}

impl Shape {
    fn list(&self) -> String {
        format!("its fields are {}", self.known.join(", "))
    }

    pub(super) fn judge(&self, key: &Node, value: &Node, found: &mut Findings) {
        let Some(name) = key.text() else {
            found.error(
                key.span,
                format!("a field of {} has a name of one word", self.what),
            );
            return;
        };
        if self.known.contains(&name) {
            return;
        }
        if self.later.contains(&name) {
            found.error(key.span, format!("`{name}` is not there yet"));
        } else if trap::cut_by_comma(name) {
            found.error(key.span, trap::COMMA);
        } else {
            let meant = nearest(name, self.known.iter().chain(self.later).copied());
            if meant
                .is_some_and(|word| matches!(word, "secret" | "password" | "username" | "token"))
            {
                found.hide(value.span);
            }
            let problem = found
                .error(key.span, format!("{} has no field `{name}`", self.what))
                .meant(meant);
            if meant.is_none() {
                problem.help(self.list());
            }
        }
    }
}

impl Findings {
    /// The value, or a note of what is wrong with it.
    pub(super) fn take<T>(&mut self, span: Span, result: Result<T, Wrong>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(wrong) => {
                let problem = self.error(span, wrong.title);
                if let Some(help) = wrong.help {
                    problem.help(help);
                }
                None
            }
        }
    }
}

/// The text of a scalar; `what` is expected there.
pub(super) fn text<'n>(node: &'n Node, what: &str, found: &mut Findings) -> Option<&'n str> {
    match node.text() {
        Some(_) if node.is_empty() => {
            found.error(node.span, format!("{what} is missing"));
            None
        }
        Some(text) => Some(text),
        None => {
            found.error(
                node.span,
                format!("{what} is one value, not a list or mapping"),
            );
            None
        }
    }
}

/// A scalar read by one of the units.
pub(super) fn parsed<T>(
    node: &Node,
    what: &str,
    read: impl FnOnce(&str) -> Result<T, Wrong>,
    found: &mut Findings,
) -> Option<At<T>> {
    let text = text(node, what, found)?;
    let value = found.take(node.span, read(text))?;
    Some(At {
        value,
        span: node.span,
    })
}

/// A number from `least` to `most`.
pub(super) fn number(
    node: &Node,
    what: &str,
    least: u64,
    most: u64,
    found: &mut Findings,
) -> Option<At<u64>> {
    let written = text(node, what, found)?;
    // Quoted digits are a text; one that a variable left behind is not.
    if matches!(
        node.kind,
        Kind::Scalar {
            style: Style::Quoted,
            ..
        }
    ) && !written.is_empty()
    {
        found
            .error(node.span, format!("{what} is a number, and this is a text"))
            .help(format!("write `{written}`"));
        return None;
    }
    let number = parsed(node, what, units::number, found)?;
    if number.value < least || number.value > most {
        found.error(
            node.span,
            format!("{what} is {least} to {most}, not {}", number.value),
        );
        return None;
    }
    Some(number)
}

/// Whether a span of time may be nothing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Zero {
    Allowed,
    Refused,
}

/// A span of time.
pub(super) fn duration(
    node: &Node,
    what: &str,
    zero: Zero,
    found: &mut Findings,
) -> Option<At<Duration>> {
    let span = parsed(node, what, units::duration, found)?;
    if span.value.is_zero() && zero == Zero::Refused {
        found
            .error(node.span, format!("{what} of 0 is refused"))
            .help("it is more than zero");
        return None;
    }
    Some(span)
}

/// One of a few words.
pub(super) fn word<T: Copy>(
    node: &Node,
    what: &str,
    known: &[(&'static str, T)],
    later: &[&'static str],
    found: &mut Findings,
) -> Option<At<T>> {
    let typed = text(node, what, found)?;
    if let Some((_, value)) = known.iter().find(|(word, _)| *word == typed) {
        return Some(At {
            value: *value,
            span: node.span,
        });
    }
    if let Some(word) = later
        .iter()
        .find(|word| typed.split_whitespace().next() == Some(**word))
    {
        found.error(node.span, format!("`{word}` is not there yet"));
        return None;
    }
    let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
    let meant = nearest(typed, words.iter().chain(later).copied());
    let problem = found.error(node.span, format!("`{typed}` is not {what}"));
    problem
        .help(format!("it is {}", words.join(", ")))
        .meant(meant);
    None
}

/// One value or a list of them.
pub(super) fn one_or_many(node: &Node) -> &[Node] {
    match &node.kind {
        Kind::Sequence(items) => items,
        Kind::Scalar { .. } | Kind::Mapping(_) => std::slice::from_ref(node),
    }
}

/// The longest secret that a file may hold.
const MAX_SECRET: u64 = 64 * 1024;

/// A value that nobody is shown; `file:/path` reads it from a file, without the line break at its end.
pub(super) fn secret(node: &Node, what: &str, found: &mut Findings) -> Option<Secret> {
    found.hide(node.span);
    secret_text(node, what, found).map(Secret::new)
}

/// The text of such a value, for a reader that takes it apart and hides what is secret in it.
pub(super) fn secret_text(node: &Node, what: &str, found: &mut Findings) -> Option<String> {
    let text = text(node, what, found)?;
    let Some(path) = text.strip_prefix("file:") else {
        if text.is_empty() {
            found.error(node.span, format!("{what} is empty"));
            return None;
        }
        return Some(text.to_owned());
    };
    match from_file(path) {
        Ok(content) => Some(content),
        Err(why) => {
            found.error(node.span, why);
            None
        }
    }
}

fn from_file(path: &str) -> Result<String, String> {
    if !path.starts_with('/') {
        return Err("`file:` takes a path that begins with `/`".to_owned());
    }
    let mut content = String::new();
    let read = File::open(path).and_then(|file| file.take(MAX_SECRET).read_to_string(&mut content));
    read.map_err(|error| format!("cannot read `{path}`: {error}"))?;
    match content.trim_end_matches(['\r', '\n']) {
        "" => Err(format!("`{path}` is empty")),
        content => Ok(content.to_owned()),
    }
}
