//! `plimsollPositions`: where each document of a capped collection lies in its file, in natural order, as a cursor.
//!
//! `{plimsollPositions: "<collection>", cursor: {batchSize}}` yields `{recordId: long, position: long, bytes: int}`: the position is in bytes from the start of the region.
//! `plimsoll layout` draws it. Other collections have no positions: they are refused.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use collection::Collection;
use transaction::{RecordCursor, Store};

use super::{batch_size, existing_collection, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::client_cursors::{
    BatchLimit, ClientCursor, CursorSource, CursorWork, FIRST_BATCH_DOCUMENTS, write_first_batch,
};
use crate::state::operations::Operation;
use crate::state::queries::Queries;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), &context.cursor_work(), arguments, reply),
    Declaration::new(
        "plimsollPositions",
        "Where the documents of a capped collection lie in its file.",
        Needs::Primary,
        &[on_collection(Action::Find)],
    ),
);

/// Runs the command.
pub(crate) fn run(
    reading: Reading<'_>,
    cursors: &CursorWork<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(reading.database, &arguments)?;
    let mut size = None;
    for field in arguments.fields() {
        match field.name() {
            "cursor" => size = batch_size(field)?,
            _ => arguments.generic(field)?,
        }
    }
    let Queries { store, .. } = reading.queries;
    let missing = || format!("ns does not exist: {namespace}");
    let collection = existing_collection(reading.queries, namespace.as_str(), missing)?;
    if collection.ring().is_none() {
        return Err(CommandError::bad_value(format!(
            "{namespace} is not capped: its documents have no fixed positions"
        )));
    }
    let records = store.read_view().record_cursor(&collection);
    let source = Positions { records, collection, store: store.clone(), current: None };
    let cursor =
        ClientCursor::new(namespace.as_str().to_owned(), Box::new(source)).with_session(arguments.generic.session);
    let limit = BatchLimit { documents: Some(size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(cursors, cursor, limit, false, reply)?;
    Ok(())
}

struct Positions {
    records: RecordCursor,
    collection: Arc<Collection>,
    store: Arc<Store>,
    current: Option<RawDocumentBuf>,
}

impl CursorSource for Positions {
    fn next(&mut self, operation: &Operation<'_>) -> Result<Option<&RawDocument>> {
        operation.check_interrupt()?;
        loop {
            let Some(record_id) = self.records.next()? else { return Ok(None) };
            // What was overtaken since it was read has no position any more.
            let Some(position) = self.collection.ring().and_then(|ring| ring.offset_of(record_id.0)) else { continue };
            let bytes = self.records.document()?.as_bytes().len();
            self.current = Some(document_of(|document| {
                document.int64("recordId", record_id.0);
                document.int64("position", position as i64);
                document.int32("bytes", bytes as i32);
            })?);
            return Ok(self.current.as_deref());
        }
    }

    fn resume(&mut self) -> Result<()> {
        Ok(self.records.reseat(&self.store.read_view())?)
    }
}
