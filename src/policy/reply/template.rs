//! A text with places to fill in, split once so that no request looks for them.

use std::borrow::Cow;

/// A text with places to fill in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Template {
    pieces: Vec<Piece>,
    escape: Escape,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Piece {
    Text(Box<str>),
    /// With what stands there when there is no value.
    Slot(Slot, &'static str),
}

/// What can be filled in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Slot {
    /// `<limit>`: the limit's name.
    Limit,
    /// `<retry_after>`: whole seconds until the request may be made again; nothing where waiting cannot help.
    RetryAfter,
    /// `<reset>`: whole seconds until nothing that the key spent counts any more; nothing where nobody knows.
    Reset,
    /// `<request_id>`: the request's name in the logs.
    RequestId,
}

/// How what is filled in is written, so that it stays a value in its surroundings.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Escape {
    /// As in a string of JSON (RFC 8259 section 7).
    Json,
    /// As in text or an attribute's value of HTML or XML.
    Html,
    /// As it is.
    Plain,
}

impl Slot {
    /// Every slot, as it is written.
    pub const ALL: [(&'static str, Self); 4] = [
        ("<limit>", Self::Limit),
        ("<retry_after>", Self::RetryAfter),
        ("<reset>", Self::Reset),
        ("<request_id>", Self::RequestId),
    ];
}

impl Escape {
    /// What suits a media type, given without parameters and in lower case.
    #[must_use]
    pub fn of(media_type: &str) -> Self {
        let subtype = media_type
            .split_once('/')
            .map_or("", |(_, subtype)| subtype);
        let is = |format: &str| {
            subtype == format
                || subtype
                    .strip_suffix(format)
                    .is_some_and(|rest| rest.ends_with('+'))
        };
        if is("json") {
            Self::Json
        } else if is("html") || is("xml") {
            Self::Html
        } else {
            Self::Plain
        }
    }

    fn write(self, value: &str, out: &mut String) {
        for letter in value.chars() {
            match (self, letter) {
                (Self::Json, '"') => out.push_str("\\\""),
                (Self::Json, '\\') => out.push_str("\\\\"),
                (Self::Json, control) if control < ' ' => {
                    out.push_str(&format!("\\u{:04x}", u32::from(control)));
                }
                (Self::Html, '&') => out.push_str("&amp;"),
                (Self::Html, '<') => out.push_str("&lt;"),
                (Self::Html, '>') => out.push_str("&gt;"),
                (Self::Html, '"') => out.push_str("&quot;"),
                (Self::Html, '\'') => out.push_str("&#39;"),
                (_, plain) => out.push(plain),
            }
        }
    }
}

impl Template {
    /// Splits `text` at its slots.
    #[must_use]
    pub fn new(text: &str, escape: Escape) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        let mut place = Place::Outside;
        while let Some((at, mark, slot)) = first_slot(rest) {
            let (before, from) = rest.split_at(at);
            place = place.after(before);
            if !before.is_empty() {
                pieces.push(Piece::Text(before.into()));
            }
            pieces.push(Piece::Slot(slot, place.nothing(escape)));
            rest = from.strip_prefix(mark).unwrap_or_default();
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.into()));
        }
        Self { pieces, escape }
    }

    /// The text with `value` in each place.
    #[must_use]
    pub fn fill<'v>(&self, value: impl Fn(Slot) -> Option<Cow<'v, str>>) -> String {
        let mut out = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Slot(slot, nothing) => match value(*slot) {
                    Some(value) => self.escape.write(&value, &mut out),
                    None => out.push_str(nothing),
                },
            }
        }
        out
    }
}

fn first_slot(text: &str) -> Option<(usize, &'static str, Slot)> {
    Slot::ALL
        .into_iter()
        .filter_map(|(mark, slot)| Some((text.find(mark)?, mark, slot)))
        .min_by_key(|(at, ..)| *at)
}

/// Where in a text of JSON something stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    Outside,
    String,
    /// After a backslash.
    Escaped,
}

impl Place {
    fn after(self, text: &str) -> Self {
        text.bytes().fold(self, |place, byte| match (place, byte) {
            (Self::Outside, b'"') | (Self::Escaped, _) => Self::String,
            (Self::String, b'"') | (Self::Outside, _) => Self::Outside,
            (Self::String, b'\\') => Self::Escaped,
            (Self::String, _) => Self::String,
        })
    }

    /// What a missing value is there: JSON needs a value where one is expected.
    fn nothing(self, escape: Escape) -> &'static str {
        match (escape, self) {
            (Escape::Json, Self::Outside) => "null",
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn filled(text: &str, escape: Escape, value: Option<&str>) -> String {
        Template::new(text, escape).fill(|_| value.map(Cow::Borrowed))
    }

    #[test]
    fn every_slot_is_filled_and_nothing_else_changes() {
        let text = "<p><limit></p> <retry_after>s<reset><request_id><limits> <<limit>>";
        let template = Template::new(text, Escape::Plain);
        let value = |slot: Slot| {
            Some(Cow::Owned(match slot {
                Slot::Limit => "<reset>".to_owned(),
                other => format!("{other:?}"),
            }))
        };
        assert_eq!(
            template.fill(value),
            "<p><reset></p> RetryAftersResetRequestId<limits> <<reset>>",
            "what is filled in is not looked through again"
        );
    }

    #[test]
    fn a_missing_value_is_null_where_json_wants_one() {
        let text = r#"{"a\"": <retry_after>, "b": "in <retry_after> s", "c": <retry_after>}"#;
        assert_eq!(
            filled(text, Escape::Json, None),
            r#"{"a\"": null, "b": "in  s", "c": null}"#
        );
        assert_eq!(filled("\"<reset>", Escape::Plain, None), "\"");
        assert_eq!(filled("<reset>", Escape::Html, None), "");
    }

    #[test]
    fn the_media_type_says_how_to_escape() {
        for (media_type, escape) in [
            ("application/json", Escape::Json),
            ("application/problem+json", Escape::Json),
            ("text/html", Escape::Html),
            ("application/xhtml+xml", Escape::Html),
            ("text/xml", Escape::Html),
            ("text/plain", Escape::Plain),
            ("application/x-json", Escape::Plain),
            ("application/notjson", Escape::Plain),
        ] {
            assert_eq!(Escape::of(media_type), escape, "{media_type}");
        }
    }

    proptest! {
        #[test]
        fn no_value_leaves_its_string(value in any::<String>()) {
            let text = filled("{\"a\":\"<limit>\"}", Escape::Json, Some(&value));
            let read: serde_json::Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(read, serde_json::json!({ "a": value }));
        }

        #[test]
        fn no_value_leaves_its_element(value in any::<String>()) {
            let text = filled("<limit>", Escape::Html, Some(&value));
            prop_assert!(!text.contains(['<', '>', '"', '\'']));
            let back = text
                .replace("&lt;", "<")
                .replace("&gt;", ">")
                .replace("&quot;", "\"")
                .replace("&#39;", "'")
                .replace("&amp;", "&");
            prop_assert_eq!(back, value);
        }
    }
}
