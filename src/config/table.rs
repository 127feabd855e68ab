//! `overrides: file:overrides.csv`: a table of keys and amounts, read into nodes that know their line.
//!
//! A line is `KEY,AMOUNT`; quotes as RFC 4180 has them, within one line. Blanks around a cell without quotes do not count,
//! nor do empty lines. Cells count as written: no variable is replaced in them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::include::read;
use super::node::{Kind, Node, Style};
use super::report::{Findings, Source, Span};

/// What is wrong with a line, and at which of its bytes.
type Broken = (usize, &'static str);

/// Replaces each `overrides: file:PATH` below `root` by the lines of that file, which is looked for beside `main`. Returns
/// the files.
pub(super) fn tables(
    root: &mut Node,
    main: &Path,
    sources: &mut Vec<Source>,
    found: &mut Findings,
) -> Vec<PathBuf> {
    let mut known: HashMap<PathBuf, Node> = HashMap::new();
    let mut files = Vec::new();
    for node in named(root) {
        let Some(file) = node.text().and_then(|text| text.strip_prefix("file:")) else {
            continue;
        };
        let path = main.parent().unwrap_or(Path::new("")).join(file.trim());
        let span = node.span;
        let table = known.entry(path).or_insert_with_key(|path| {
            let empty = Node {
                span,
                kind: Kind::Sequence(Vec::new()),
            };
            match read(path) {
                Ok(text) => {
                    files.push(path.clone());
                    let rows = rows(sources.len(), &text, found);
                    sources.push(Source {
                        name: path.display().to_string(),
                        text,
                    });
                    Node {
                        span,
                        kind: Kind::Sequence(rows),
                    }
                }
                Err(error) => {
                    let title = format!("cannot read `{}`: {error}", path.display());
                    found.error(span, title);
                    empty
                }
            }
        });
        *node = table.clone();
    }
    files
}

/// The `overrides` of every limit and of `defaults`.
fn named(root: &mut Node) -> Vec<&mut Node> {
    let mut limits = Vec::new();
    for (section, value) in fields(root) {
        match section.text() {
            Some("defaults") => limits.push(value),
            Some("limits") => limits.extend(fields(value).map(|(_, limit)| limit)),
            _ => {}
        }
    }
    limits
        .into_iter()
        .flat_map(fields)
        .filter(|(name, _)| name.text() == Some("overrides"))
        .map(|(_, value)| value)
        .collect()
}

fn fields(node: &mut Node) -> impl Iterator<Item = (&Node, &mut Node)> {
    let entries = match &mut node.kind {
        Kind::Mapping(entries) => entries.as_mut_slice(),
        Kind::Scalar { .. } | Kind::Sequence(_) => &mut [],
    };
    entries.iter_mut().map(|(key, value)| (&*key, value))
}

/// Each line as a list of cells. A line that is broken is left out, and shown to nobody: it may hold a credential.
fn rows(source: usize, text: &str, found: &mut Findings) -> Vec<Node> {
    let mut rows = Vec::new();
    let mut start = 0_usize;
    for line in text.split_inclusive('\n') {
        let at = start;
        start = start.saturating_add(line.len());
        let line = line.trim_end_matches(['\n', '\r']);
        // A mark of the encoding, as spreadsheets write it.
        let (at, line) = match line.strip_prefix('\u{FEFF}').filter(|_| at == 0) {
            Some(rest) => (line.len().saturating_sub(rest.len()), rest),
            None => (at, line),
        };
        if line.trim().is_empty() {
            continue;
        }
        let span = |from: usize, to: usize| Span {
            source,
            start: at.saturating_add(from),
            end: at.saturating_add(to),
        };
        match cells(line) {
            Ok(cells) => {
                let cell = |cell: Cell| Node {
                    span: span(cell.start, cell.end),
                    kind: Kind::Scalar {
                        text: cell.text,
                        style: Style::Cell,
                    },
                };
                rows.push(Node {
                    span: span(0, line.len()),
                    kind: Kind::Sequence(cells.into_iter().map(cell).collect()),
                });
            }
            Err((column, why)) => {
                found.hide(span(0, line.len()));
                found
                    .error(span(column, line.len()), why)
                    .help("as `acme,100 per minute` or `acme,\"100 per minute, burst 20\"`");
            }
        }
    }
    rows
}

/// A cell, and the bytes of the line that it was.
#[derive(Debug, Eq, PartialEq)]
struct Cell {
    text: String,
    start: usize,
    end: usize,
}

fn cells(line: &str) -> Result<Vec<Cell>, Broken> {
    let mut cells = Vec::new();
    let mut at = 0;
    loop {
        let cell = cell(line, at)?;
        let rest = line.get(cell.end..).unwrap_or_default();
        let blanks = rest.len().saturating_sub(rest.trim_start().len());
        let next = cell.end.saturating_add(blanks);
        cells.push(cell);
        match rest.trim_start().chars().next() {
            None => return Ok(cells),
            Some(',') => at = next.saturating_add(1),
            Some(_) => {
                return Err((
                    next,
                    "after a cell in quotes comes a comma or the end of the line",
                ));
            }
        }
    }
}

/// The cell that begins at `at`.
fn cell(line: &str, at: usize) -> Result<Cell, Broken> {
    let rest = line.get(at..).unwrap_or_default();
    let start = at.saturating_add(rest.len().saturating_sub(rest.trim_start().len()));
    let Some(quoted) = rest.trim_start().strip_prefix('"') else {
        let text = rest.split(',').next().unwrap_or_default().trim();
        let end = start.saturating_add(text.len());
        return match text.find('"') {
            Some(quote) => Err((
                start.saturating_add(quote),
                "a quote inside a cell: put the whole cell in quotes, and double this one",
            )),
            // An empty cell before a comma: its blanks are those before the comma.
            None if text.is_empty() => Ok(Cell {
                text: String::new(),
                start: at,
                end: at,
            }),
            None => Ok(Cell {
                text: text.to_owned(),
                start,
                end,
            }),
        };
    };
    let mut text = String::new();
    let mut letters = quoted.char_indices().peekable();
    while let Some((offset, letter)) = letters.next() {
        if letter != '"' {
            text.push(letter);
        } else if letters.next_if(|(_, next)| *next == '"').is_some() {
            text.push('"');
        } else {
            let end = start.saturating_add(offset).saturating_add(2);
            return Ok(Cell { text, start, end });
        }
    }
    Err((start, "this quote is not closed on its line"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Result<Vec<String>, Broken> {
        cells(line).map(|cells| cells.into_iter().map(|cell| cell.text).collect())
    }

    #[test]
    fn a_line_is_cells() {
        for (line, want) in [
            ("a,b", vec!["a", "b"]),
            ("a , b\t", vec!["a", "b"]),
            (
                "a,\"10 per minute, burst 2\"",
                vec!["a", "10 per minute, burst 2"],
            ),
            (" \"a \" ,b", vec!["a ", "b"]),
            ("\"say \"\"a\"\"\",b", vec!["say \"a\"", "b"]),
            ("\"\"", vec![""]),
            (",b,", vec!["", "b", ""]),
            ("  ,b", vec!["", "b"]),
            ("é,ü", vec!["é", "ü"]),
        ] {
            let want = want.into_iter().map(str::to_owned).collect();
            assert_eq!(texts(line), Ok(want), "{line}");
        }
        for (line, column) in [("a\"b,c", 1), ("\"a", 0), ("\"a\"b", 3), ("é,\"", 3)] {
            assert_eq!(texts(line).unwrap_err().0, column, "{line}");
        }
    }

    #[test]
    fn a_cell_knows_its_place() {
        let line = " a ,\"b\"\"\", c";
        let places: Vec<&str> = cells(line)
            .unwrap()
            .iter()
            .map(|cell| &line[cell.start..cell.end])
            .collect();
        assert_eq!(places, ["a", "\"b\"\"\"", "c"]);
        let rows = rows(0, "\u{FEFF}a,1\r\n\r\nb,2", &mut Findings::default());
        let starts: Vec<usize> = rows.iter().map(|row| row.span.start).collect();
        assert_eq!(starts, [3, 10]);
    }
}
