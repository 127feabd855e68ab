//! What is wrong with a file, said as a compiler says it: where, the line with a caret, what, and what was meant.

use std::collections::HashSet;
use std::fmt;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Element, Group, Level, Renderer, Snippet};

use super::mask;

/// How many problems are shown with their lines: nobody reads more, and each costs a look at the text.
const SHOWN: usize = 200;

/// Where something was typed: bytes of one of the texts that were read.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Span {
    pub(super) source: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// A text that was read.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) name: String,
    pub(super) text: String,
}

/// One thing that is wrong, or worth saying.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Problem {
    severity: Severity,
    span: Option<Span>,
    title: String,
    label: String,
    also: Vec<(Span, String)>,
    help: Vec<String>,
    unread: bool,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Severity {
    Error,
    Warning,
}

/// Whether a report is written for a terminal.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Colour {
    /// Plain text.
    #[default]
    Off,
    /// With ANSI colours.
    On,
}

/// Everything that was found while reading, gathered rather than returned, so that one error does not hide the next.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: Vec<Problem>,
    secrets: Vec<Span>,
    /// Values that could not even be read: what else is said about them follows from that.
    unread: HashSet<Span>,
}

impl Findings {
    /// Notes an error.
    pub(super) fn error(&mut self, span: Span, title: impl Into<String>) -> &mut Problem {
        self.note(Severity::Error, Some(span), &title.into())
    }

    /// Notes an error that leaves nothing to say about the value at `span`.
    pub(super) fn error_unread(&mut self, span: Span, title: impl Into<String>) -> &mut Problem {
        self.unread.insert(span);
        let problem = self.error(span, title);
        problem.unread = true;
        problem
    }

    /// Notes an error of the whole file.
    pub(super) fn error_overall(&mut self, title: impl Into<String>) -> &mut Problem {
        self.note(Severity::Error, None, &title.into())
    }

    /// Notes a warning.
    pub(super) fn warn(&mut self, span: Span, title: impl Into<String>) -> &mut Problem {
        self.note(Severity::Warning, Some(span), &title.into())
    }

    /// Notes a warning about the whole file.
    pub(super) fn warn_overall(&mut self, title: impl Into<String>) -> &mut Problem {
        self.note(Severity::Warning, None, &title.into())
    }

    /// Keeps what stands at `span` out of every report.
    pub(super) fn hide(&mut self, span: Span) {
        self.secrets.push(span);
    }

    /// Whether anything is wrong.
    pub(super) fn has_errors(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    fn note(&mut self, severity: Severity, span: Option<Span>, title: &str) -> &mut Problem {
        let at = self.problems.len();
        self.problems.push(Problem {
            severity,
            span,
            title: printable(title),
            label: String::new(),
            also: Vec::new(),
            help: Vec::new(),
            unread: false,
        });
        &mut self.problems[at]
    }

    /// Sorts what was found into errors and warnings; whether there are errors.
    pub(super) fn finish(self, sources: Vec<Source>) -> (Report, Report) {
        let unread = self.unread;
        let follows = |problem: &Problem| {
            problem.span.is_some_and(|span| unread.contains(&span)) && !problem.unread
        };
        let told = self
            .problems
            .into_iter()
            .filter(|problem| !follows(problem));
        let (errors, warnings) = told.partition(|problem| problem.severity == Severity::Error);
        (
            Report::new(sources.clone(), errors, &self.secrets),
            Report::new(sources, warnings, &self.secrets),
        )
    }
}

impl Problem {
    /// What stands at the caret.
    pub(super) fn label(&mut self, text: impl Into<String>) -> &mut Self {
        self.label = printable(&text.into());
        self
    }

    /// Another place that belongs to it.
    pub(super) fn also(&mut self, span: Span, text: impl Into<String>) -> &mut Self {
        self.also.push((span, text.into()));
        self
    }

    /// What to do about it.
    pub(super) fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.help.push(printable(&text.into()));
        self
    }

    /// Names the word that was meant, if there is one.
    pub(super) fn meant(&mut self, word: Option<&str>) -> &mut Self {
        if let Some(word) = word {
            self.help(format!("did you mean `{word}`?"));
        }
        self
    }
}

/// Every error of a configuration, or every warning. Secrets are masked.
#[derive(Clone, Debug, Default)]
pub struct Report {
    sources: Vec<Source>,
    problems: Vec<Problem>,
}

