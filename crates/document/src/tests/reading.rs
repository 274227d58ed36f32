//! Reading elements agrees with the `bson` crate, on good and on damaged bytes.

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, rawdoc};
use proptest::prelude::*;

use crate::strategies::{documents, values};
use crate::{elements, elements_of_bytes, raw_array, with_view};

/// Equality by bits, so that NaN equals itself.
fn same(left: RawBsonRef<'_>, right: RawBsonRef<'_>) -> bool {
    match (left, right) {
        (RawBsonRef::Double(left), RawBsonRef::Double(right)) => left.to_bits() == right.to_bits(),
        _ => left == right,
    }
}

proptest! {
    #[test]
    fn elements_agree_with_bson(document in documents()) {
        let mut ours = elements(&document);
        for theirs in document.iter() {
            let (name, value) = theirs.unwrap();
            let element = ours.next().unwrap();
            prop_assert_eq!(element.name(), name.as_str());
            prop_assert!(same(element.value(), value), "{:?} {:?}", element.value(), value);
        }
        prop_assert!(ours.next().is_none() && !ours.is_malformed());
    }

    #[test]
    fn views_survive_the_bson_form(value in values(2)) {
        let text = format!("{:?}", value.view());
        prop_assert_eq!(with_view(value.value(), |view| format!("{view:?}")), text);
    }

    #[test]
    fn damaged_bytes_end_iteration(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        for element in elements_of_bytes(&bytes) {
            let _ = (element.name(), element.value(), element.view());
        }
    }
}

#[test]
fn arrays_are_borrowed_from_bytes() {
    let document = rawdoc! { "a": [1, "x"] };
    let element = elements(&document).next().unwrap();
    let array = raw_array(element.value_bytes()).unwrap();
    assert_eq!(array.get(1).unwrap(), Some(RawBsonRef::String("x")));
    assert!(raw_array(&[1, 2, 3]).is_none());
}

#[test]
fn db_pointers_are_borrowed_from_bytes() {
    let stored = [&4i32.to_le_bytes()[..], b"a.b\0", &[7; 12]].concat();
    let bytes = [&[0; 4][..], &[ElementType::DbPointer as u8], b"p\0", &stored, &[0]].concat();
    let mut bytes = bytes;
    let length = (bytes.len() as i32).to_le_bytes();
    bytes[..4].copy_from_slice(&length);
    let document = RawDocument::from_bytes(&bytes).unwrap();
    let expected = document.get("p").unwrap().unwrap();
    assert_eq!(elements(document).next().unwrap().value(), expected);
}
