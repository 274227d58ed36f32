//! Record ids: order, splitting, sizes.

use document::strategies::integers;
use proptest::prelude::*;

use crate::{append_record_id, decode_record_key, record_key, split_record_id};

fn suffix(record_id: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    append_record_id(&mut bytes, record_id);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn order_and_split(left in integers(), right in integers(), key in prop::collection::vec(any::<u8>(), 0..9)) {
        prop_assert_eq!(suffix(left).cmp(&suffix(right)), left.cmp(&right));
        prop_assert_eq!(record_key(left).cmp(&record_key(right)), left.cmp(&right));
        prop_assert_eq!(decode_record_key(&record_key(left)), Some(left));
        let entry = [&key[..], &suffix(left)].concat();
        prop_assert_eq!(split_record_id(&entry), Some((&key[..], left)));
        let first = suffix(left)[0];
        prop_assert!(first > 0 && first < 0xFF);
    }

    #[test]
    fn damaged_entries_are_refused_or_split(entry in prop::collection::vec(any::<u8>(), 0..12)) {
        let _ = split_record_id(&entry);
    }
}

#[test]
fn sizes() {
    let cases = [(0, 1), (1, 2), (255, 2), (256, 3), (65_535, 3), (1_000_000, 4), (16_777_215, 4), (1 << 32, 6)];
    for (record_id, size) in cases {
        assert_eq!(suffix(record_id).len(), size, "{record_id}");
    }
    assert_eq!(suffix(i64::MAX).len(), 9);
    assert_eq!(suffix(i64::MIN).len(), 9);
    assert_eq!(suffix(1_000_000), [0x50, 0xF4, 0x24, 0x05]);
    assert_eq!(split_record_id(&[]), None);
    assert_eq!(decode_record_key(&[1]), None);
}
