//! What single keys get: a table that is looked up, never searched.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use sha2::{Digest, Sha256};
use smallvec::SmallVec;

use super::Grant;
use crate::limit::key::{Source, Value, Values};

/// One part of the key of an override.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Term {
    /// This value, as a request's key is read.
    Text(Box<[u8]>),
    /// A value with this SHA-256.
    Sha256([u8; 32]),
    /// A client of this network.
    Network(IpNet),
}

/// What single keys get, by what their keys look like.
///
/// The terms of one shape lie in one hash map. A request is looked up once for each shape, of which there are as many as
/// the file has lengths of prefixes: the longest comes first.
#[derive(Clone, Default, PartialEq)]
pub struct Overrides {
    tables: Vec<Table>,
}

#[derive(Clone, PartialEq)]
struct Table {
    /// One for each part of the key.
    shapes: Vec<Shape>,
    grants: Grants,
}

/// What a term says of a value.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
enum Shape {
    V6(u8),
    V4(u8),
    Sha256,
    Text,
}

/// By packed key.
type Grants = HashMap<Box<[u8]>, Grant>;
/// The parts of a key as one text.
type Packed = SmallVec<[u8; 128]>;

impl Overrides {
    /// The table of these overrides; each key has as many terms as the limit's `per` has parts, and none is given twice.
    #[must_use]
    pub fn new(overrides: impl IntoIterator<Item = (Vec<Term>, Grant)>) -> Self {
        let mut tables: HashMap<Vec<Shape>, Grants> = HashMap::new();
        for (terms, grant) in overrides {
            let shapes = terms.iter().map(Term::shape).collect();
            let mut packed = Packed::new();
            for term in &terms {
                term.pack(&mut packed);
            }
            let table = tables.entry(shapes).or_default();
            table.insert(packed.into_vec().into_boxed_slice(), grant);
        }
        let mut tables: Vec<Table> = tables
            .into_iter()
            .map(|(shapes, grants)| Table { shapes, grants })
            .collect();
        tables.sort_by(|one, other| other.specificity().cmp(&one.specificity()));
        Self { tables }
    }

    /// How many keys have amounts of their own, and how many are skipped.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let grants = self.tables.iter().flat_map(|table| table.grants.values());
        let (skipped, own): (Vec<&Grant>, Vec<&Grant>) =
            grants.partition(|grant| **grant == Grant::Skip);
        (own.len(), skipped.len())
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// What the key made of `values` gets; `client` is the address that networks are compared with. A key of which a part
    /// is missing has no override.
    #[must_use]
    pub fn find(&self, values: &Values<'_>, client: IpAddr) -> Option<Grant> {
        self.tables
            .iter()
            .find_map(|table| table.find(values, client.to_canonical()))
    }
}

/// The keys may be credentials.
impl std::fmt::Debug for Overrides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (own, skipped) = self.count();
        write!(f, "Overrides({own} + {skipped})")
    }
}

impl Table {
    /// Longer prefixes before shorter ones; a stable order otherwise.
    fn specificity(&self) -> (Vec<u8>, &[Shape]) {
        let bits = |shape: &Shape| match *shape {
            Shape::V4(bits) | Shape::V6(bits) => bits,
            Shape::Text | Shape::Sha256 => u8::MAX,
        };
        (self.shapes.iter().map(bits).collect(), &self.shapes)
    }

    fn find(&self, values: &Values<'_>, client: IpAddr) -> Option<Grant> {
        let mut packed = Packed::new();
        for (shape, value) in self.shapes.iter().zip(values) {
            shape.pack(value.as_ref()?, client, &mut packed)?;
        }
        self.grants.get(packed.as_slice()).copied()
    }
}

impl Term {
    fn shape(&self) -> Shape {
        match self {
            Self::Text(_) => Shape::Text,
            Self::Sha256(_) => Shape::Sha256,
            Self::Network(IpNet::V4(net)) => Shape::V4(net.prefix_len()),
            Self::Network(IpNet::V6(net)) => Shape::V6(net.prefix_len()),
        }
    }

    fn pack(&self, out: &mut Packed) {
        match self {
            Self::Text(text) => pack_text(text, out),
            Self::Sha256(hash) => out.extend_from_slice(hash),
            Self::Network(net) => pack_address(net.network(), out),
        }
    }
}

impl Shape {
    /// What the term of this shape would be that means `value`; none where none does.
    fn pack(self, value: &Value<'_>, client: IpAddr, out: &mut Packed) -> Option<()> {
        let is_address = matches!(value.source, Source::Ip { .. });
        match (self, client) {
            (Self::V4(bits), IpAddr::V4(_)) | (Self::V6(bits), IpAddr::V6(_)) if is_address => {
                pack_address(IpNet::new(client, bits).ok()?.network(), out);
            }
            (Self::Text, _) if !is_address => pack_text(&value.bytes, out),
            (Self::Sha256, _) if !is_address => out.extend_from_slice(&sha256(&value.bytes)),
            _ => return None,
        }
        Some(())
    }
}

/// The SHA-256 of a value.
#[must_use]
pub fn sha256(value: &[u8]) -> [u8; 32] {
    Sha256::digest(value).into()
}

