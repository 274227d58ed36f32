//! What becomes of a command that has ended: it is counted, and if it was slow or is profiled, a record of it is written.
//!
//! Called by `dispatcher` with what the command has noted ([`crate::state::execution_notes`]).

use std::time::Duration;

use bson::{DateTime, RawDocument, RawDocumentBuf};
use platform::{WAIT_KINDS, WaitKind};
use transaction::Store;

use super::current_op::{kind, namespace};
use super::profile::store_record;
use crate::DocumentWriter;
use crate::request::client_metadata::application_name;
use crate::request::declaration::Declaration;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::secrets::write_without_secrets;
use crate::state::counting::Counting;
use crate::state::execution_notes::{ExecutionNotes, Noted, Waited};
use crate::state::namespace_usage::UsageKind;
use crate::state::noting::Noting;
use crate::state::operation_counts::{OperationCounts, count};
use crate::state::recording::Recording;
use crate::state::traces::{OperationSpan, Traces, parent_of};

/// Bytes of a command in a record; a larger one is left out.
const COMMAND_BYTES_MAX: usize = 50 << 10;

/// See the module's head.
pub(crate) fn finished(
    recording: Recording<'_>,
    counting: Counting<'_>,
    traces: Option<&Traces>,
    command: &Declaration,
    reply_bytes: usize,
    error: Option<&CommandError>,
) {
    let Recording { request, operation, noting: Noting { notes, profiler, .. }, .. } = recording;
    let elapsed = operation.elapsed().saturating_sub(notes.waited.get());
    counting.figures.record(command, elapsed);
    counting.figures.count_write_errors(notes.write_errors.get());
    add_to_counts(counting.counts, notes);
    let full_name = namespace(command.name, request.database, Some(request.body));
    let kind = UsageKind::of(command);
    if is_of_collection(kind, &recording.writing.store, &full_name) {
        counting.usage.record(&full_name, kind, notes.statements.get().max(1), elapsed);
    }
    if profiler.may_record(elapsed) {
        let ended = Ended { recording, command, namespace: &full_name, elapsed, reply_bytes, error };
        traces.into_iter().for_each(|traces| ended.trace(traces));
        if profiler.may_keep_record(elapsed)
            && let Err(error) = ended.record()
        {
            tracing::warn!(target: "command", %error, "a record of an operation could not be written");
        }
    }
}

fn add_to_counts(counts: &OperationCounts, notes: &ExecutionNotes) {
    let add = |counter, noted: &Noted| {
        if noted.get() > 0 {
            count(counter, noted.get());
        }
    };
    add(&counts.documents_inserted, &notes.inserted);
    add(&counts.documents_updated, &notes.matched);
    add(&counts.documents_deleted, &notes.deleted);
    add(&counts.documents_returned, &notes.returned);
    add(&counts.keys_examined, &notes.keys_examined);
    add(&counts.docs_examined, &notes.docs_examined);
    if notes.sorts.get() {
        count(&counts.sorts, 1);
    }
    if notes.scans_collection.get() {
        count(&counts.collection_scans, 1);
    }
}

/// Whether a name that a command has is that of a collection, whose use is counted.
fn is_of_collection(kind: UsageKind, store: &Store, namespace: &str) -> bool {
    match kind {
        UsageKind::OtherCommand => store.catalog().lookup(namespace).is_some(),
        _ => !namespace.ends_with(".$cmd"),
    }
}

/// A command that has ended.
struct Ended<'a> {
    recording: Recording<'a>,
    command: &'a Declaration,
    namespace: &'a str,
    elapsed: Duration,
    reply_bytes: usize,
    error: Option<&'a CommandError>,
}

