//! Validation: accepts what the strategies build, never panics, and what it accepts can be read to the end.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, rawdoc};
use proptest::prelude::*;

use crate::strategies::documents;
use crate::{
    DEPTH_MAX, DocumentError, EmptyTimestamps, Limits, ObjectIdGenerator, elements, get_element, prepare_for_storage,
    validate_document, validate_id,
};

/// Reads everything with the `bson` crate; an error there means we accepted what it refuses.
fn read_fully(document: &RawDocument) -> Result<(), bson::error::Error> {
    for element in document.iter() {
        match element?.1 {
            RawBsonRef::Document(inner) => read_fully(inner)?,
            RawBsonRef::Array(inner) => read_fully(RawDocument::from_bytes(inner.as_bytes())?)?,
            RawBsonRef::JavaScriptCodeWithScope(code) => read_fully(code.scope)?,
            _ => {}
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn accepts_valid_documents(document in documents()) {
        prop_assert_eq!(validate_document(document.as_bytes(), &Limits::USER), Ok(()));
    }

    #[test]
    fn survives_arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = validate_document(&bytes, &Limits::USER);
    }

    #[test]
    fn mutated_documents_are_refused_or_readable(
        document in documents(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        truncate in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut bytes = document.into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(at) = truncate {
            bytes.truncate(at.index(bytes.len()));
        }
        if validate_document(&bytes, &Limits::USER).is_ok() {
            let document = RawDocument::from_bytes(&bytes).unwrap();
            prop_assert!(read_fully(document).is_ok());
            let mut ours = elements(document);
            prop_assert_eq!(ours.by_ref().count(), document.iter().count());
            prop_assert!(!ours.is_malformed());
        }
    }
}

fn nested(levels: usize) -> Vec<u8> {
    let mut bytes = rawdoc! {}.into_bytes();
    for _ in 1..levels {
        let mut outer = RawDocumentBuf::new();
        outer.append(bson::raw::cstr!("a"), RawDocument::from_bytes(&bytes).unwrap());
        bytes = outer.into_bytes();
    }
    bytes
}

#[test]
fn depth_is_limited() {
    assert_eq!(validate_document(&nested(DEPTH_MAX), &Limits::USER), Ok(()));
    let refused = validate_document(&nested(DEPTH_MAX + 1), &Limits::USER);
    assert_eq!(refused, Err(DocumentError::TooDeep { limit: DEPTH_MAX }));
}

#[test]
fn size_is_limited() {
    let document = rawdoc! { "a": "0123456789" };
    let limits = Limits { bytes_max: document.as_bytes().len() - 1 };
    assert!(matches!(validate_document(document.as_bytes(), &limits), Err(DocumentError::TooLarge { .. })));
}

#[test]
fn refuses_each_kind_of_damage() {
    let element = |tag: u8, name: &[u8], value: &[u8]| {
        let body = [&[tag], name, value, &[0]].concat();
        [&(body.len() as i32 + 4).to_le_bytes()[..], &body].concat()
    };
    let cases: [(&str, Vec<u8>); 12] = [
        ("Incorrect BSON length", vec![6, 0, 0, 0, 0]),
        ("Incorrect BSON length", vec![251, 255, 255, 255, 0]),
        ("Unrecognized BSON type", element(0x14, b"a\0", &[])),
        ("Invalid UTF-8 string", element(0x0A, b"\xFF\0", &[])),
        ("Invalid UTF-8 string", element(0x02, b"a\0", b"\x02\0\0\0\xFF\0")),
        ("Invalid string length", element(0x02, b"a\0", b"\0\0\0\0\0")),
        ("Not null terminated string", element(0x02, b"a\0", b"\x01\0\0\0x")),
        ("Invalid boolean value", element(0x08, b"a\0", &[2])),
        ("Invalid inner length of binary subtype 2", element(0x05, b"a\0", &[5, 0, 0, 0, 2, 9, 0, 0, 0, 1])),
        ("Value extends past the end of its document", element(0x10, b"a\0", &[1])),
        ("Invalid regular expression", element(0x0B, b"a\0", b"x")),
        ("Not null terminated or invalid field name", element(0x0A, b"a", &[])),
    ];
    for (expected, bytes) in cases {
        match validate_document(&bytes, &Limits::USER) {
            Err(DocumentError::InvalidBson { reason, .. }) => assert_eq!(reason, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn id_rules() {
    let check = |document: RawDocumentBuf| validate_id(get_element(&document, "_id").unwrap());
    assert_eq!(check(rawdoc! {"_id": {"a": {"$b": 1}}}), Ok(()));
    assert!(matches!(check(rawdoc! {"_id": {"$a": 1}}), Err(DocumentError::DollarPrefixedIdField { .. })));
    let type_name = |document| match check(document) {
        Err(DocumentError::InvalidIdType { type_name }) => type_name,
        _ => "allowed",
    };
    assert_eq!(type_name(rawdoc! {"_id": [1]}), "array");
    assert_eq!(type_name(rawdoc! {"_id": bson::RawBson::Undefined}), "undefined");
    assert_eq!(type_name(rawdoc! {"_id": bson::RawBson::Null}), "allowed");
}

#[test]
fn stored_form_has_the_id_first() {
    let generator = ObjectIdGenerator::new([1, 2, 3, 4, 5], 0x00FF_FFFF);
    let mut stored = Vec::new();
    let prepared = |document: RawDocumentBuf, stored: &mut Vec<u8>| {
        let now = || Timestamp { time: 9, increment: 1 };
        prepare_for_storage(&document, EmptyTimestamps::Replace, || generator.next(7), now, stored).unwrap()
    };
    assert!(!prepared(rawdoc! {"_id": 1, "$a.b": 2}, &mut stored));
    assert!(prepared(rawdoc! {"a": 1, "_id": 2, "b": 3}, &mut stored));
    assert_eq!(stored, rawdoc! {"_id": 2, "a": 1, "b": 3}.into_bytes());
    assert!(prepared(rawdoc! {"a": 1}, &mut stored));
    let expected = bson::oid::ObjectId::from_bytes([0, 0, 0, 7, 1, 2, 3, 4, 5, 0xFF, 0xFF, 0xFF]);
    assert_eq!(stored, rawdoc! {"_id": expected, "a": 1}.into_bytes());
    assert_eq!(generator.next(7).bytes()[9..], [0, 0, 0]);
    let (empty, now) = (Timestamp { time: 0, increment: 0 }, Timestamp { time: 9, increment: 1 });
    let id = get_element(RawDocument::from_bytes(&stored).unwrap(), "_id").unwrap();
    assert_eq!(id.element_type, ElementType::ObjectId);
    assert!(prepared(rawdoc! {"_id": 1, "t": empty, "d": {"t": empty}}, &mut stored));
    assert_eq!(stored, rawdoc! {"_id": 1, "t": now, "d": {"t": empty}}.into_bytes());
    assert!(!prepared(rawdoc! {"_id": empty}, &mut stored));
    let twice = rawdoc! {"_id": 1, "a": 1, "_id": 2};
    let refused = prepare_for_storage(&twice, EmptyTimestamps::Replace, || generator.next(7), || now, &mut stored);
    assert_eq!(refused, Err(DocumentError::MultipleIds));
    let kept = rawdoc! {"t": empty, "_id": 1};
    assert!(prepare_for_storage(&kept, EmptyTimestamps::Keep, || generator.next(7), || now, &mut stored).unwrap());
    assert_eq!(stored, rawdoc! {"_id": 1, "t": empty}.into_bytes());
}
