//! What a request costs a limit.

use std::sync::Arc;

use hyper::header::{HeaderMap, HeaderName};

use crate::limit::Cost;
use crate::request::{Facts, PeerTrust};
use crate::route::Index;

/// What a request costs a limit.
#[derive(Clone, Debug, PartialEq)]
pub enum CostRule {
    /// Always the same.
    Fixed(Cost),
    /// What a trusted proxy says.
    Request(RequestCost),
    /// What the first matcher says.
    Matched(MatchedCost),
    /// What the answer says.
    Answer(Arc<AnswerCost>),
}

/// A cost that stands in a field of the request. Only a trusted proxy is believed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestCost {
    /// The field.
    pub name: HeaderName,
    /// What a request costs at most.
    pub most: Cost,
    /// What it costs where the field does not say: absent, there twice, no whole number, below 1, or from a peer that is
    /// not trusted.
    pub otherwise: Cost,
}

/// A cost by kind of request.
#[derive(Clone, Debug, PartialEq)]
pub struct MatchedCost {
    /// Which requests cost what: entries are indexes into `costs`; compares widely.
    pub index: Index,
    /// The costs, in the order of the file.
    pub costs: Vec<Cost>,
    /// What every other request costs.
    pub otherwise: Cost,
}

/// A cost that the answer says: `most` is charged on entry, and corrected by what the answer says.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AnswerCost {
    /// What is charged until the answer says; what stays charged when it does not.
    pub most: Cost,
    /// Where the answer says it.
    pub place: CostPlace,
}

/// Where an answer says what it cost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CostPlace {
    /// In a field of its head.
    Header(HeaderName),
    /// In a field behind its body.
    Trailer(HeaderName),
    /// In its JSON body or in the JSON of its events: the names of the members from the outermost to the number; never
    /// empty.
    Json(Vec<String>),
}

impl Default for CostRule {
    fn default() -> Self {
        Self::Fixed(Cost::ONE)
    }
}

impl CostRule {
    /// What is charged on entry.
    #[must_use]
    pub fn on_entry(&self, facts: &Facts<'_>) -> Cost {
        match self {
            Self::Fixed(cost) => *cost,
            Self::Request(request) => request.of(facts),
            Self::Matched(matched) => matched.of(facts),
            Self::Answer(answer) => answer.most,
        }
    }

    /// Where the answer says what it cost, if it does.
    #[must_use]
    pub fn answer(&self) -> Option<&Arc<AnswerCost>> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Fixed(_) | Self::Request(_) | Self::Matched(_) => None,
        }
    }
}

impl RequestCost {
    fn of(&self, facts: &Facts<'_>) -> Cost {
        let said = match facts.client.trust {
            PeerTrust::Trusted => cost_in(&facts.head.headers, &self.name),
            PeerTrust::Untrusted => None,
        };
        let said = said.filter(|cost| *cost >= Cost::ONE);
        said.map_or(self.otherwise, |cost| cost.min(self.most))
    }
}

impl MatchedCost {
    fn of(&self, facts: &Facts<'_>) -> Cost {
        let hit = self.index.first(facts);
        let cost = hit.and_then(|hit| self.costs.get(hit.entry));
        cost.copied().unwrap_or(self.otherwise)
    }
}

/// The cost that a field says: none where it is absent, there twice, or not a number.
#[must_use]
pub fn cost_in(fields: &HeaderMap, name: &HeaderName) -> Option<Cost> {
    let mut values = fields.get_all(name).iter();
    let (only, second) = (values.next()?, values.next());
    match second {
        None => cost_of(only.as_bytes()),
        Some(_) => None,
    }
}

/// A decimal number, a part of a unit counting as a whole one; what no cost can hold is the greatest.
#[must_use]
pub fn cost_of(text: &[u8]) -> Option<Cost> {
    let mut pieces = text.splitn(2, |&byte| byte == b'.');
    let (whole, part) = (pieces.next()?, pieces.next());
    let digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if !digits(whole) || !part.is_none_or(digits) {
        return None;
    }
    let more = part.is_some_and(|part| part.iter().any(|&digit| digit != b'0'));
    let units = whole.iter().fold(0_u32, |units, digit| {
        units
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'))
    });
    Some(Cost::new(units.saturating_add(u32::from(more))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_decimal_number() {
        let cost = |text: &str| cost_of(text.as_bytes()).map(Cost::get);
        for (text, units) in [("0", 0), ("7", 7), ("007", 7), ("2.0", 2), ("2.01", 3)] {
            assert_eq!(cost(text), Some(units), "{text}");
        }
        assert_eq!(cost("99999999999999999999"), Some(u64::from(u32::MAX)));
        for text in [
            "", "-1", "+1", " 1", "1e3", "1.", ".5", "0x1", "1,2", "1.2.3", "ten",
        ] {
            assert_eq!(cost(text), None, "{text}");
        }
    }

    #[test]
    fn a_field_says_it_once() {
        let name = HeaderName::from_static("x-cost");
        let mut fields = HeaderMap::new();
        assert_eq!(cost_in(&fields, &name), None);
        fields.append(&name, 7.into());
        assert_eq!(cost_in(&fields, &name), Some(Cost::new(7)));
        fields.append(&name, 7.into());
        assert_eq!(cost_in(&fields, &name), None);
    }
}