/// Delimited by its length, so that parts cannot collide.
fn pack_text(text: &[u8], out: &mut Packed) {
    out.extend_from_slice(&text.len().to_be_bytes());
    out.extend_from_slice(text);
}

fn pack_address(address: IpAddr, out: &mut Packed) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use proptest::prelude::*;

    use super::*;
    use crate::policy::Allowance;

    const IP: Source = Source::Ip { v4: 32, v6: 128 };
    const PATH: Source = Source::Path;

    fn grant(number: usize) -> Grant {
        Grant::Allow(Allowance::new(number..number + 1))
    }

    fn value<'r>(source: &'r Source, bytes: &'r str) -> Option<Value<'r>> {
        Some(Value {
            source,
            bytes: Cow::Borrowed(bytes.as_bytes()),
        })
    }

    fn text(text: &str) -> Term {
        Term::Text(text.as_bytes().into())
    }

    fn net(text: &str) -> Term {
        Term::Network(text.parse().unwrap())
    }

    fn at(overrides: &Overrides, address: &str) -> Option<Grant> {
        overrides.find(
            &[value(&IP, address)].into_iter().collect(),
            address.parse().unwrap(),
        )
    }

    #[test]
    fn the_longest_prefix_wins() {
        let overrides = Overrides::new([
            (vec![net("10.0.0.0/8")], grant(8)),
            (vec![net("10.1.2.3/32")], Grant::Skip),
            (vec![net("10.1.0.0/16")], grant(16)),
            (vec![net("0.0.0.0/0")], grant(0)),
            (vec![net("2001:db8::/32")], grant(6)),
        ]);
        assert_eq!(overrides.count(), (4, 1));
        assert_eq!(at(&overrides, "10.1.2.3"), Some(Grant::Skip));
        assert_eq!(at(&overrides, "10.1.2.4"), Some(grant(16)));
        assert_eq!(at(&overrides, "10.2.2.4"), Some(grant(8)));
        assert_eq!(at(&overrides, "192.0.2.1"), Some(grant(0)));
        assert_eq!(at(&overrides, "2001:db8::1"), Some(grant(6)));
        assert_eq!(at(&overrides, "2001:db9::1"), None);
    }

    #[test]
    fn a_text_is_no_address_and_an_address_no_text() {
        let header = Source::Header(hyper::header::HOST);
        let overrides = Overrides::new([
            (vec![net("10.0.0.1/32")], grant(1)),
            (vec![text("10.0.0.2")], grant(2)),
            (vec![Term::Sha256(sha256(b"10.0.0.3"))], grant(3)),
        ]);
        let client = "10.0.0.1".parse().unwrap();
        let named =
            |name: &str| overrides.find(&[value(&header, name)].into_iter().collect(), client);
        assert_eq!(named("10.0.0.1"), None, "the client chose this text");
        assert_eq!(named("10.0.0.2"), Some(grant(2)));
        assert_eq!(named("10.0.0.3"), Some(grant(3)));
        assert_eq!(at(&overrides, "10.0.0.2"), None);
        assert_eq!(at(&overrides, "10.0.0.3"), None);
        assert_eq!(overrides.find(&[None].into_iter().collect(), client), None);
        assert_eq!(format!("{overrides:?}"), "Overrides(3 + 0)");
    }

    #[test]
    fn every_part_of_a_key_has_to_match() {
        let overrides = Overrides::new([
            (vec![net("10.0.0.0/8"), text("/a")], grant(1)),
            (vec![net("10.0.0.0/16"), text("/a")], grant(2)),
            (vec![net("10.0.0.0/16"), text("/b")], grant(3)),
        ]);
        let find = |address: &str, path: &str| {
            overrides.find(
                &[value(&IP, address), value(&PATH, path)]
                    .into_iter()
                    .collect(),
                address.parse().unwrap(),
            )
        };
        assert_eq!(find("10.1.0.0", "/a"), Some(grant(1)));
        assert_eq!(find("10.0.1.0", "/a"), Some(grant(2)));
        assert_eq!(find("10.0.1.0", "/b"), Some(grant(3)));
        assert_eq!(find("10.1.0.0", "/b"), None);
        assert_eq!(find("10.0.1.0", "/c"), None);
    }

    proptest! {
        /// The table finds what a scan of the whole list would.
        #[test]
        fn the_table_finds_what_a_scan_finds(
            nets in prop::collection::vec((any::<[u8; 2]>(), 0_u8..=16), 0..24),
            client in any::<[u8; 2]>(),
        ) {
            let address = |bytes: [u8; 2]| IpAddr::from([10 | bytes[0] & 1, bytes[0] & 3, bytes[1] & 7, 1]);
            let mut nets: Vec<IpNet> = nets
                .into_iter()
                .map(|(bytes, bits)| IpNet::new(address(bytes), bits + 8).unwrap().trunc())
                .collect();
            nets.sort();
            nets.dedup();
            let overrides = Overrides::new(
                nets.iter().enumerate().map(|(at, net)| (vec![Term::Network(*net)], grant(at))),
            );
            let client = address(client);
            let scanned = nets
                .iter()
                .enumerate()
                .filter(|(_, net)| net.contains(&client))
                .max_by_key(|(_, net)| net.prefix_len())
                .map(|(at, _)| grant(at));
            prop_assert_eq!(at(&overrides, &client.to_string()), scanned);
        }
    }
}
