//! A search of `$graphLookup` that does not fit into memory gives what others give, in the same order.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::trial::{outcome, raw};

/// Nodes of a graph with cycles, of numbers of several types, texts and arrays; some 400 KB.
const NODES: i32 = 3_000;

fn name(node: i32) -> Bson {
    let node = node.rem_euclid(NODES);
    match node % 4 {
        0 => Bson::Int32(node),
        1 => Bson::Double(f64::from(node)),
        2 => Bson::String(format!("node {node}")),
        _ => Bson::Double(f64::from(node) + 0.5),
    }
}

fn nodes() -> Vec<RawDocumentBuf> {
    let node = |id: i32| {
        // The last leads nowhere.
        if id == NODES {
            return raw(&doc! { "_id": id });
        }
        let to = vec![name(id * 7 + 1), name(id + 1_013), Bson::Null, Bson::Int64(i64::from(id) << 40)];
        raw(&doc! { "_id": id, "name": name(id), "to": to, "text": "x".repeat(id as usize % 80) })
    };
    (0..=NODES).map(node).collect()
}

fn searched(more: &[Document], memory: Option<usize>) -> Result<Vec<String>, String> {
    let search = doc! {
        "from": "other", "startWith": "$to", "connectFromField": "to", "connectToField": "name", "as": "found",
        "depthField": "depth", "maxDepth": 20,
    };
    let mut stages = vec![doc! { "$match": { "_id": { "$in": [5, 1_000, NODES] } } }, doc! { "$graphLookup": search }];
    stages.extend_from_slice(more);
    outcome(nodes(), &stages, None, memory)
}

#[test]
fn a_search_on_temporary_storage_gives_what_one_in_memory_gives() {
    let unwind =
        doc! { "$unwind": { "path": "$found", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": true } };
    for more in [vec![], vec![unwind]] {
        let expected = searched(&more, None).unwrap();
        assert!(expected.iter().map(String::len).sum::<usize>() > 500_000);
        for memory in [3_000, 40_000, 300_000] {
            assert_eq!(searched(&more, Some(memory)).as_ref(), Ok(&expected), "{memory} bytes");
        }
    }
}
