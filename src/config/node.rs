//! The text of a file as a tree in which every key and value knows where it was typed.
//!
//! The only file that names the YAML library. It reads events rather than values, because a value would already have
//! turned `00123`, `1e3` or `no` into something else: here the text of a scalar counts as written. Anchors and `<<` are
//! resolved, within bounds, so that nothing above has to know about them.

use std::collections::HashMap;

use serde_yaml::granit_parser::{Event, Options, Parser, ScalarStyle, ScanError};

use super::report::{Findings, Span};
use super::trap;

/// Nodes that one file may have once its aliases are replaced: enough for thousands of limits, too few for a bomb.
const MAX_NODES: usize = 200_000;
/// How deep values may nest.
const MAX_DEPTH: usize = 48;

/// A value and where it was typed.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Where.
    pub(super) span: Span,
    /// What.
    pub(super) kind: Kind,
}

/// What a node is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// One value, as text.
    Scalar {
        /// As written, without its quotes.
        text: String,
        /// How it was written.
        style: Style,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys with their values, in the order of the file; no key twice.
    Mapping(Vec<(Node, Node)>),
}

/// How a scalar was written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Style {
    /// Without quotes.
    Plain,
    /// In quotes, or as a block.
    Quoted,
    /// As a cell of a table in a file of its own.
    Cell,
}

impl Node {
    /// The text of a scalar.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::Sequence(_) | Kind::Mapping(_) => None,
        }
    }

    /// Whether nothing was written: `key:`, `~` or `null`.
    pub(super) fn is_empty(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, style: Style::Plain } if matches!(text.as_str(), "" | "~" | "null"))
    }
}

/// Reads one file. None where it is not YAML or holds nothing; what is wrong is among the findings.
pub(super) fn read(source: usize, text: &str, found: &mut Findings) -> Option<Node> {
    let mut options = Options::default();
    options.emit_unresolved_aliases = true;
    let parser = Parser::new_from_str_with_options(text, options);
    let mut reader = Reader {
        source,
        text,
        parser,
        anchors: HashMap::new(),
        nodes: 0,
        found,
    };
    match reader.document() {
        Ok(node) => node,
        Err(Stop::Syntax(error)) => {
            reader.syntax(&error);
            None
        }
        Err(Stop::Told) => None,
    }
}

/// Why reading cannot go on.
enum Stop {
    Syntax(Box<ScanError>),
    /// It is among the findings already.
    Told,
}

struct Reader<'t, 'f> {
    source: usize,
    text: &'t str,
    parser: Parser<'t, serde_yaml::granit_parser::StrInput<'t>>,
    anchors: HashMap<usize, Anchored>,
    nodes: usize,
    found: &'f mut Findings,
}

/// What an anchor stands for, and how many nodes that is.
enum Anchored {
    /// Its node is still being read: an alias to it would contain itself.
    Open,
    Whole(Node, usize),
}

