//! Which documents stand in the way of an index's being unique: those that have a key together.
//!
//! Called by `collMod`, which has set `prepareUnique` before, so that writers make no more of them while the index is read.

use std::sync::Arc;

use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};
use collection::{Collection, Index, RecordId};
use transaction::{ReadView, Store};

use crate::request::error::{CommandError, Result};
use crate::state::operations::Operation;

/// Bytes of `_id`s that are told; who has resolved those is told the next.
const TOLD_BYTES_MAX: usize = 4 << 20;
/// Entries between two questions whether to stop.
const ENTRIES_PER_CHECK: u64 = 128;

/// Fails with the documents that have a key together, if there are any.
///
/// # Errors
/// `CannotConvertIndexToUnique`; the command is to stop; those of reading.
pub(super) fn check_violations(
    (store, operation): (&Store, &Operation<'_>),
    collection: &Arc<Collection>,
    index: &Arc<Index>,
) -> Result<()> {
    let view = store.newest_view();
    let mut cursor = view.index_cursor(collection, index);
    let (mut previous, mut seen): (Option<(Vec<u8>, Option<RecordId>)>, _) = (None, 0_u64);
    let mut violations = Violations::default();
    cursor.seek_first()?;
    while cursor.next()? && violations.bytes < TOLD_BYTES_MAX {
        seen += 1;
        if seen.is_multiple_of(ENTRIES_PER_CHECK) {
            operation.check_interrupt()?;
        }
        let record_id = cursor.record_id();
        match &mut previous {
            Some((key, first)) if key.as_slice() == cursor.key() => {
                violations.add(&view, collection, [std::mem::take(first), Some(record_id)])?;
            }
            _ => {
                violations.end_group();
                previous = Some((cursor.key().to_vec(), Some(record_id)));
            }
        }
    }
    violations.into_result()
}

#[derive(Default)]
struct Violations {
    groups: Vec<RawDocumentBuf>,
    ids: Vec<RawBson>,
    bytes: usize,
    document: Vec<u8>,
}

impl Violations {
    /// Documents of the group that is being read.
    fn add(&mut self, view: &ReadView, collection: &Arc<Collection>, records: [Option<RecordId>; 2]) -> Result<()> {
        for record_id in records.into_iter().flatten() {
            if !view.get_record(collection, record_id, &mut self.document)? {
                continue;
            }
            let document = RawDocument::from_bytes(&self.document)
                .map_err(|error| CommandError::named("InternalError", format!("record {}: {error}", record_id.0)))?;
            if let Some(id) = document::get_element(document, "_id") {
                self.bytes += id.value_bytes().len();
                self.ids.push(RawBson::from(id.value()));
            }
        }
        Ok(())
    }

    fn end_group(&mut self) {
        let ids = std::mem::take(&mut self.ids);
        if ids.len() > 1 {
            let mut group = RawDocumentBuf::new();
            group.append(bson::raw::cstr!("ids"), ids.into_iter().collect::<RawArrayBuf>());
            self.groups.push(group);
        }
    }

    fn into_result(mut self) -> Result<()> {
        self.end_group();
        if self.groups.is_empty() {
            return Ok(());
        }
        let message =
            "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.";
        let mut details = RawDocumentBuf::new();
        details.append(bson::raw::cstr!("violations"), self.groups.into_iter().collect::<RawArrayBuf>());
        Err(CommandError::named("CannotConvertIndexToUnique", message).with_details(details))
    }
}
