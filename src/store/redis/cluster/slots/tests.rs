use super::*;
use crate::policy::NodeAddress;
use crate::store::guard::{Guard, Health};
use crate::telemetry::{Events, Registry};

fn node(port: u16) -> Arc<Node> {
    let health = Health::new(Events::new(&Registry::new()));
    Arc::new(Node {
        address: NodeAddress {
            host: Arc::from("h"),
            port,
        },
        guard: Guard::new(&health),
    })
}

fn range(first: u64, last: u64, node: &Arc<Node>) -> Range<Arc<Node>> {
    Range {
        first: Slot::new(first).unwrap(),
        last: Slot::new(last).unwrap(),
        node: Arc::clone(node),
    }
}

// The check value of the specification, and what `CLUSTER KEYSLOT` says.
#[test]
fn slots_are_those_of_the_specification() {
    assert_eq!(crc16(b"123456789"), 0x31c3);
    assert_eq!(Slot::of("foo"), Slot(12182));
    assert_eq!(
        Slot::of("{user1000}.following"),
        Slot::of("{user1000}.followers")
    );
    assert_eq!(Slot::of("foo{}{bar}"), Slot(crc16(b"foo{}{bar}") % SLOTS));
    assert_eq!(Slot::of("foo{{bar}}zap"), Slot::of("{bar"));
    assert_eq!(Slot::of("foo{bar}{zap}"), Slot::of("bar"));
    assert_eq!(Slot::of("a{b"), Slot(crc16(b"a{b") % SLOTS));
    assert_eq!(Slot::new(16384), None);
}

#[test]
fn a_slot_has_one_owner_and_moves_alone() {
    let (one, other) = (node(1), node(2));
    let map = SlotMap::new(vec![range(0, 8191, &one), range(8192, 16382, &other)]);
    let owner = |map: &SlotMap, slot| map.owner(Slot(slot)).map(|node| node.address.port);
    assert_eq!(owner(&map, 8191), Some(1));
    assert_eq!(owner(&map, 8192), Some(2));
    assert_eq!(owner(&map, 16383), None);
    let moved = map.with(Slot(8191), Arc::clone(&other));
    assert_eq!(
        (owner(&moved, 8190), owner(&moved, 8191)),
        (Some(1), Some(2))
    );
    assert_eq!(moved.nodes().len(), 2);
    let three = moved.with(Slot(16383), node(3));
    assert_eq!(owner(&three, 16383), Some(3));
    assert_eq!(SlotMap::default().owner(Slot(0)).map(|_| ()), None);
}

#[test]
fn a_tag_is_found_on_every_node() {
    let (one, other) = (node(1), node(2));
    let map = SlotMap::new(vec![range(0, 99, &one), range(100, 16383, &other)]);
    for node in [&one, &other] {
        let tag = map.tag_on(node).unwrap();
        let key = format!("sluice:1:{{{tag}}}:trial:fw1s:");
        assert!(Arc::ptr_eq(map.owner(Slot::of(&key)).unwrap(), node));
    }
    assert_eq!(map.tag_on(&node(3)), None);
}
