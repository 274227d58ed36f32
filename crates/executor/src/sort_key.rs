//! The place of a document in a query's order, as bytes that compare as the order does. Used by SORT and SORT_MERGE.

use bson::RawDocument;
use document::collation::Collator;
use index_key::{Direction, encode_collated_value};
use query_language::expression::Metadata;
use query_language::expression::sort_pattern::SortPattern;
use query_language::growth;

use crate::error::Result;

/// What has a place.
pub(crate) struct Subject<'d> {
    pub(crate) document: &'d RawDocument,
    pub(crate) metadata: &'d Metadata,
}

/// Writes the key of a document over `key`.
pub(crate) fn write(
    pattern: &SortPattern,
    subject: &Subject<'_>,
    collator: Option<&Collator>,
    key: &mut Vec<u8>,
) -> Result<()> {
    write_below(pattern, subject, collator, None, key).map(drop)
}

/// The same if the key is below another; `false`: it is not, and is not written to its end.
pub(crate) fn write_below(
    pattern: &SortPattern,
    subject: &Subject<'_>,
    collator: Option<&Collator>,
    threshold: Option<&[u8]>,
    key: &mut Vec<u8>,
) -> Result<bool> {
    key.clear();
    for part in pattern.parts() {
        let value = pattern.value(part, subject.document, subject.metadata)?;
        let direction = if part.descending { Direction::Descending } else { Direction::Ascending };
        // The buffer may double.
        growth::before_copying(Some(value), 2)?;
        encode_collated_value(key, value, direction, collator);
        if threshold.is_some_and(|threshold| key.as_slice() > threshold.get(..key.len()).unwrap_or(threshold)) {
            return Ok(false);
        }
    }
    Ok(threshold.is_none_or(|threshold| key.as_slice() < threshold))
}
