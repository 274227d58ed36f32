//! Keys of documents: golden tables of multikey expansion, and the generator against the slow path.

use std::sync::Arc;

use bson::{Bson, RawDocumentBuf, doc};
use document::Interruption;
use document::strategies::documents;
use document::work::{Watch, watch};
use proptest::prelude::*;

use super::order::pattern;
use crate::{
    ExtractedFields, KeyError, KeyGenerator, KeyLimits, KeyPattern, KeySet, Sparse, decode_key, decode_key_with_names,
    keys_for_document,
};

fn raw(document: bson::Document) -> RawDocumentBuf {
    (&document).try_into().unwrap()
}

/// The keys as text: components joined by `,`, keys by ` | `; then the multikey bits if there are any.
fn show(pattern: &KeyPattern, keys: &KeySet) -> String {
    let text: Vec<String> = keys
        .iter()
        .map(|entry| {
            let decoded = decode_key(pattern, entry.key, entry.value).unwrap();
            let values = decoded.iter().map(|element| Bson::try_from(element.unwrap().1).unwrap());
            values.map(|value| value.to_string().replace(' ', "")).collect::<Vec<_>>().join(",")
        })
        .collect();
    let paths = if keys.is_multikey() { format!(" {:?}", keys.multikey_paths()) } else { String::new() };
    text.join(" | ") + &paths
}

fn keys_of(key_pattern: bson::Document, document: bson::Document, sparse: Sparse) -> String {
    let pattern = pattern(key_pattern);
    match keys_for_document(&pattern, sparse, &raw(document)) {
        Ok(keys) => show(&pattern, &keys),
        Err(error) => error.to_string(),
    }
}

#[test]
fn table() {
    let undefined = "undefined";
    let cases = [
        (doc! {"a": 1}, doc! {"a": 5}, "5"),
        (doc! {"a": 1}, doc! {"b": 5}, "null"),
        (doc! {"a": 1, "b": -1}, doc! {"b": 5, "a": "x"}, "\"x\",5"),
        (doc! {"a.b": 1}, doc! {"a": {"b": 5}}, "5"),
        (doc! {"a.b": 1}, doc! {"a": {"c": 5}}, "null"),
        (doc! {"a.b": 1}, doc! {"a": 5}, "null"),
        (doc! {"a": 1}, doc! {"a": {"b": 5}}, "{\"b\":5}"),
        // Arrays at the end of a path.
        (doc! {"a": 1}, doc! {"a": [3, 1, 2, 1, 1.0]}, "1 | 2 | 3 [1]"),
        (doc! {"a": 1}, doc! {"a": []}, &format!("{undefined} [1]")),
        (doc! {"a": 1}, doc! {"a": [[1, 2], 3]}, "3 | [1,2] [1]"),
        (doc! {"a": -1}, doc! {"a": [1, 2]}, "2 | 1 [1]"),
        (doc! {"a": 1, "b": 1}, doc! {"a": [1, 2], "b": 9}, "1,9 | 2,9 [1, 0]"),
        (doc! {"b": 1, "a": 1}, doc! {"a": [2, 1]}, "null,1 | null,2 [0, 1]"),
        // Arrays in the middle.
        (doc! {"a.b": 1}, doc! {"a": [{"b": 2}, {"b": 1}, {"c": 1}, 5]}, "null | 1 | 2 [1]"),
        (doc! {"a.b": 1}, doc! {"a": []}, "null [1]"),
        (doc! {"a.b": 1}, doc! {"a": [[{"b": 1}]]}, "null [1]"),
        (doc! {"a.b": 1, "a.c": 1}, doc! {"a": [{"b": 1, "c": 2}, {"b": 3}]}, "1,2 | 3,null [1, 1]"),
        (doc! {"a": 1, "a.b": 1}, doc! {"a": [{"b": 1}]}, "{\"b\":1},1 [1, 1]"),
        (doc! {"a.b": 1}, doc! {"a": [{"b": [1, 2]}, {"b": 3}]}, "1 | 2 | 3 [3]"),
        (doc! {"a.b.c": 1}, doc! {"a": {"b": [{"c": 1}, {"c": 2}]}}, "1 | 2 [2]"),
        (doc! {"a.b": 1}, doc! {"a": [{"b": []}]}, &format!("{undefined} [3]")),
        // Positions.
        (doc! {"a.1": 1}, doc! {"a": [5, 6]}, "6"),
        (doc! {"a.2": 1}, doc! {"a": [5, 6]}, "null [1]"),
        (doc! {"a.0.b": 1}, doc! {"a": [{"b": 1}, {"b": 2}]}, "1"),
        (doc! {"a.0": 1}, doc! {"a": [[1, 2], 3]}, "1 | 2 [2]"),
        (doc! {"a.0": 1, "a.b": 1}, doc! {"a": [{"b": 4}]}, "{\"b\":4},4 [0, 1]"),
        (doc! {"a.1": 1}, doc! {"a": {"1": 7}}, "7"),
        (doc! {"a.3": 1}, doc! {"a": [{"3": 7}]}, "7 [1]"),
        (
            doc! {"a.0": 1},
            doc! {"a": [{"0": 7}]},
            "Ambiguous field name found in array (do not use numeric field names in embedded elements in an array), \
             field: '0' for array: a",
        ),
        // Parallel arrays.
        (doc! {"a": 1, "b": 1}, doc! {"a": [1], "b": [2]}, "cannot index parallel arrays [b] [a]"),
        (doc! {"a.b": 1, "a.c": 1}, doc! {"a": {"b": [], "c": [1]}}, "cannot index parallel arrays [c] [b]"),
        (doc! {"a.b": 1, "a.c": 1}, doc! {"a": [{"b": [1, 2], "c": 3}]}, "1,3 | 2,3 [3, 1]"),
    ];
    for (key_pattern, document, expected) in cases {
        let shown = keys_of(key_pattern.clone(), document.clone(), Sparse::No);
        assert_eq!(shown, expected, "{key_pattern} of {document}");
    }
}

