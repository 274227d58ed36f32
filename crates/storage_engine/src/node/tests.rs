//! Model test of a node: a page against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::frame_arena::{FrameArena, FrameId, OptimisticPage};

const LOWER: &[u8] = b"key/aa";
const UPPER: &[u8] = b"key/zz";

fn empty() -> Box<PageImage> {
    let mut image = Box::new([0; PAGE_BYTES]);
    NodeBuilder::new(&mut image, 7, 0, LOWER, Some(UPPER));
    image
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    "[b-y][a-c]{0,6}".prop_map(|tail| format!("key/{tail}").into_bytes())
}

#[derive(Debug, Clone)]
enum Step {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
    Version(Vec<u8>, u64, bool),
    Settle(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = || proptest::collection::vec(any::<u8>(), 0..120);
    let step = prop_oneof![
        5 => (keys(), value()).prop_map(|(key, value)| Step::Put(key, value)),
        2 => keys().prop_map(Step::Remove),
        2 => (keys(), 1..99u64, any::<bool>()).prop_map(|(key, since, chained)| Step::Version(key, since, chained)),
        1 => keys().prop_map(Step::Settle),
    ];
    proptest::collection::vec(step, 1..if cfg!(miri) { 24 } else { 300 })
}

fn check(image: &PageImage, model: &BTreeMap<Vec<u8>, (Vec<u8>, Version)>) {
    let node = Node(image);
    assert_eq!(node.prefix(), b"key/");
    assert_eq!(node.count(), model.len());
    let mut heap = LOWER.len() + UPPER.len();
    for (position, (key, (value, version))) in model.iter().enumerate() {
        let mut found = Vec::new();
        node.copy_key(position, &mut found);
        assert_eq!(&found, key);
        assert_eq!(node.search(key), Found::At(position));
        assert_eq!(node.value(position), (value.as_slice(), false));
        assert_eq!(node.version(position), *version);
        heap += node.heap_bytes(position);
    }
    assert_eq!(node.heap_start() + heap + node.garbage(), PAGE_BYTES, "every heap byte is accounted for");
    assert_eq!(node.versioned(), model.values().filter(|(_, version)| *version != Version::Settled).count());
}

/// What a reader without the latch finds is what is there.
fn check_unlatched(node: &Node<OptimisticPage<'_>>, image: &PageImage, sought: &[u8]) {
    let stable = Node(image);
    assert_eq!(node.search(sought), stable.search(sought));
    let outside = &sought[sought.len() / 2..];
    assert_eq!(node.lower_bound(outside), stable.lower_bound(outside));
    assert_eq!(node.copy_upper_fence().as_deref(), stable.upper_fence());
    let (mut key, mut value) = (Vec::new(), b"before".to_vec());
    for position in 0..node.count() {
        node.copy_key(position, &mut key);
        assert_eq!(key, [stable.prefix(), stable.suffix(position)].concat());
        assert_eq!(node.shared_with(position, sought), common_prefix(&key, sought));
        assert_eq!(node.version(position), stable.version(position));
        value.truncate(6);
        assert!(!node.append_value(position, &mut value));
        assert_eq!(value, [b"before", stable.value(position).0].concat());
    }
    let mut fences = vec![LOWER.to_vec()];
    fences.extend((0..node.count()).map(|position| [stable.prefix(), stable.suffix(position)].concat()));
    fences.push(UPPER.to_vec());
    for (position, pair) in fences.windows(2).enumerate() {
        assert_eq!(node.child_prefix_length(position), Some(common_prefix(&pair[0], &pair[1])));
    }
}

fn change(page: &mut impl PageMut, step: Step, model: &mut BTreeMap<Vec<u8>, (Vec<u8>, Version)>) -> Vec<u8> {
    let mut node = NodeMut(page);
    match step {
        Step::Put(key, value) => {
            match node.view().search(&key) {
                Found::At(position) => {
                    if node.set_value(position, &value, false) {
                        model.get_mut(&key).unwrap().0 = value;
                    }
                }
                Found::Before(position) => {
                    if node.insert(position, &key[4..], &value, false, Version::Settled) {
                        model.insert(key.clone(), (value, Version::Settled));
                    }
                }
            }
            key
        }
        Step::Remove(key) => {
            if let Found::At(position) = node.view().search(&key) {
                node.remove(position);
                model.remove(&key);
            }
            key
        }
        Step::Version(key, since, chained) => {
            if let Found::At(position) = node.view().search(&key) {
                let version = match chained {
                    true => Version::Chained { since, position: since },
                    false => Version::Implied { since },
                };
                if node.set_version(position, version, Presence::Live) {
                    model.get_mut(&key).unwrap().1 = version;
                }
            }
            key
        }
        Step::Settle(key) => {
            if let Found::At(position) = node.view().search(&key) {
                assert!(node.set_version(position, Version::Settled, Presence::Live));
                model.get_mut(&key).unwrap().1 = Version::Settled;
            }
            key
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 128 }))]
    #[test]
    fn a_node_is_a_sorted_map(steps in steps()) {
        let mut image = empty();
        let mut model = BTreeMap::new();
        for step in steps {
            change(&mut *image, step, &mut model);
            check(&image, &model);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 24 }))]
    #[test]
    fn so_is_one_in_a_frame_seen_with_its_latch_and_without(steps in steps()) {
        let arena = FrameArena::new(1).unwrap();
        let frame = FrameId(0);
        arena.try_lock(frame).unwrap().put_image(&empty());
        let mut model = BTreeMap::new();
        for step in steps {
            let mut latched = arena.try_lock(frame).unwrap();
            let sought = change(&mut latched, step, &mut model);
            check(&latched, &model);
            check_unlatched(&Node(arena.optimistic(frame)), &latched, &sought);
        }
    }
}

#[test]
fn heads_order_like_their_suffixes() {
    let mut suffixes: Vec<&[u8]> = vec![b"", b"\0", b"a", b"a\0", b"ab", b"abc\0", b"abcd", b"abcde", b"b"];
    suffixes.sort_unstable();
    assert!(suffixes.windows(2).all(|pair| head_of(pair[0]) <= head_of(pair[1])));
}

#[test]
fn bounds_outside_of_the_fences_are_the_ends() {
    let mut image = empty();
    let mut node = NodeMut(&mut *image);
    assert!(node.insert(0, b"mm", b"", false, Version::Settled));
    assert_eq!(node.view().lower_bound(b"a"), 0);
    assert_eq!(node.view().lower_bound(b"key"), 0);
    assert_eq!(node.view().lower_bound(b"key/mm"), 0);
    assert_eq!(node.view().lower_bound(b"key/mma"), 1);
    assert_eq!(node.view().lower_bound(b"zebra"), 1);
}
