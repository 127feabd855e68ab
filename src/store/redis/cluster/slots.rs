//! Which node of a cluster has a key. Pure.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::node::Node;

/// How many slots a cluster has.
const SLOTS: u16 = 16384;

/// Nobody's slot.
const NOBODY: u16 = u16::MAX;

/// One of the 16384 slots that the keys of a cluster fall into. Keys with the same tag have the same slot.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(in crate::store::redis) struct Slot(u16);

impl Slot {
    /// The slot of a key: of what stands between its first `{` and the next `}`, unless that is nothing.
    pub(in crate::store::redis) fn of(key: &str) -> Self {
        let tag = key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(tag, _)| tag)
            .filter(|tag| !tag.is_empty());
        Self(crc16(tag.unwrap_or(key).as_bytes()) % SLOTS)
    }

    /// The slot with this number; none where there is no such slot.
    pub(in crate::store::redis) fn new(number: u64) -> Option<Self> {
        let number = u16::try_from(number).ok()?;
        (number < SLOTS).then_some(Self(number))
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// CRC-16/XMODEM (polynomial 0x1021), as the cluster specification asks for.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        let mut crc = crc ^ (u16::from(*byte) << 8);
        for _ in 0..8 {
            let carry = crc & 0x8000 != 0;
            crc = (crc << 1) ^ if carry { 0x1021 } else { 0 };
        }
        crc
    })
}

/// Slots that lie beside each other, both ends included, and their node.
#[derive(Clone, Debug)]
pub(in crate::store::redis) struct Range<N> {
    pub(in crate::store::redis) first: Slot,
    pub(in crate::store::redis) last: Slot,
    pub(in crate::store::redis) node: N,
}

/// Who has which slot.
#[derive(Clone, Debug, Default)]
pub(super) struct SlotMap {
    nodes: Vec<Arc<Node>>,
    /// For each slot an index into `nodes`, or [`NOBODY`]; empty while nothing is known.
    owners: Vec<u16>,
}

impl SlotMap {
    pub(super) fn new(ranges: Vec<Range<Arc<Node>>>) -> Self {
        let mut map = Self {
            nodes: Vec::new(),
            owners: vec![NOBODY; usize::from(SLOTS)],
        };
        for range in ranges {
            let index = map.index(range.node);
            let slots = usize::from(range.first.0)..=usize::from(range.last.0);
            if let Some(owners) = map.owners.get_mut(slots) {
                owners.fill(index);
            }
        }
        map
    }

    /// The same, but for one slot.
    pub(super) fn with(&self, slot: Slot, node: Arc<Node>) -> Self {
        let mut map = self.clone();
        let index = map.index(node);
        if let Some(owner) = map.owners.get_mut(usize::from(slot.0)) {
            *owner = index;
        }
        map
    }

    /// Whose slot it is.
    pub(super) fn owner(&self, slot: Slot) -> Option<&Arc<Node>> {
        let index = self.owners.get(usize::from(slot.0))?;
        self.nodes.get(usize::from(*index))
    }

    /// The nodes that have slots.
    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    /// A tag whose keys lie on `node`; none where it has no slot, or nearly none.
    pub(super) fn tag_on(&self, node: &Arc<Node>) -> Option<String> {
        // A node with 1 of 100 slots is hit within 1000 tries but for one time in 20 000.
        (0..u32::from(SLOTS) * 4)
            .map(|n| n.to_string())
            .find(|tag| {
                self.owner(Slot::of(tag))
                    .is_some_and(|owner| Arc::ptr_eq(owner, node))
            })
    }

    fn index(&mut self, node: Arc<Node>) -> u16 {
        let known = self
            .nodes
            .iter()
            .position(|known| Arc::ptr_eq(known, &node));
        let index = known.unwrap_or_else(|| {
            self.nodes.push(node);
            self.nodes.len() - 1
        });
        u16::try_from(index).unwrap_or(NOBODY)
    }
}
