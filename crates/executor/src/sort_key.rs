//! The place of a document in a query's order, as bytes that compare as the order does. Used by SORT and SORT_MERGE.

use bson::RawDocument;
use document::collation::Collator;
use index_key::{Direction, encode_collated_value};
use query_language::expression::Metadata;
use query_language::expression::sort_pattern::SortPattern;
use query_language::growth;

use crate::error::{ExecutorError, Result};

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
    key.clear();
    pattern.visit_with(subject.document, subject.metadata, |part, value| {
        let direction = if part.descending { Direction::Descending } else { Direction::Ascending };
        // The buffer may double.
        growth::before_copying(Some(value), 2)?;
        encode_collated_value(key, value, direction, collator);
        Ok::<(), ExecutorError>(())
    })
}
