//! What `update` needs of raw elements beyond the `document` crate: lookups, items of arrays, damaged bytes as errors.
//!
//! An update copies the spans it does not touch, so everything here works on bytes and decodes nothing it need not.
//! Documents were validated when they came in; a damaged one still ends in an error, never in a wrong document.

use bson::raw::RawDocument;
use bson::spec::ElementType;
use document::work;
pub(super) use document::{Element, elements, elements_of_bytes};

use crate::error::{ErrorKind, QueryError, Result};

/// The first field named `name`.
pub(super) fn find<'a>(document: &'a RawDocument, name: &str) -> Option<Element<'a>> {
    elements(document).find_named(name.as_bytes())
}

/// The items of an array or fields of a document given by its bytes.
pub(super) fn collect(bytes: &[u8]) -> Result<Vec<Element<'_>>> {
    let mut walk = elements_of_bytes(bytes);
    let items: Vec<Element<'_>> = walk.by_ref().collect();
    work::count(items.len());
    match walk.is_malformed() {
        false => Ok(items),
        true => Err(malformed("a value exceeds its document")),
    }
}

/// Whether two values are the same type and the same bytes.
pub(super) fn same_value(left: &Element<'_>, right: &Element<'_>) -> bool {
    left.element_type == right.element_type && left.value_bytes() == right.value_bytes()
}

/// Whether the value is one that paths lead into.
pub(super) fn is_container(element: &Element<'_>) -> bool {
    matches!(element.element_type, ElementType::EmbeddedDocument | ElementType::Array)
}

/// The document's bytes are not BSON.
pub(super) fn malformed(reason: &str) -> QueryError {
    QueryError::new(ErrorKind::InvalidBson, format!("invalid BSON in the document to update: {reason}"))
}
