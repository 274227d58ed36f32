//! Paths: parsing, plain lookup, and a golden table of the walk.

use std::ops::ControlFlow;

use bson::{RawBsonRef, RawDocumentBuf, doc};

use crate::{FieldPath, LeafArrays, get_path, walk_path};

#[test]
fn parsing() {
    let path = FieldPath::new("a.10.bc");
    assert_eq!(path.names().collect::<Vec<_>>(), ["a", "10", "bc"]);
    assert_eq!((path.position(0), path.position(1)), (None, Some(10)));
    assert_eq!((path.suffix(1), path.prefix(2), path.prefix(0), path.last()), ("10.bc", "a.10", "", "bc"));
    assert_eq!(FieldPath::new("a.01").position(1), None);
    assert_eq!(FieldPath::new("a.0").position(1), Some(0));
    assert_eq!(FieldPath::new("a.99999999999").position(1), None);
    assert!(FieldPath::new("a..b").has_empty_component() && FieldPath::new("").has_empty_component());
    assert!(!path.has_empty_component());
    assert!(FieldPath::new("a.1").is_prefix_of(&FieldPath::new("a.1.b")));
    assert!(!FieldPath::new("a.1").is_prefix_of(&FieldPath::new("a.10")));
    assert_eq!(FieldPath::new("a").child("b.c").len(), 3);
}

fn raw(document: bson::Document) -> RawDocumentBuf {
    (&document).try_into().unwrap()
}

#[test]
fn plain_lookup() {
    let document = raw(doc! {"a": {"b": [1, {"c": 5}]}, "n": null});
    let at = |path: &str| get_path(&document, &FieldPath::new(path));
    assert_eq!(at("a.b.1.c"), Some(RawBsonRef::Int32(5)));
    assert_eq!(at("n"), Some(RawBsonRef::Null));
    assert_eq!(at("a.b.c"), None);
    assert_eq!(at("a.b.2"), None);
    assert_eq!(at("n.x"), None);
}

fn show(value: RawBsonRef<'_>) -> String {
    bson::Bson::try_from(value).unwrap().to_string().replace(' ', "")
}

/// What a walk visits: values, `-` for missing, `@position` after those inside an expanded array.
fn visits(document: &RawDocumentBuf, path: &str, leaf_arrays: LeafArrays) -> String {
    let mut seen = Vec::new();
    let _ = walk_path(document, &FieldPath::new(path), leaf_arrays, |item| {
        let value = item.value().map_or("-".to_owned(), show);
        let position = item.array_position.map_or(String::new(), |position| format!("@{position}"));
        seen.push(format!("{value}{position}"));
        ControlFlow::<()>::Continue(())
    });
    seen.join(" ")
}

#[test]
fn walks() {
    let cases = [
        (doc! {"a": 1}, "a", "1"),
        (doc! {"a": null}, "a", "null"),
        (doc! {"b": 1}, "a", "-"),
        (doc! {"a": {"b": 1}}, "a.b", "1"),
        (doc! {"a": {"c": 1}}, "a.b", "-"),
        (doc! {"a": 1}, "a.b", "-"),
        (doc! {"a": null}, "a.b.c", "-"),
        (doc! {"a": [1, 2]}, "a", "1@0 2@1 [1,2]"),
        (doc! {"a": []}, "a", "[]"),
        (doc! {"a": [[1], 2]}, "a", "[1]@0 2@1 [[1],2]"),
        // Elements without the field are missing, elements that are no documents are skipped.
        (doc! {"a": [{"b": 1}, {"c": 2}, 3]}, "a.b", "1@0 -@1"),
        (doc! {"a": []}, "a.b", ""),
        (doc! {"a": [1, null]}, "a.b", ""),
        // Arrays directly in arrays are not entered.
        (doc! {"a": [[{"b": 1}]]}, "a.b", ""),
        (doc! {"a": [[{"b": 1}]]}, "a.0.b", "1@0"),
        (doc! {"a": [[[{"b": 1}]]]}, "a.0.b", ""),
        (doc! {"a": [{"b": [1, 2]}, {"b": 3}]}, "a.b", "1@0 2@0 [1,2]@0 3@1"),
        (doc! {"a": [{"b": [{"c": 1}, {"c": 2}]}]}, "a.b.c", "1@0 2@0"),
        // Numbers are positions and field names.
        (doc! {"a": [5, 6]}, "a.1", "6"),
        (doc! {"a": [5, 6]}, "a.2", ""),
        (doc! {"a": [5, {"1": 4}]}, "a.1", "4@1 {\"1\":4}"),
        (doc! {"a": {"1": 4}}, "a.1", "4"),
        (doc! {"a": [5, [2, 4]]}, "a.1", "[2,4]"),
        (doc! {"a": [{"b": 1}, {"b": 2}]}, "a.1.b", "-@0 -@1 2"),
        (doc! {"a": [1, 2]}, "a.1.b", ""),
    ];
    for (document, path, expected) in cases {
        assert_eq!(visits(&raw(document.clone()), path, LeafArrays::Expand), expected, "{path} on {document}");
    }
    let document = raw(doc! {"a": [1, 2], "b": [{"c": [1]}]});
    assert_eq!(visits(&document, "a", LeafArrays::Whole), "[1,2]");
    assert_eq!(visits(&document, "b.c", LeafArrays::Whole), "[1]@0");
}

#[test]
fn walking_stops_when_told() {
    let document = raw(doc! {"a": [1, 2, 3]});
    let found = walk_path(&document, &FieldPath::new("a"), LeafArrays::Expand, |item| match item.value() {
        Some(RawBsonRef::Int32(2)) => ControlFlow::Break(item.array_position),
        _ => ControlFlow::Continue(()),
    });
    assert_eq!(found, ControlFlow::Break(Some(1)));
}
