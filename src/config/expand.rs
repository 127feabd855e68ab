//! `${NAME}` and `${NAME:-default}` inside scalars, after the text was read; `$${` stands for `${`.

use super::node::{Kind, Node, Style};
use super::report::Findings;

/// The variables of the environment.
pub(super) type Environment<'e> = &'e dyn Fn(&str) -> Option<String>;

/// Replaces the variables in every value below `node`; those that are unset are errors. What stands at the top under
/// `x-...` is ignored, and so are its variables.
pub(super) fn expand(root: &mut Node, env: Environment<'_>, found: &mut Findings) {
    match &mut root.kind {
        Kind::Mapping(entries) => {
            for (key, value) in entries {
                if !key.text().is_some_and(|name| name.starts_with("x-")) {
                    values(value, env, found);
                }
            }
        }
        Kind::Scalar { .. } | Kind::Sequence(_) => values(root, env, found),
    }
}

fn values(node: &mut Node, env: Environment<'_>, found: &mut Findings) {
    let span = node.span;
    match &mut node.kind {
        Kind::Scalar { text, style } if text.contains("${") => match scalar(text, env) {
            // What a variable brings is no longer what was quoted: digits are a number, nothing is nothing.
            Ok(replaced) => (*text, *style) = (replaced, Style::Plain),
            Err(why) => {
                found
                    .error_unread(span, why)
                    .help("`${NAME:-default}` has a default, `$${` stands for `${` itself");
            }
        },
        Kind::Scalar { .. } => {}
        Kind::Sequence(items) => items.iter_mut().for_each(|item| values(item, env, found)),
        Kind::Mapping(entries) => entries
            .iter_mut()
            .for_each(|(_, value)| values(value, env, found)),
    }
}

fn scalar(text: &str, env: Environment<'_>) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = after;
            continue;
        }
        out.push_str(before);
        let (inner, after) = after.split_once('}').ok_or("`${` without its `}`")?;
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let plausible = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || name.starts_with(|c: char| c.is_ascii_digit())
            || !name.chars().all(plausible)
        {
            return Err(format!("`{name}` is not the name of a variable"));
        }
        match (env(name), default) {
            (Some(value), None) => out.push_str(&value),
            (Some(value), Some(_)) if !value.is_empty() => out.push_str(&value),
            (_, Some(default)) => out.push_str(default),
            (None, None) => return Err(format!("the variable `{name}` is not set")),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::scalar;

    fn env(name: &str) -> Option<String> {
        match name {
            "A" => Some("one".into()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_replaced() {
        for (text, want) in [
            ("x ${A} y ${A}", "x one y one"),
            ("${B:-two}", "two"),
            ("${EMPTY:-two}${EMPTY}", "two"),
            ("${A:-}", "one"),
            ("${B:-}", ""),
            ("$${A} $A", "${A} $A"),
        ] {
            assert_eq!(scalar(text, &env).as_deref(), Ok(want), "{text}");
        }
        for text in ["${B}", "${", "${A", "${}", "${A B}", "${1}"] {
            assert!(scalar(text, &env).is_err(), "{text}");
        }
    }
}
