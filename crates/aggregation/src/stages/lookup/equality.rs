//! The filter on the foreign collection that stands for "the foreign field equals the local value".

use bson::raw::{CStr, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use query_language::expression::Value;
use query_language::growth;

use crate::error::Result;
use crate::stage::stage_document;

/// A local array matches by any of its elements; null and missing match null and missing.
pub(super) fn filter(foreign: &str, local: &Value<'_>) -> Result<RawDocumentBuf> {
    let foreign = <&CStr>::try_from(foreign)?;
    let equal = |value: RawBsonRef<'_>| stage_document(foreign, stage_document(cstr!("$eq"), RawBson::from(value)));
    Ok(match local.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => equal(RawBsonRef::Null),
        Some(RawBsonRef::Array(array)) => {
            growth::before_filtering(document::array_elements(array).count(), array.as_bytes().len())?;
            let values = array.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
            let is_regex = |value: &RawBsonRef<'_>| matches!(value, RawBsonRef::RegularExpression(_));
            match values.iter().any(is_regex) {
                // `$in` would take them for patterns.
                true => stage_document(cstr!("$or"), values.into_iter().map(equal).collect::<RawArrayBuf>()),
                false => {
                    stage_document(foreign, stage_document(cstr!("$in"), values.into_iter().collect::<RawArrayBuf>()))
                }
            }
        }
        Some(value) => {
            growth::before_filtering(1, growth::value_bytes(value))?;
            equal(value)
        }
    })
}