impl Ended<'_> {
    fn notes(&self) -> &ExecutionNotes {
        self.recording.noting.notes
    }

    fn waited(&self) -> Waited {
        Waited { place: self.recording.operation.waited_for_place(), waits: self.notes().waits() }
    }

    /// Writes what the settings ask for.
    fn record(&self) -> Result<()> {
        let Recording { noting, request, .. } = self.recording;
        let record = self.describe()?;
        let verdict = noting.profiler.judge(request.database, self.elapsed, &record);
        if verdict.logs {
            self.log();
        }
        // Its statements have records of their own.
        let has_statements = matches!(kind(self.command.name), "update" | "remove") && self.error.is_none();
        if verdict.profiles && !has_statements { store(&self.recording, &record) } else { Ok(()) }
    }

    /// Tells those who trace operations.
    fn trace(&self, traces: &Traces) {
        let Recording { request, operation, writing, .. } = self.recording;
        let (notes, parent) = (self.notes(), parent_of(request.body));
        if !traces.takes(parent) {
            return;
        }
        let elapsed = operation.elapsed();
        let began_millis = writing.clock.wall_millis().saturating_sub(elapsed.as_millis() as i64);
        traces.sink().take(OperationSpan {
            command: self.command.name,
            namespace: self.namespace.to_owned(),
            client: operation.slot().client.clone(),
            began_millis,
            elapsed,
            waited_for_place: operation.waited_for_place(),
            waits: notes.waits(),
            waited_for_data: notes.waited.get(),
            plan: notes.plan.borrow().clone(),
            keys_examined: notes.keys_examined.get(),
            docs_examined: notes.docs_examined.get(),
            returned: notes.returned.get(),
            error: self.error.map(|error| (error.code, error.code_name.to_string())),
            parent,
        });
    }

    fn log(&self) {
        let notes = self.notes();
        let waited = self.waited();
        let micros = |kind| waited.waits.of(kind).as_micros() as u64;
        tracing::info!(
            target: "command",
            ns = self.namespace,
            command = self.command.name,
            connection_id = self.recording.operation.connection(),
            plan_summary = %notes.plan.borrow(),
            keys_examined = notes.keys_examined.get(),
            docs_examined = notes.docs_examined.get(),
            nreturned = notes.returned.get(),
            reply_bytes = self.reply_bytes,
            error = self.error.map_or(0, |error| error.code),
            waited_micros_place = waited.place.as_micros() as u64,
            waited_micros_disk = micros(WaitKind::Disk),
            waited_micros_locks = micros(WaitKind::Locks),
            waited_micros_log = micros(WaitKind::Log),
            waited_micros_room = micros(WaitKind::Room),
            waited_micros_others = micros(WaitKind::Others),
            working_millis = waited.working(self.elapsed).as_millis() as u64,
            duration_millis = self.elapsed.as_millis() as u64,
            "slow operation"
        );
    }

    fn describe(&self) -> Result<RawDocumentBuf> {
        let Recording { request, operation, writing, .. } = self.recording;
        document_of(|record| {
            record.object_id("_id", writing.new_object_id());
            record.string("op", kind(self.command.name));
            record.string("ns", self.namespace);
            write_command(self.command, request.body, record);
            if let Some(originating) = operation.slot().originating() {
                record.embed("originatingCommand", &originating);
            }
            self.write_notes(record);
            write_error(self.error, record);
            record.count("responseLength", self.reply_bytes as u64);
            write_circumstances(&self.recording, self.elapsed, self.waited(), record);
        })
    }

    fn write_notes(&self, record: &mut DocumentWriter<'_>) {
        let notes = self.notes();
        if notes.cursor.get() != 0 {
            record.int64("cursorid", notes.cursor.get());
        }
        let is_query = matches!(kind(self.command.name), "query" | "getmore" | "update" | "remove")
            || !notes.plan.borrow().is_empty();
        if is_query {
            record.count("keysExamined", notes.keys_examined.get());
            record.count("docsExamined", notes.docs_examined.get());
        }
        if notes.sorts.get() {
            record.boolean("hasSortStage", true);
        }
        if notes.is_exhausted.get() {
            record.boolean("cursorExhausted", true);
        }
        let changes = [
            ("nMatched", &notes.matched),
            ("nModified", &notes.modified),
            ("nUpserted", &notes.upserted),
            ("ninserted", &notes.inserted),
            ("ndeleted", &notes.deleted),
        ];
        let shown: &[&str] = match kind(self.command.name) {
            "update" => &["nMatched", "nModified", "nUpserted"],
            "insert" => &["ninserted"],
            "remove" => &["ndeleted"],
            _ => &[],
        };
        for (name, noted) in changes {
            if shown.contains(&name) || noted.get() > 0 {
                record.count(name, noted.get());
            }
        }
        if matches!(kind(self.command.name), "query" | "getmore") || notes.returned.get() > 0 {
            record.count("nreturned", notes.returned.get());
        }
    }
}

