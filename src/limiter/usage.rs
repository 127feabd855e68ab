//! A number in a JSON body that streams by: found wherever its member closes, in a few bytes of state whatever the body's
//! length.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::limit::Cost;
use crate::policy::{AnswerCost, CostPlace, cost_of};

/// A number of more characters than this is no cost.
const DIGITS: usize = 32;

/// How the JSON lies in the body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Layout {
    /// One value, or several one after another.
    Plain,
    /// In the `data` lines of server-sent events.
    Events,
}

/// Looks for one number in a body; the last one wins.
#[derive(Debug)]
pub(super) struct Usage {
    scan: Scan,
    /// Where in a line of events it is; none: the body is plain.
    line: Option<Line>,
}

/// Where in a line of an event stream the last byte was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Line {
    /// So many characters of `data:` were there, and nothing else.
    Name(usize),
    /// Behind `data:`.
    Data,
    /// In another field or a comment.
    Other,
    /// Behind a carriage return, which a line feed may follow.
    Return,
}

const DATA: &[u8] = b"data:";

impl Usage {
    pub(super) fn new(cost: Arc<AnswerCost>, layout: Layout) -> Self {
        Self {
            scan: Scan::new(cost),
            line: match layout {
                Layout::Plain => None,
                Layout::Events => Some(Line::Name(0)),
            },
        }
    }

    /// The next bytes of the body.
    pub(super) fn read(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.line {
                None => self.scan.push(byte),
                Some(line) => self.line = Some(self.push_event(line, byte)),
            }
        }
    }

    /// The last number so far.
    pub(super) fn found(&self) -> Option<Cost> {
        self.scan.found
    }

    /// An event ends with an empty line; whatever was wrong in it ends there too.
    fn push_event(&mut self, line: Line, byte: u8) -> Line {
        match (line, byte) {
            (Line::Return, b'\n') => return Line::Name(0),
            (Line::Name(0) | Line::Return, b'\n' | b'\r') => self.scan.restart(),
            (Line::Data, b'\n' | b'\r') => self.scan.push(b'\n'),
            (Line::Data, byte) => self.scan.push(byte),
            _ => {}
        }
        match (line, byte) {
            (_, b'\n') => Line::Name(0),
            (_, b'\r') => Line::Return,
            (Line::Return, byte) => named(0, byte),
            (Line::Name(seen), byte) => named(seen, byte),
            (Line::Data | Line::Other, _) => line,
        }
    }
}

fn named(seen: usize, byte: u8) -> Line {
    match DATA.get(seen) {
        Some(next) if *next == byte && seen + 1 == DATA.len() => Line::Data,
        Some(next) if *next == byte => Line::Name(seen + 1),
        _ => Line::Other,
    }
}

/// Follows the structure of JSON as far as the path needs it. What is not JSON finds nothing or something, and never
/// fails.
#[derive(Debug)]
struct Scan {
    cost: Arc<AnswerCost>,
    found: Option<Cost>,
    state: State,
    /// Open objects and arrays.
    depth: usize,
    /// How many names of the path the innermost ones that lie on it have spelt.
    spelt: usize,
    /// The value that comes next is that of the path's next name.
    next: bool,
    number: SmallVec<[u8; DIGITS]>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Between,
    /// In a string; so many characters were those of the name that is looked for.
    Text(Option<usize>),
    /// Behind a backslash in one.
    Escape,
    /// Behind a string that is the name, if a colon follows.
    Name,
    /// In the number that is looked for.
    Number,
}

impl Scan {
    fn new(cost: Arc<AnswerCost>) -> Self {
        Self {
            cost,
            found: None,
            state: State::Between,
            depth: 0,
            spelt: 0,
            next: false,
            number: SmallVec::new(),
        }
    }

    /// A new document.
    fn restart(&mut self) {
        self.state = State::Between;
        self.depth = 0;
        self.spelt = 0;
        self.next = false;
    }

    /// The name that is looked for.
    fn name(&self) -> &[u8] {
        let CostPlace::Json(path) = &self.cost.place else {
            return &[];
        };
        path.get(self.spelt).map_or(&[], String::as_bytes)
    }

    /// Whether the next name is the path's last.
    fn last(&self) -> bool {
        matches!(&self.cost.place, CostPlace::Json(path) if self.spelt + 1 == path.len())
    }

    fn push(&mut self, byte: u8) {
        self.state = match (self.state, byte) {
            (State::Escape, _) => State::Text(None),
            (State::Text(_), b'\\') => State::Escape,
            (State::Text(same), b'"') if same == Some(self.name().len()) => State::Name,
            (State::Text(_), b'"') => State::Between,
            (State::Text(same), byte) => {
                let same = same.filter(|&at| self.name().get(at) == Some(&byte));
                State::Text(same.map(|at| at + 1))
            }
            (State::Name, b' ' | b'\t' | b'\n' | b'\r') => State::Name,
            (State::Name, b':') => {
                self.next = true;
                State::Between
            }
            (State::Number, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => {
                self.number.push(byte);
                // A number without an end does not grow without end.
                if self.number.len() < DIGITS {
                    State::Number
                } else {
                    State::Between
                }
            }
            (State::Number, byte) => {
                self.found = cost_of(&self.number).or(self.found);
                self.between(byte)
            }
            (State::Between | State::Name, byte) => self.between(byte),
        };
    }

    fn between(&mut self, byte: u8) -> State {
        let next = std::mem::take(&mut self.next);
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => self.next = next,
            b'"' => return State::Text((self.depth == self.spelt + 1).then_some(0)),
            b'{' | b'[' => {
                self.depth = self.depth.saturating_add(1);
                if next && byte == b'{' && !self.last() {
                    self.spelt += 1;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                // The object that the last name opened is closed.
                if self.depth <= self.spelt {
                    self.spelt = self.depth.saturating_sub(1);
                }
            }
            b'0'..=b'9' if next && self.last() => {
                self.number.clear();
                self.number.push(byte);
                return State::Number;
            }
            _ => {}
        }
        State::Between
    }
}

#[cfg(test)]
mod tests;
