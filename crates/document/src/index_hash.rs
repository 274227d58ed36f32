//! The hash by which hashed indexes find values: the one that MongoDB's `convertShardKeyToHashed` shows.
//!
//! Called by `index_key` for keys and by `planner` for bounds. The first eight bytes of an MD5, as a little-endian int64, of:
//!
//! ```text
//! value     4 zero bytes, then the element
//! element   number of its type (4 bytes, little endian), then
//!             numbers                truncated to int64, 8 bytes
//!             documents and arrays   of each element: number of its type, name, 00, the rest as here; then 4 zero bytes
//!             code with scope        nothing
//!             others                 as in BSON
//! ```
//!
//! So what is equal has one hash, and so have 2.3 and 2.9. That is what published values show of texts, object ids and
//! integers; how values within documents are put together is ours.

use bson::RawBsonRef;
use bson::raw::cstr;
use bson::spec::ElementType;
use md5::{Digest, Md5};

use crate::compare::{CanonicalType, canonical_type_of};
use crate::element::{elements, elements_of_bytes};
use crate::number::Number;
use crate::value_view::ValueView;
use crate::work;

/// The hash of a value by its type and its bytes in a document. Documents are no deeper than `DEPTH_MAX`.
///
/// # Errors
/// The command is to stop.
pub fn index_hash_of_stored(element_type: ElementType, stored: &[u8]) -> Result<i64, work::Interruption> {
    let mut digest = Md5::new();
    digest.update([0; 4]);
    add(&mut digest, element_type, None, stored)?;
    let bytes = digest.finalize();
    Ok(bytes.first_chunk().map_or(0, |first| i64::from_le_bytes(*first)))
}

/// The same of a value that stands alone.
///
/// # Errors
/// The command is to stop.
pub fn index_hash(value: RawBsonRef<'_>) -> Result<i64, work::Interruption> {
    let mut holder = bson::RawDocumentBuf::new();
    holder.append(cstr!("v"), value);
    let Some(element) = elements(&holder).next() else { return Ok(0) };
    index_hash_of_stored(element.element_type, element.value_bytes())
}

fn add(
    digest: &mut Md5,
    element_type: ElementType,
    name: Option<&[u8]>,
    stored: &[u8],
) -> Result<(), work::Interruption> {
    digest.update(type_number(element_type).to_le_bytes());
    if let Some(name) = name {
        digest.update(name);
        digest.update([0]);
    }
    match element_type {
        ElementType::EmbeddedDocument | ElementType::Array => {
            for inner in elements_of_bytes(stored) {
                work::step()?;
                add(digest, inner.element_type, Some(inner.name_bytes()), inner.value_bytes())?;
            }
            digest.update([0; 4]);
        }
        // Equal ones need not have the same bytes.
        ElementType::JavaScriptCodeWithScope => {}
        _ => match Number::from_view(ValueView::from_stored(element_type, stored)) {
            Some(number) => digest.update(number.to_i64_saturating().to_le_bytes()),
            None => {
                work::done(work::of_bytes(stored.len()))?;
                digest.update(stored);
            }
        },
    }
    Ok(())
}

/// Types that compare with each other have one number.
fn type_number(element_type: ElementType) -> i32 {
    match canonical_type_of(element_type) {
        CanonicalType::MinKey => -1,
        CanonicalType::Undefined => 0,
        CanonicalType::Null => 5,
        CanonicalType::Number => 10,
        CanonicalType::String => 15,
        CanonicalType::Object => 20,
        CanonicalType::Array => 25,
        CanonicalType::Binary => 30,
        CanonicalType::ObjectId => 35,
        CanonicalType::Boolean => 40,
        CanonicalType::Date => 45,
        CanonicalType::Timestamp => 47,
        CanonicalType::RegularExpression => 50,
        CanonicalType::DbPointer => 55,
        CanonicalType::JavaScriptCode => 60,
        CanonicalType::JavaScriptCodeWithScope => 65,
        CanonicalType::MaxKey => 127,
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, oid::ObjectId, rawdoc};

    use super::*;

    fn of(document: &RawDocumentBuf) -> i64 {
        let element = elements(document).next().unwrap();
        index_hash_of_stored(element.element_type, element.value_bytes()).unwrap()
    }

    /// The text is from the manual's page of `$toHashedIndexKey`, the object ids from MongoDB's forum ("Questions about hashed sharding").
    #[test]
    fn hashes_are_those_that_are_published() {
        assert_eq!(of(&rawdoc! { "a": "string to hash" }), 763_543_691_661_428_748);
        for (id, expected) in [
            ("5ea77f07fcb94966883f5d5e", 329_356_589_482_501_449),
            ("5ea77f0afcb94966883f5d5f", -3_285_311_604_932_298_140),
        ] {
            let id = ObjectId::parse_str(id).unwrap();
            assert_eq!(of(&rawdoc! { "a": id }), expected);
            assert_eq!(index_hash(RawBsonRef::ObjectId(id)).unwrap(), expected);
        }
    }

    #[test]
    fn what_is_equal_has_one_hash() {
        let two = of(&rawdoc! { "a": 2 });
        let decimal: bson::Decimal128 = "2.50".parse().unwrap();
        for same in [rawdoc! { "a": 2_i64 }, rawdoc! { "a": 2.9 }, rawdoc! { "a": decimal }] {
            assert_eq!(of(&same), two);
        }
        assert_eq!(of(&rawdoc! { "a": f64::NAN }), of(&rawdoc! { "a": 0 }));
        assert_eq!(of(&rawdoc! { "a": { "b": 1, "c": [2] } }), of(&rawdoc! { "a": { "b": 1.0, "c": [2.0] } }));
        let different = [
            rawdoc! { "a": 3 },
            rawdoc! { "a": "2" },
            rawdoc! { "a": null },
            rawdoc! { "a": true },
            rawdoc! { "a": {} },
        ];
        for other in different {
            assert_ne!(of(&other), two);
        }
        assert_ne!(of(&rawdoc! { "a": { "b": 1, "c": 2 } }), of(&rawdoc! { "a": { "c": 2, "b": 1 } }));
    }
}