/// Keeps a record. With writes locked out there is no place for it; who only reads must not wait for that.
pub(crate) fn store(recording: &Recording<'_>, record: &RawDocument) -> Result<()> {
    match recording.fsync_lock.is_locked() {
        true => Ok(()),
        false => store_record(recording.writing, recording.request.database, record),
    }
}

/// How an operation has failed, if it has.
pub(crate) fn write_error(error: Option<&CommandError>, record: &mut DocumentWriter<'_>) {
    if let Some(error) = error {
        record.string("errMsg", &error.message);
        record.string("errName", &error.code_name);
        record.int32("errCode", error.code);
    }
}

/// The end of a record: how long it took, by which plan, when, and who wanted it.
pub(crate) fn write_circumstances(
    recording: &Recording<'_>,
    elapsed: Duration,
    waited: Waited,
    record: &mut DocumentWriter<'_>,
) {
    let slot = recording.operation.slot();
    // As `currentOp` has them.
    record.int32("numYield", i32::try_from(slot.yields()).unwrap_or(i32::MAX));
    record.document("locks", |_| {});
    record.document("flowControl", |_| {});
    record.string("protocol", if recording.request.is_legacy { "op_query" } else { "op_msg" });
    record.count("millis", elapsed.as_millis() as u64);
    record.count("workingMillis", waited.working(elapsed).as_millis() as u64);
    write_waited(waited, record);
    let plan = recording.noting.notes.plan.borrow();
    if !plan.is_empty() {
        record.string("planSummary", &plan);
    }
    record.date("ts", DateTime::from_millis(recording.writing.clock.wall_millis()));
    record.string("client", &slot.client);
    if let Some(name) = recording.metadata.and_then(|metadata| application_name(metadata)) {
        record.string("appName", name);
    }
    let user = recording.user;
    record.array("allUsers", |users| {
        user.into_iter().for_each(|user| users.push_document(|document| user.write("user", document)));
    });
    record.string("user", &user.map(|user| user.to_string()).unwrap_or_default());
}

/// How long it has waited, and for what; nothing of what took no time.
fn write_waited(waited: Waited, record: &mut DocumentWriter<'_>) {
    let kinds = WAIT_KINDS.map(|(kind, name)| (name, waited.waits.of(kind)));
    let told: Vec<_> = [("place", waited.place)].into_iter().chain(kinds).filter(|(_, time)| !time.is_zero()).collect();
    if !told.is_empty() {
        record.document("plimsoll", |plimsoll| {
            plimsoll.document("waitedMicros", |written| {
                told.iter().for_each(|(name, time)| written.count(name, time.as_micros() as u64));
            });
        });
    }
}

fn write_command(command: &Declaration, body: &RawDocument, record: &mut DocumentWriter<'_>) {
    let name = command.name;
    if !command.secrets.is_empty() {
        let mut shown = Vec::new();
        write_without_secrets(command.secrets, body.as_bytes(), &mut shown);
        RawDocument::from_bytes(&shown).into_iter().for_each(|shown| record.embed("command", shown));
    } else {
        write_limited(name, body, record);
    }
}

/// A command or a statement, if it is not too large.
pub(crate) fn write_limited(name: &str, source: &RawDocument, record: &mut DocumentWriter<'_>) {
    if source.as_bytes().len() <= COMMAND_BYTES_MAX {
        record.embed("command", source);
    } else {
        record.document("command", |command| command.string("$truncated", name));
    }
}