impl<'t> Reader<'t, '_> {
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Stop> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Ok((event, span))) => {
                let start = self.offset(span.start.byte_offset());
                let end = self.offset(span.end.byte_offset()).max(start);
                Ok(Some((
                    event,
                    Span {
                        source: self.source,
                        start,
                        end,
                    },
                )))
            }
            Some(Err(error)) => Err(Stop::Syntax(Box::new(error))),
        }
    }

    /// A place in the text that a slice may begin or end at.
    fn offset(&self, bytes: Option<usize>) -> usize {
        let mut at = bytes.unwrap_or(0).min(self.text.len());
        while !self.text.is_char_boundary(at) {
            at = at.saturating_sub(1);
        }
        at
    }

    fn syntax(&mut self, error: &ScanError) {
        let at = self.offset(error.marker().byte_offset());
        let span = Span {
            source: self.source,
            start: at,
            end: at,
        };
        let problem = self.found.error(span, "this is not YAML");
        problem.label(error.kind().to_string());
        if let Some(help) = trap::unquoted(self.text, at) {
            problem.help(help);
        }
    }

    fn document(&mut self) -> Result<Option<Node>, Stop> {
        let mut root = None;
        while let Some((event, span)) = self.next()? {
            match event {
                Event::StreamStart
                | Event::DocumentStart(..)
                | Event::DocumentEnd
                | Event::StreamEnd => {}
                _ if root.is_some() => {
                    self.found
                        .error(span, "a file holds one document")
                        .help("remove the `---` and what follows it");
                    return Err(Stop::Told);
                }
                event => root = Some(self.node(event, span, 0)?),
            }
        }
        Ok(root)
    }

    /// The node that begins with `event`.
    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Stop> {
        self.nodes = self.nodes.saturating_add(1);
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            self.found.error(
                span,
                if depth > MAX_DEPTH {
                    "this nests too deep"
                } else {
                    "this file is too large"
                },
            );
            return Err(Stop::Told);
        }
        let before = self.nodes;
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(_, anchor, tag)
            | Event::MappingStart(_, anchor, tag) => (*anchor, tag.is_some()),
            _ => (0, false),
        };
        if tag {
            self.found
                .error(span, "tags have no meaning here")
                .help("quote a value that begins with `!`");
        }
        if anchor != 0 {
            self.anchors.insert(anchor, Anchored::Open);
        }
        let node = match event {
            Event::Scalar(text, style, ..) => {
                let style = if style == ScalarStyle::Plain {
                    Style::Plain
                } else {
                    Style::Quoted
                };
                Node {
                    span,
                    kind: Kind::Scalar {
                        text: text.into_owned(),
                        style,
                    },
                }
            }
            Event::SequenceStart(..) => self.sequence(span, depth)?,
            Event::MappingStart(..) => self.mapping(span, depth)?,
            Event::Alias(id) => return self.alias(id, span),
            Event::UnresolvedAlias(name) => self.unresolved(&name, span),
            _ => Node {
                span,
                kind: Kind::Scalar {
                    text: String::new(),
                    style: Style::Plain,
                },
            },
        };
        if anchor != 0 {
            let size = self.nodes.saturating_sub(before).saturating_add(1);
            self.anchors
                .insert(anchor, Anchored::Whole(node.clone(), size));
        }
        Ok(node)
    }

    fn unresolved(&mut self, name: &str, span: Span) -> Node {
        let text = format!("*{name}");
        let problem = self
            .found
            .error(span, "there is no anchor of this name before it");
        problem.label("a value that begins with `*` is an alias in YAML");
        if let Some(help) = trap::unquoted(self.text, span.start) {
            problem.help(help);
        }
        Node {
            span,
            kind: Kind::Scalar {
                text,
                style: Style::Plain,
            },
        }
    }

    fn alias(&mut self, id: usize, span: Span) -> Result<Node, Stop> {
        match self.anchors.get(&id) {
            Some(Anchored::Whole(node, size)) => {
                self.nodes = self.nodes.saturating_add(*size);
                if self.nodes > MAX_NODES {
                    self.found
                        .error(span, "the aliases of this file stand for too much");
                    return Err(Stop::Told);
                }
                Ok(node.clone())
            }
            Some(Anchored::Open) | None => {
                self.found
                    .error(span, "this alias stands for something that contains it");
                Err(Stop::Told)
            }
        }
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<Node, Stop> {
        let mut items = Vec::new();
        let mut end = start.end;
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::SequenceEnd) {
                end = end.max(span.end);
                break;
            }
            let item = self.node(event, span, depth.saturating_add(1))?;
            end = end.max(span.end);
            items.push(item);
        }
        Ok(Node {
            span: self.trimmed(start, end),
            kind: Kind::Sequence(items),
        })
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<Node, Stop> {
        let mut entries: Vec<(Node, Node)> = Vec::new();
        let mut merged = Vec::new();
        let mut seen = HashMap::new();
        let mut end = start.end;
        while let Some((event, span)) = self.next()? {
            if matches!(event, Event::MappingEnd) {
                end = end.max(span.end);
                break;
            }
            let key = self.node(event, span, depth.saturating_add(1))?;
            let Some((event, span)) = self.next()? else {
                break;
            };
            let value = self.node(event, span, depth.saturating_add(1))?;
            match &key.kind {
                Kind::Scalar {
                    text,
                    style: Style::Plain,
                } if text == "<<" => merged.push(value),
                _ if self.is_new(&mut seen, &key) => entries.push((key, value)),
                _ => {}
            }
        }
        for value in merged {
            self.merge(&mut entries, &mut seen, value);
        }
        Ok(Node {
            span: self.trimmed(start, end),
            kind: Kind::Mapping(entries),
        })
    }

    /// Whether a key is new; one that is there already is an error.
    fn is_new(&mut self, seen: &mut HashMap<String, Span>, key: &Node) -> bool {
        let Some(text) = key.text() else { return true };
        let first = seen.get(text).copied();
        if let Some(first) = first {
            self.found
                .error(key.span, format!("`{text}` is given twice"))
                .label("again here")
                .also(first, "first here");
        } else {
            seen.insert(text.to_owned(), key.span);
        }
        first.is_none()
    }

    /// Adds what `<<` brings: what the mapping says itself wins, then what comes first.
    fn merge(
        &mut self,
        entries: &mut Vec<(Node, Node)>,
        seen: &mut HashMap<String, Span>,
        value: Node,
    ) {
        match value.kind {
            Kind::Mapping(brought) => {
                for (key, value) in brought {
                    let text = key.text().unwrap_or_default();
                    if !seen.contains_key(text) {
                        seen.insert(text.to_owned(), key.span);
                        entries.push((key, value));
                    }
                }
            }
            Kind::Sequence(list)
                if list
                    .iter()
                    .all(|item| matches!(item.kind, Kind::Mapping(_))) =>
            {
                for item in list {
                    self.merge(entries, seen, item);
                }
            }
            Kind::Scalar { .. } | Kind::Sequence(_) => {
                self.found
                    .error(value.span, "`<<` takes a mapping or a list of them");
            }
        }
    }

    /// From `start` to the last thing before `end` that is not blank.
    fn trimmed(&self, start: Span, end: usize) -> Span {
        let length = self
            .text
            .get(start.start..end)
            .map_or(0, |text| text.trim_end().len());
        Span {
            end: start.start.saturating_add(length),
            ..start
        }
    }
}
