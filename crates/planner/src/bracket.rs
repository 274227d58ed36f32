//! The intervals of the type brackets: a comparison only looks at values of its constant's bracket.

use bson::oid::ObjectId;
use bson::raw::cstr;
use bson::spec::BinarySubtype;
use bson::{DateTime, RawArrayBuf, RawBinaryRef, RawBsonRef, RawDocumentBuf, Timestamp};
use document::CanonicalType;

use crate::interval::{Bound, Interval};

/// All values of a bracket, NaN included in the numbers; wider for the rare ones whose least value has no short form.
pub(crate) fn interval(bracket: CanonicalType) -> Interval {
    let (document, array) = (RawDocumentBuf::new(), RawArrayBuf::new());
    let (document, array) = (RawBsonRef::Document(&document), RawBsonRef::Array(&array));
    let binary = RawBsonRef::Binary(RawBinaryRef { subtype: BinarySubtype::Generic, bytes: &[] });
    let zero_id = RawBsonRef::ObjectId(ObjectId::from_bytes([0; 12]));
    let between = |start, end| Interval::new(Bound::inclusive(start), Bound::exclusive(end));
    let closed = |start, end| Interval::new(Bound::inclusive(start), Bound::inclusive(end));
    let time = |time, increment| RawBsonRef::Timestamp(Timestamp { time, increment });
    match bracket {
        CanonicalType::MinKey => Interval::point(RawBsonRef::MinKey),
        CanonicalType::Undefined => Interval::point(RawBsonRef::Undefined),
        CanonicalType::Null => Interval::point(RawBsonRef::Null),
        CanonicalType::Number => closed(RawBsonRef::Double(f64::NAN), RawBsonRef::Double(f64::INFINITY)),
        CanonicalType::String => between(RawBsonRef::String(""), document),
        CanonicalType::Object => between(document, array),
        CanonicalType::Array => between(array, binary),
        CanonicalType::Binary => between(binary, zero_id),
        CanonicalType::ObjectId => closed(zero_id, RawBsonRef::ObjectId(ObjectId::from_bytes([0xFF; 12]))),
        CanonicalType::Boolean => closed(RawBsonRef::Boolean(false), RawBsonRef::Boolean(true)),
        CanonicalType::Date => {
            closed(RawBsonRef::DateTime(DateTime::from_millis(i64::MIN)), RawBsonRef::DateTime(DateTime::MAX))
        }
        CanonicalType::Timestamp => closed(time(0, 0), time(u32::MAX, u32::MAX)),
        CanonicalType::MaxKey => Interval::point(RawBsonRef::MaxKey),
        // Between the greatest timestamp and MaxKey.
        CanonicalType::RegularExpression
        | CanonicalType::DbPointer
        | CanonicalType::JavaScriptCode
        | CanonicalType::JavaScriptCodeWithScope => {
            Interval::new(Bound::exclusive(time(u32::MAX, u32::MAX)), Bound::exclusive(RawBsonRef::MaxKey))
        }
    }
}

/// Whether `interval` has values of its bracket only.
pub(crate) fn is_exact(bracket: CanonicalType) -> bool {
    !matches!(
        bracket,
        CanonicalType::RegularExpression
            | CanonicalType::DbPointer
            | CanonicalType::JavaScriptCode
            | CanonicalType::JavaScriptCodeWithScope
    )
}

/// The point of a regular expression as a value.
pub(crate) fn regex_point(pattern: &str, options: &str) -> Option<Interval> {
    let pattern = <&bson::raw::CStr>::try_from(pattern).ok()?;
    let options = <&bson::raw::CStr>::try_from(options).ok()?;
    let mut holder = RawDocumentBuf::new();
    holder.append(cstr!(""), bson::Regex { pattern: pattern.into(), options: options.into() });
    let value = document::elements(&holder).next()?;
    Some(Interval::point(value.value()))
}
