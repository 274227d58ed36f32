//! A statement of an update or a delete that has ended: the profiler has a record of each, as MongoDB's has, and none of
//! their command.
//!
//! Called by the driver of write statements. What a statement has done is the difference of what was noted before and
//! after it.

use std::time::Duration;

use bson::{RawDocument, RawDocumentBuf};
use platform::Waits;

use crate::handlers::diagnostics::current_op::{kind, namespace};
use crate::handlers::diagnostics::finished_operation::{store, write_circumstances, write_error, write_limited};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::state::execution_notes::Waited;
use crate::state::recording::Recording;

/// What the profiler is shown of a statement.
pub(crate) struct ShownStatement<'a> {
    /// The name of its command.
    pub(crate) command: &'static str,
    /// As it was sent.
    pub(crate) source: &'a RawDocument,
    /// What it and all before it have done, by the names of the profiler's fields.
    pub(crate) done: [(&'static str, u64); DONE],
}

/// Kinds of what is done.
pub(crate) const DONE: usize = 3;

/// What was noted when a statement began.
pub(crate) struct StatementBegin {
    elapsed: Duration,
    waits: Waits,
    keys_examined: u64,
    docs_examined: u64,
    done: [u64; DONE],
}

impl StatementBegin {
    /// See the type.
    pub(crate) fn of(recording: &Recording<'_>, shown: &ShownStatement<'_>) -> Self {
        Self {
            elapsed: recording.operation.elapsed(),
            waits: Waits::of_thread(),
            keys_examined: recording.noting.notes.keys_examined.get(),
            docs_examined: recording.noting.notes.docs_examined.get(),
            done: shown.done.map(|(_, number)| number),
        }
    }

    /// Records the statement, if it is worth it.
    pub(crate) fn ended(self, recording: &Recording<'_>, shown: &ShownStatement<'_>, error: Option<&CommandError>) {
        let elapsed = recording.operation.elapsed().saturating_sub(self.elapsed);
        let record = self.describe(recording, shown, error, elapsed);
        let stored = record.and_then(|record| {
            let verdict = recording.noting.profiler.judge(recording.request.database, elapsed, &record);
            if verdict.profiles { store(recording, &record) } else { Ok(()) }
        });
        if let Err(error) = stored {
            tracing::warn!(target: "command", %error, "a record of a statement could not be written");
        }
    }

    fn describe(
        &self,
        recording: &Recording<'_>,
        shown: &ShownStatement<'_>,
        error: Option<&CommandError>,
        elapsed: Duration,
    ) -> Result<RawDocumentBuf> {
        let (notes, request) = (recording.noting.notes, recording.request);
        document_of(|record| {
            record.object_id("_id", recording.writing.new_object_id());
            record.string("op", kind(shown.command));
            record.string("ns", &namespace(shown.command, request.database, Some(request.body)));
            write_limited(shown.command, shown.source, record);
            record.count("keysExamined", notes.keys_examined.get().saturating_sub(self.keys_examined));
            record.count("docsExamined", notes.docs_examined.get().saturating_sub(self.docs_examined));
            for ((name, number), before) in shown.done.iter().zip(self.done).filter(|((name, _), _)| !name.is_empty()) {
                record.count(name, number.saturating_sub(before));
            }
            write_error(error, record);
            let waited = Waited { place: Duration::ZERO, waits: Waits::since(self.waits) };
            write_circumstances(recording, elapsed, waited, record);
        })
    }
}