impl Report {
    fn new(mut sources: Vec<Source>, mut once: Vec<Problem>, secrets: &[Span]) -> Self {
        // A value that is used in several places through an anchor, or by every limit through `defaults`, is said once.
        let mut told = HashSet::new();
        once.retain(|problem| told.insert((problem.span, problem.title.clone())));
        once.sort_by_key(|problem| {
            problem
                .span
                .map_or((usize::MAX, 0), |span| (span.source, span.start))
        });
        for (index, source) in sources.iter_mut().enumerate() {
            let hidden = secrets
                .iter()
                .filter(|span| span.source == index)
                .map(|span| span.start..span.end);
            let masked = mask::Masked::new(&source.text, hidden);
            let spans = once.iter_mut().flat_map(|p| {
                p.span
                    .iter_mut()
                    .chain(p.also.iter_mut().map(|(span, _)| span))
            });
            for span in spans.filter(|span| span.source == index) {
                *span = Span {
                    start: masked.place(span.start),
                    end: masked.place(span.end),
                    ..*span
                };
            }
            source.text = masked.into_text();
        }
        Self {
            sources,
            problems: once,
        }
    }

    /// A report of one error outside any text.
    pub(super) fn overall(title: impl Into<String>) -> Self {
        let mut found = Findings::default();
        found.error_overall(title);
        found.finish(Vec::new()).0
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.problems.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// One line for each, as `gateway.yaml:3:7: what is wrong`, for a log.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.problems
            .iter()
            .map(|problem| match self.place(problem) {
                Some((name, line, column)) => format!("{name}:{line}:{column}: {}", problem.title),
                None => problem.title.clone(),
            })
    }

    /// Each with its place, the line and a caret.
    #[must_use]
    pub fn render(&self, colour: Colour) -> String {
        let renderer = match colour {
            Colour::Off => Renderer::plain(),
            Colour::On => Renderer::styled(),
        }
        .decor_style(DecorStyle::Ascii);
        let mut rendered: Vec<String> = self
            .problems
            .iter()
            .take(SHOWN)
            .map(|problem| renderer.render(&[self.group(problem)]))
            .collect();
        if let Some(more @ 1..) = self.problems.len().checked_sub(SHOWN) {
            rendered.push(format!("and {more} more"));
        }
        rendered.join("\n\n")
    }

    fn place(&self, problem: &Problem) -> Option<(&str, usize, usize)> {
        let span = problem.span?;
        let source = self.sources.get(span.source)?;
        let before = source.text.get(..span.start)?;
        let line = before.matches('\n').count().saturating_add(1);
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |text| text.chars().count())
            .saturating_add(1);
        Some((&source.name, line, column))
    }

    fn group<'r>(&'r self, problem: &'r Problem) -> Group<'r> {
        let level = match problem.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut elements: Vec<Element<'r>> = Vec::new();
        if let Some(span) = problem.span {
            elements.extend(self.snippet(span, problem, true));
            for source in 0..self.sources.len() {
                let elsewhere = problem
                    .also
                    .iter()
                    .find(|(other, _)| other.source == source && source != span.source);
                elements
                    .extend(elsewhere.and_then(|(other, _)| self.snippet(*other, problem, false)));
            }
        }
        elements.extend(
            problem
                .help
                .iter()
                .map(|help| Level::HELP.message(help.as_str()).into()),
        );
        level
            .primary_title(problem.title.as_str())
            .elements(elements)
    }

    /// The lines of one source that a problem is about.
    fn snippet<'r>(
        &'r self,
        span: Span,
        problem: &'r Problem,
        primary: bool,
    ) -> Option<Element<'r>> {
        let source = self.sources.get(span.source)?;
        let mut snippet = Snippet::source(source.text.as_str()).path(source.name.as_str());
        if primary {
            let label = Some(problem.label.as_str()).filter(|label| !label.is_empty());
            snippet = snippet.annotation(
                AnnotationKind::Primary
                    .span(first_line(&source.text, span))
                    .label(label),
            );
        }
        for (other, text) in problem
            .also
            .iter()
            .filter(|(other, _)| other.source == span.source)
        {
            let range = first_line(&source.text, *other);
            snippet = snippet.annotation(AnnotationKind::Context.span(range).label(text.as_str()));
        }
        Some(snippet.into())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Colour::Off))
    }
}

impl std::error::Error for Report {}

/// Of a span that runs over several lines, the part on its first.
fn first_line(text: &str, span: Span) -> std::ops::Range<usize> {
    let whole = text.get(span.start..span.end).unwrap_or_default();
    let length = whole.lines().next().unwrap_or_default().trim_end().len();
    span.start..span.start.saturating_add(length)
}

/// Text from a file, safe to print and not too long.
fn printable(text: &str) -> String {
    let clean = text.chars().map(|c| {
        if c.is_control() && c != '\n' {
            '\u{FFFD}'
        } else {
            c
        }
    });
    let mut short: String = clean.take(400).collect();
    if text.chars().nth(400).is_some() {
        short.push_str("...");
    }
    short
}
