//! Patterns over paths: `*`, `**`, `{name}`.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::wide::widen;
use super::{PathRules, TrailingSlash, segments};
use crate::request::Params;

/// A path in a matcher: `*` is one segment, `**` any number, `{name}` captures one.
///
/// A segment that `*` or `{name}` takes is not empty; `**` also takes none, so that `/api/**` matches `/api` and `/api/`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathPattern {
    text: Box<str>,
    steps: Vec<Step>,
}

/// One segment of a pattern.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::route) enum Step {
    /// This text, normalised; empty for the slash at the end.
    Literal(Box<str>),
    /// `*`
    One,
    /// `**`
    Any,
    /// `{name}`
    Param(Box<str>),
}

impl PathPattern {
    /// Reads a pattern. What it says literally is normalised as a request's path is.
    ///
    /// # Errors
    /// What is wrong with it, in words for people.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return Err(match text {
                "" => "a path is empty; every path is `/**`".to_owned(),
                _ if text.starts_with("*.") => format!(
                    "`{text}`: file endings cannot be matched; `*` is a whole segment, as in `/images/*`"
                ),
                _ => format!("`{text}`: a path starts with `/`"),
            });
        };
        let mut steps: Vec<Step> = Vec::new();
        let mut segments = rest.split('/').peekable();
        while let Some(segment) = segments.next() {
            let step = match segment {
                "" if segments.peek().is_some() => {
                    return Err(format!(
                        "`{text}`: `//` never occurs in a path; write one slash"
                    ));
                }
                "" if steps.is_empty() => break,
                _ => Step::parse(segment).map_err(|wrong| format!("`{text}`: {wrong}"))?,
            };
            if let Step::Param(name) = &step
                && steps.contains(&step)
            {
                return Err(format!("`{text}`: `{{{name}}}` is there twice"));
            }
            if step != Step::Any || steps.last() != Some(&Step::Any) {
                steps.push(step);
            }
        }
        Ok(Self {
            text: text.into(),
            steps,
        })
    }

    /// The text that it was read from.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The names that it captures, in order.
    pub fn params(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Param(name) => Some(&**name),
            Step::Literal(_) | Step::One | Step::Any => None,
        })
    }

    /// The same pattern for paths that are read under `rules`: routes and exemptions are compared with those.
    #[must_use]
    pub fn under(&self, rules: &PathRules) -> Self {
        self.respelled(rules.trailing_slash, |literal| {
            rules.normalise(literal).ok()
        })
    }

    /// The same pattern for wide readings.
    pub(in crate::route) fn wide(&self) -> Self {
        self.respelled(TrailingSlash::Strip, |literal| widen(literal).ok())
    }

    pub(in crate::route) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Every literal in the spelling that `respell` gives to a path of it alone; it may become several or none.
    fn respelled(
        &self,
        trailing_slash: TrailingSlash,
        respell: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut steps = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            match step {
                Step::Literal(text) if text.is_empty() => {
                    if trailing_slash == TrailingSlash::Exact {
                        steps.push(step.clone());
                    }
                }
                Step::Literal(text) => match respell(&format!("/{text}")) {
                    Some(path) => {
                        steps.extend(segments(&path).map(|segment| Step::Literal(segment.into())));
                    }
                    None => steps.push(step.clone()),
                },
                Step::One | Step::Any | Step::Param(_) => steps.push(step.clone()),
            }
        }
        Self {
            text: self.text.clone(),
            steps,
        }
    }

    /// What it captures from the segments of a path; none where it does not match. `**` takes as little as it can.
    ///
    /// Going back to the last `**` is enough, so the work is bounded by the product of both lengths.
    pub(in crate::route) fn capture<'r>(&'r self, path: &[Cow<'r, str>]) -> Option<Params<'r>> {
        let mut params: Params<'r> = SmallVec::new();
        let mut last_any = None;
        let (mut step, mut at) = (0, 0);
        while let Some(segment) = path.get(at) {
            match self.steps.get(step) {
                Some(Step::Any) => {
                    step += 1;
                    last_any = Some((step, at, params.len()));
                    continue;
                }
                Some(Step::Literal(text)) if **text == **segment => {}
                Some(Step::One) if !segment.is_empty() => {}
                Some(Step::Param(name)) if !segment.is_empty() => {
                    params.push((name, segment.clone()));
                }
                _ => {
                    let (after, taken, captured) = last_any?;
                    (step, at) = (after, taken + 1);
                    last_any = Some((after, at, captured));
                    params.truncate(captured);
                    continue;
                }
            }
            step += 1;
            at += 1;
        }
        self.steps
            .iter()
            .skip(step)
            .all(|left| *left == Step::Any)
            .then_some(params)
    }
}

impl Step {
    fn parse(segment: &str) -> Result<Self, String> {
        if segment == "*" {
            return Ok(Self::One);
        }
        if segment == "**" {
            return Ok(Self::Any);
        }
        if let Some(name) = segment
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
        {
            return if is_name(name) {
                Ok(Self::Param(name.into()))
            } else {
                Err(format!(
                    "`{{{name}}}`: a name has letters, digits, `_` and `-`"
                ))
            };
        }
        if segment.contains('*') {
            return Err(format!(
                "`{segment}`: `*` is a whole segment and `**` any number of them; a part of one cannot be matched"
            ));
        }
        if segment.contains(['{', '}']) {
            return Err(format!(
                "`{segment}`: `{{name}}` is a whole segment; a brace that is meant is `%7B` or `%7D`"
            ));
        }
        if segment.contains(['?', '#']) {
            return Err(format!(
                "`{segment}`: a path has no `?` or `#`; the query is not compared"
            ));
        }
        if segment.contains(char::is_whitespace) {
            return Err(format!("`{segment}`: a blank in a path is `%20`"));
        }
        if matches!(segment.split(';').next(), Some("." | "..")) {
            return Err(format!(
                "`{segment}` never occurs in a path: it is resolved first"
            ));
        }
        match PathRules::default().spell(segment) {
            Ok(spelled) if matches!(&*spelled, "." | "..") => Err(format!(
                "`{segment}` never occurs in a path: it is resolved first"
            )),
            Ok(spelled) => Ok(Self::Literal(spelled.into())),
            Err(wrong) => Err(wrong.0.to_owned()),
        }
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}
