//! Trees of long keys that have much in common: fences as long as entries, prefixes that come and go.

use proptest::prelude::*;

use super::*;
use crate::MAX_KEY_BYTES;

/// The order in which keys come.
#[derive(Debug, Clone, Copy)]
enum Order {
    Ascending,
    Descending,
    AsDrawn,
}

/// Keys that differ late: letters of the same kind, then something of their own.
fn long_key() -> impl Strategy<Value = Vec<u8>> {
    let common = prop_oneof![0_usize..60, 400_usize..1_000, 0_usize..MAX_KEY_BYTES - 8];
    (common, prop::collection::vec(prop_oneof![Just(b'p'), any::<u8>()], 0..8)).prop_map(|(common, own)| {
        let mut key = b"p".repeat(common);
        key.extend_from_slice(&own);
        key
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn trees_of_long_keys_grow_and_shrink(
        drawn in prop::collection::vec(long_key(), 1..400),
        order in prop_oneof![Just(Order::Ascending), Just(Order::Descending), Just(Order::AsDrawn)],
        value_bytes in prop_oneof![0_usize..40, 0_usize..4_000],
        kept in prop::collection::vec(any::<bool>(), 400),
        is_settled in any::<bool>(),
    ) {
        let mut keys = drawn;
        match order {
            Order::Ascending => keys.sort(),
            Order::Descending => keys.sort_by(|a, b| b.cmp(a)),
            Order::AsDrawn => {}
        }
        let engine = open(&Arc::new(SimulatedDisk::new(1)));
        let tree = engine.create_tree().unwrap();
        let (mut clock, mut expected) = (0, BTreeMap::new());
        let mut write = |batch: &Batch| match is_settled {
            true => engine.apply_settled(batch).unwrap(),
            false => commit(&engine, batch, &mut clock),
        };
        for (number, key) in keys.iter().enumerate() {
            let mut value = vec![b'v'; value_bytes];
            value.extend_from_slice(&number.to_le_bytes());
            let mut batch = Batch::new();
            batch.put(tree, key, &value);
            write(&batch);
            expected.insert(key.clone(), value);
        }
        assert_holds(&engine, tree, &expected);
        for (key, _) in keys.iter().zip(&kept).filter(|(_, is_kept)| !**is_kept) {
            let mut batch = Batch::new();
            batch.delete(tree, key);
            write(&batch);
            expected.remove(key);
        }
        while engine.reclaim_step().unwrap() {}
        assert_holds(&engine, tree, &expected);
    }
}

/// Numbers in ascending order, as record ids are: those of the last leaf have a long prefix in common, until one carries.
#[test]
fn numbers_that_carry_find_room() {
    // So many before it that the second leaf is full, nearly full, or has just been split.
    for before in 400..520 {
        for carry in [1_u64 << 16, 1 << 32] {
            let engine = open(&Arc::new(SimulatedDisk::new(1)));
            let tree = engine.create_tree().unwrap();
            // No version is settled meanwhile: compacting the leaf wins nothing but the long prefix.
            let held = engine.begin_snapshot();
            let (mut clock, mut expected) = (0, BTreeMap::new());
            for number in carry - before..carry + 3 {
                let (key, value) = (number.to_be_bytes(), [number as u8; 40]);
                let mut batch = Batch::new();
                batch.put(tree, &key, &value);
                commit(&engine, &batch, &mut clock);
                expected.insert(key.to_vec(), value.to_vec());
            }
            drop(held);
            assert_holds(&engine, tree, &expected);
        }
    }
}

fn assert_holds(engine: &Engine, tree: TreeId, expected: &BTreeMap<Vec<u8>, Vec<u8>>) {
    let expected: Vec<_> = expected.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(all(engine, &engine.begin_snapshot(), tree), expected);
    assert_sound(engine, &[TreeId::CATALOG, tree]);
}