#[test]
fn sparse_indexes_leave_out_what_has_no_field() {
    let cases = [
        (doc! {"a": 1}, doc! {"b": 1}, ""),
        (doc! {"a": 1}, doc! {"a": null}, "null"),
        (doc! {"a": 1, "b": 1}, doc! {"b": 1}, "null,1"),
        (doc! {"a": 1, "b": 1}, doc! {"c": 1}, ""),
        (doc! {"a.b": 1}, doc! {"a": [{"b": 1}, {"c": 2}]}, "1 [1]"),
        (doc! {"a.b": 1}, doc! {"a": [{"c": 2}]}, " [1]"),
    ];
    for (key_pattern, document, expected) in cases {
        assert_eq!(keys_of(key_pattern.clone(), document.clone(), Sparse::Yes), expected, "{key_pattern} {document}");
    }
}

#[test]
fn generator_follows_changing_shapes() {
    let indexes = [doc! {"x": 1, "a": 1}, doc! {"a": -1}, doc! {"n.m": 1}].map(pattern);
    let generator = KeyGenerator::new(indexes.clone().map(|index| (index, Sparse::No)));
    let (mut fields, mut keys) = (ExtractedFields::new(), KeySet::new());
    let documents = [
        doc! {"_id": 1, "x": "s", "a": 2},
        doc! {"_id": 2, "x": "t", "a": 3},
        doc! {"a": 4, "n": {"m": true}, "x": "u"},
        doc! {"_id": 3},
        doc! {"x": [1, 2], "a": 9, "a2": 1},
        doc! {"_id": 1, "x": "s", "a": 2},
    ];
    for document in documents.map(raw) {
        generator.read(&document, &mut fields).unwrap();
        for (index, pattern) in indexes.iter().enumerate() {
            generator.keys(index, &document, &fields, &mut keys).unwrap();
            let alone = keys_for_document(pattern, Sparse::No, &document).unwrap();
            assert_eq!(keys.iter().collect::<Vec<_>>(), alone.iter().collect::<Vec<_>>());
        }
    }
}

