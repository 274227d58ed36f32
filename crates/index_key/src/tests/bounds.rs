//! Bounds: positions around prefixes, against every key of a small index.

use bson::{RawBsonRef, RawDocumentBuf, doc};

use super::order::pattern;
use crate::{
    Sparse, append_after_prefix, append_max_key, append_min_key, append_record_id, encode_prefix, keys_for_document,
};

#[test]
fn prefixes_cut_an_index_where_they_should() {
    for direction in [1, -1] {
        let pattern = pattern(doc! {"a": direction, "b": 1});
        let entry = |a: &str, b: i32, record_id: i64| {
            let document: RawDocumentBuf = (&doc! {"a": a, "b": b}).try_into().unwrap();
            let keys = keys_for_document(&pattern, Sparse::No, &document).unwrap();
            let mut entry = keys.iter().next().unwrap().key.to_vec();
            append_record_id(&mut entry, record_id);
            entry
        };
        let mut start = Vec::new();
        encode_prefix(&mut start, &pattern, [RawBsonRef::String("m")]);
        let mut after = start.clone();
        append_after_prefix(&mut after);
        let (mut low, mut high) = (start.clone(), start.clone());
        append_min_key(&mut low, pattern.fields()[1].direction);
        append_max_key(&mut high, pattern.fields()[1].direction);
        for b in [i32::MIN, -1, 0, 40, i32::MAX] {
            for record_id in [0, 1, 1 << 40, i64::MAX] {
                let inside = entry("m", b, record_id);
                assert!(start < inside && inside < after && low < inside && inside < high);
                let (smaller, larger) = (entry("l", b, record_id), entry("m\0", b, record_id));
                let (before, behind) = if direction == 1 { (smaller, larger) } else { (larger, smaller) };
                assert!(before < start && behind > after);
            }
        }
    }
}
