//! A member of an object of JSON (RFC 8259).

use std::fmt;
use std::num::FpCategory;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::super::read::Reading;
use super::{same, value};
use crate::request::Extent;

/// The one value at `path`: a text, a number, true or false. What follows the object does not matter, as many servers read
/// no further; a fault within it leaves nothing that can be relied on.
pub(super) fn find(path: &[Box<str>], text: &[u8], extent: Extent) -> Reading<'static> {
    let mut seen = Seen::default();
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = (&mut reader).deserialize_any(Find {
        path,
        seen: &mut seen,
    });
    let cut = match read {
        Ok(()) => false,
        Err(error) if error.is_eof() && extent == Extent::Cut => true,
        Err(_) => return Reading::Missing,
    };
    match seen.places {
        0 => Reading::Missing,
        1 if cut && seen.open => Reading::Missing,
        1 => seen.text.as_deref().map_or(Reading::Missing, value),
        _ => Reading::Twice,
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Seen {
    /// How often the name occurs.
    places: usize,
    /// Its value; none where that is null, an object or a list.
    text: Option<String>,
    /// The value is a number that nothing has ended yet: more digits may follow.
    open: bool,
}

/// Looks for `path` below a value; an empty one is the value itself.
struct Find<'p, 's> {
    path: &'p [Box<str>],
    seen: &'s mut Seen,
}

impl Find<'_, '_> {
    fn found(self, text: impl FnOnce() -> Option<String>) {
        if self.path.is_empty() {
            self.seen.text = text();
        }
    }

    fn number(self, text: String) {
        self.seen.open = self.path.is_empty();
        self.found(|| Some(text));
    }
}

impl<'de> DeserializeSeed<'de> for Find<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.path.split_first() else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(());
        };
        while let Some(hit) = map.next_key_seed(Name(first))? {
            self.seen.open = false;
            if !hit {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            if rest.is_empty() {
                self.seen.places = self.seen.places.saturating_add(1);
                self.seen.text = None;
            }
            let seen = &mut *self.seen;
            map.next_value_seed(Find { path: rest, seen })?;
        }
        self.seen.open = false;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.found(|| Some(text.to_owned()));
        Ok(())
    }

    fn visit_bool<E>(self, is: bool) -> Result<(), E> {
        self.found(|| Some(is.to_string()));
        Ok(())
    }

    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.number(number.to_string());
        Ok(())
    }

    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.number(number.to_string());
        Ok(())
    }

    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        // One text for all spellings of a number: 1.0, 10e-1; and no zero but one.
        self.number(match number.classify() {
            FpCategory::Zero => "0".to_owned(),
            _ => number.to_string(),
        });
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Whether a member has this name.
struct Name<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<bool, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(same(name.chars(), self.0))
    }
}