struct Stopped;

impl Watch for Stopped {
    fn interruption(&self) -> Option<Interruption> {
        Some(Interruption { name: "Interrupted", message: "operation was interrupted" })
    }
}

/// Fields that no index has are passed over, too, and so is what lies beside the end of a path.
#[test]
fn wide_documents_end_when_the_command_is_to() {
    let wide: bson::Document = (0..5_000).map(|number| (format!("f{number}"), Bson::Int32(number))).collect();
    let items: Vec<i32> = (0..200_000).collect();
    for (key, document) in [
        (doc! {"a": 1}, wide.clone()),
        (doc! {"n.x": 1, "n.y": 1, "n.z": 1}, doc! {"n": wide}),
        (doc! {"items.0.x": 1, "items.1.x": 1}, doc! {"items": items}),
    ] {
        let (pattern, document) = (pattern(key.clone()), raw(document));
        let _watching = watch(Arc::new(Stopped));
        let outcome = keys_for_document(&pattern, Sparse::No, &document);
        assert!(matches!(outcome, Err(KeyError::Interrupted(_))), "{key}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The fast path and the expansion give the same keys when there is nothing to expand.
    #[test]
    fn paths_agree(document in documents(), descending in any::<bool>()) {
        let pattern = pattern(doc! {"a": 1, "b.c": if descending { -1 } else { 1 }, "c.0": 1});
        let fast = keys_for_document(&pattern, Sparse::No, &document);
        let mut slow = KeySet::new();
        let outcome = crate::multikey::expand(&pattern, Sparse::No, &document, &mut slow);
        match fast {
            Ok(fast) => {
                prop_assert!(outcome.is_ok());
                prop_assert_eq!(fast.iter().collect::<Vec<_>>(), slow.iter().collect::<Vec<_>>());
                prop_assert!(fast.iter().map(|entry| entry.key).is_sorted_by(|left, right| left < right));
                for entry in fast.iter() {
                    prop_assert!(decode_key(&pattern, entry.key, entry.value).is_ok());
                }
            }
            Err(error) => prop_assert_eq!(outcome, Err(error)),
        }
    }
}

/// What is missing is null; the manual has arrays refused.
#[test]
fn hashed_fields_have_the_hash_of_their_value() {
    let hash = |value: Bson| document::index_hash(raw(doc! {"v": value}).get("v").unwrap().unwrap()).unwrap();
    let compound = pattern(doc! {"a.b": "hashed", "c": -1});
    for (document, value) in [
        (doc! {"a": {"b": "x"}, "c": 1}, Bson::String("x".to_owned())),
        (doc! {"a": {"b": 2.9}, "c": 1}, Bson::Int32(2)),
        (doc! {"a": 5, "c": 1}, Bson::Null),
        (doc! {"c": 1}, Bson::Null),
    ] {
        let keys = keys_for_document(&compound, Sparse::No, &raw(document)).unwrap();
        let entry = keys.iter().next().unwrap();
        let decoded = decode_key(&compound, entry.key, entry.value).unwrap();
        assert_eq!(decoded, raw(doc! {"a.b": hash(value), "c": 1}));
    }
    assert!(keys_for_document(&compound, Sparse::Yes, &raw(doc! {"d": 1})).unwrap().is_empty());
    for array in [doc! {"a": [{"b": 1}]}, doc! {"a": {"b": []}}, doc! {"c": [1]}] {
        let refused = keys_for_document(&compound, Sparse::No, &raw(array)).unwrap_err();
        assert!(refused.to_string().starts_with("hashed indexes do not currently support array values"), "{refused}");
    }
}

/// As the manual's pages on wildcard indexes say it.
#[test]
fn wildcard_keys_have_paths_and_values() {
    let shown = |key: bson::Document, projection: Option<bson::Document>, document: bson::Document| {
        let mut pattern = pattern(key);
        if let Some(projection) = projection {
            pattern = pattern.with_paths(crate::WildcardPaths::parse(&raw(projection)).unwrap());
        }
        let keys = keys_for_document(&pattern, Sparse::No, &raw(document)).unwrap();
        let mut shown: Vec<String> = Vec::new();
        for entry in keys.iter() {
            let decoded = decode_key_with_names(&pattern, entry.key, entry.value, ["path", "value"]).unwrap();
            let decoded: bson::Document = decoded.try_into().unwrap();
            shown.push(format!("{} {}", decoded.get_str("path").unwrap(), decoded.get("value").unwrap()));
        }
        (shown.join(", "), keys.is_multikey())
    };
    let nested = doc! {"_id": 1, "a": {"b": 1, "c": {"d": "x"}, "e": {}}, "f": 2};
    let arrays = doc! {"a": [1, {"b": 2}, [3], {}], "c": []};
    for (key, projection, document, expected) in [
        (doc! {"$**": 1}, None, &nested, (r#"a.b 1, a.c.d "x", a.e {}, f 2"#, false)),
        (doc! {"$**": -1}, None, &arrays, ("a [3], a {}, a 1, a.b 2, c undefined", true)),
        (doc! {"a.$**": 1}, None, &nested, (r#"a.b 1, a.c.d "x", a.e {}"#, false)),
        (doc! {"a.c.$**": 1}, None, &nested, (r#"a.c.d "x""#, false)),
        (doc! {"_id.$**": 1}, None, &nested, ("_id 1", false)),
        (doc! {"$**": 1}, Some(doc! {"a": {"c": 1}, "_id": 1}), &nested, (r#"_id 1, a.c.d "x""#, false)),
        (doc! {"$**": 1}, Some(doc! {"a.c": 0, "f": 0}), &nested, ("a.b 1, a.e {}", false)),
        (doc! {"$**": 1}, Some(doc! {"a": 0, "_id": true}), &nested, ("_id 1, f 2", false)),
        (doc! {"$**": 1}, Some(doc! {"_id": 1}), &nested, ("_id 1", false)),
        (
            doc! {"$**": 1},
            Some(doc! {"_id.x": 1, "f": 1}),
            &doc! {"_id": {"x": 1, "y": 2}, "f": 2},
            ("_id.x 1, f 2", false),
        ),
        (doc! {"$**": 1}, None, &doc! {"a.b": 1}, ("a.b 1", true)),
    ] {
        let (keys, is_multikey) = shown(key.clone(), projection.clone(), document.clone());
        assert_eq!((keys.as_str(), is_multikey), expected, "{key} {projection:?}");
    }
}

/// As the manual's page on compound wildcard indexes says it: the other fields' values stand around each path and value.
#[test]
fn compound_wildcard_keys_have_the_other_values_around_paths() {
    for (document, expected) in [
        (doc! {"t": 5, "a": {"x": 1, "y": [2, 3]}, "b": 7}, r#"5 "a.x" 1 7, 5 "a.y" 2 7, 5 "a.y" 3 7"#),
        (doc! {"a": {"x": 1}}, r#"null "a.x" 1 null"#),
        (doc! {"t": [5, 6], "a": {"x": 1}}, r#"5 "a.x" 1 null, 6 "a.x" 1 null"#),
        // All documents are there, by their other fields.
        (doc! {"t": 5, "b": 7}, "5 MinKey MinKey 7"),
    ] {
        let pattern = pattern(doc! {"t": 1, "a.$**": 1, "b": 1});
        let keys = keys_for_document(&pattern, Sparse::No, &raw(document.clone())).unwrap();
        let shown: Vec<String> = keys
            .iter()
            .map(|entry| {
                let names = ["t", "path", "value", "b"];
                let decoded = decode_key_with_names(&pattern, entry.key, entry.value, names).unwrap();
                let decoded: bson::Document = decoded.try_into().unwrap();
                names.map(|name| decoded.get(name).unwrap().to_string()).join(" ")
            })
            .collect();
        assert_eq!(shown.join(", "), expected, "{document}");
    }
}

#[test]
fn keys_end_where_one_is_too_long_or_there_is_no_memory_for_them() {
    let generator = KeyGenerator::new([(pattern(doc! {"a": 1, "b": 1}), Sparse::No)]);
    let keys = |length: usize, key_bytes_max: usize, may_allocate: fn(usize) -> bool| {
        let elements: Vec<i32> = (0..1000).collect();
        let document = raw(doc! {"a": elements, "b": "x".repeat(length)});
        let (mut fields, mut keys) =
            (ExtractedFields::new(), KeySet::limited(KeyLimits { key_bytes_max, may_allocate }));
        generator.read(&document, &mut fields).unwrap();
        let made = generator.keys(0, &document, &fields, &mut keys);
        (made, keys.len(), keys.memory_bytes())
    };
    let (made, count, bytes) = keys(1000, 2000, |_| true);
    assert!(made.is_ok() && count == 1000 && bytes > 1_000_000);
    let (made, count, _) = keys(3000, 2000, |_| true);
    assert!(matches!(made, Err(KeyError::KeyTooLong { bytes: 3000.. })) && count == 1, "{count}");
    let (made, _, bytes) = keys(1000, 2000, |bytes| bytes < 200_000);
    assert!(matches!(made, Err(KeyError::NoMemory { .. })) && bytes < 500_000, "{bytes}");
}

/// The first number is that of the point's cell in S2's own tests.
#[test]
fn places_have_cells_beside_the_values_of_other_fields() {
    let s2 = 0x47a1_cbd5_9552_2b39_i64;
    let there = doc! {"type": "Point", "coordinates": [11.770_681_595, 49.703_498_679]};
    let pair = doc! {"lng": 11.770_681_595, "lat": 49.703_498_679};
    for (key, document, expected) in [
        (doc! {"at": "2dsphere"}, doc! {"at": there.clone()}, format!("{s2}")),
        (doc! {"at": "2dsphere"}, doc! {"at": pair.clone()}, format!("{s2}")),
        (doc! {"at": "2dsphere"}, doc! {"at": [there.clone(), pair.clone()]}, format!("{s2} [1]")),
        (
            doc! {"a.at": "2dsphere", "a.b": -1},
            doc! {"a": [{"at": there.clone(), "b": 5}, {"b": 6}]},
            format!("{s2},6 | {s2},5 [1, 1]"),
        ),
        (doc! {"b": 1, "at": "2dsphere"}, doc! {"at": there, "b": []}, format!("undefined,{s2} [1, 0]")),
        (doc! {"b": 1, "at": "2dsphere"}, doc! {"at": Bson::Null, "b": 5}, String::new()),
        (doc! {"at": "2dsphere", "to": "2dsphere"}, doc! {"to": pair}, format!("null,{s2}")),
        (doc! {"at": "2dsphere"}, doc! {"at": []}, " [1]".to_owned()),
        (
            doc! {"at": "2dsphere"},
            doc! {"at": 5},
            "Can't extract geo keys from 'at': Point must be an array or object".to_owned(),
        ),
        (doc! {"at": "2d"}, doc! {"at": [-180, -180]}, r#"Binary(0x80,AAAAAAAAAAA=)"#.to_owned()),
        (doc! {"at": "2d"}, doc! {"at": [181, 0]}, "point not in interval of [ -180, 180 ]".to_owned()),
        (
            doc! {"at": "2d"},
            doc! {"at": "here"},
            "location object expected, location array not in correct format".to_owned(),
        ),
        (doc! {"at": "2d", "b": 1}, doc! {"b": 1}, String::new()),
    ] {
        assert_eq!(keys_of(key.clone(), document.clone(), Sparse::No), expected, "{key} {document}");
    }
    let pattern = pattern(doc! {"at": "2dsphere"});
    let square = vec![vec![0, 0], vec![1, 0], vec![1, 1], vec![0, 1], vec![0, 0]];
    let area = raw(doc! {"at": {"type": "Polygon", "coordinates": [square]}});
    let keys = keys_for_document(&pattern, Sparse::No, &area).unwrap();
    assert!((4..=24).contains(&keys.len()) && !keys.is_multikey(), "{}", keys.len());
}
