//! What becomes of a command that has ended: it is counted, and if it was slow or is profiled, a record of it is written.
//!
//! Called by `dispatcher` with what the command has noted ([`crate::state::execution_notes`]).

use std::time::Duration;

use bson::{DateTime, RawDocument, RawDocumentBuf};

use super::current_op::{kind, namespace};
use super::profile::store_record;
use platform::{WAIT_KINDS, WaitKind};

use crate::DocumentWriter;
use crate::request::client_metadata::application_name;
use crate::request::declaration::Declaration;
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::secrets::write_without_secrets;
use crate::state::context::{Context, ServerContext, count};
use crate::state::execution_notes::{ExecutionNotes, Noted, Waited};
use crate::state::namespace_usage::UsageKind;
use crate::state::traces::{OperationSpan, parent_of};

/// Bytes of a command in a record; a larger one is left out.
const COMMAND_BYTES_MAX: usize = 50 << 10;

/// See the module's head.
pub(crate) fn finished(context: &Context<'_>, command: &Declaration, reply_bytes: usize, error: Option<&CommandError>) {
    let (server, notes) = (context.server, &context.notes);
    let elapsed = context.operation.elapsed().saturating_sub(notes.waited.get());
    server.figures.record(command, elapsed);
    server.figures.count_write_errors(notes.write_errors.get());
    add_to_counts(server, notes);
    let full_name = namespace(command.name, context.request.database, Some(context.request.body));
    record_usage(server, command, &full_name, notes, elapsed);
    if server.profiler.may_record(elapsed) {
        let ended = Ended { context, command, namespace: &full_name, elapsed, reply_bytes, error };
        ended.trace();
        if server.profiler.may_keep_record(elapsed)
            && let Err(error) = ended.record()
        {
            tracing::warn!(target: "command", %error, "a record of an operation could not be written");
        }
    }
}

fn add_to_counts(server: &ServerContext, notes: &ExecutionNotes) {
    let counts = &server.counts;
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

fn record_usage(
    server: &ServerContext,
    command: &Declaration,
    namespace: &str,
    notes: &ExecutionNotes,
    elapsed: Duration,
) {
    let kind = UsageKind::of(command);
    let is_of_collection = match kind {
        UsageKind::OtherCommand => server.store.catalog().lookup(namespace).is_some(),
        _ => !namespace.ends_with(".$cmd"),
    };
    if is_of_collection {
        server.usage.record(namespace, kind, notes.statements.get().max(1), elapsed);
    }
}

/// A command that has ended.
struct Ended<'a, 'c> {
    context: &'a Context<'c>,
    command: &'a Declaration,
    namespace: &'a str,
    elapsed: Duration,
    reply_bytes: usize,
    error: Option<&'a CommandError>,
}

impl Ended<'_, '_> {
    fn waited(&self) -> Waited {
        Waited { place: self.context.operation.waited_for_place(), waits: self.context.notes.waits() }
    }

    /// Writes what the settings ask for.
    fn record(&self) -> Result<()> {
        let (server, database) = (self.context.server, self.context.request.database);
        let record = self.describe()?;
        let verdict = server.profiler.judge(database, self.elapsed, &record);
        if verdict.logs {
            self.log();
        }
        // Its statements have records of their own.
        let has_statements = matches!(kind(self.command.name), "update" | "remove") && self.error.is_none();
        if verdict.profiles && !has_statements { store(self.context, &record) } else { Ok(()) }
    }

    /// Tells those who trace operations.
    fn trace(&self) {
        let (context, notes) = (self.context, &self.context.notes);
        let Some(traces) = &context.server.traces else { return };
        let parent = parent_of(context.request.body);
        if !traces.takes(parent) {
            return;
        }
        let elapsed = context.operation.elapsed();
        let began_millis = context.server.clock.wall_millis().saturating_sub(elapsed.as_millis() as i64);
        traces.sink().take(OperationSpan {
            command: self.command.name,
            namespace: self.namespace.to_owned(),
            client: context.slot.client.clone(),
            began_millis,
            elapsed,
            waited_for_place: context.operation.waited_for_place(),
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
        let notes = &self.context.notes;
        let waited = self.waited();
        let micros = |kind| waited.waits.of(kind).as_micros() as u64;
        tracing::info!(
            target: "command",
            ns = self.namespace,
            command = self.command.name,
            connection_id = self.context.connection,
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
        let (server, request) = (self.context.server, self.context.request);
        document_of(|record| {
            record.object_id("_id", server.new_object_id());
            record.string("op", kind(self.command.name));
            record.string("ns", self.namespace);
            write_command(self.command, request.body, record);
            if let Some(originating) = self.context.slot.originating() {
                record.embed("originatingCommand", &originating);
            }
            self.write_notes(record);
            write_error(self.error, record);
            record.count("responseLength", self.reply_bytes as u64);
            write_circumstances(self.context, self.elapsed, self.waited(), record);
        })
    }

    fn write_notes(&self, record: &mut DocumentWriter<'_>) {
        let notes = &self.context.notes;
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
pub(crate) fn store(context: &Context<'_>, record: &RawDocument) -> Result<()> {
    match context.server.fsync_lock.is_locked() {
        true => Ok(()),
        false => store_record(&context.server.writing, context.request.database, record),
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
    context: &Context<'_>,
    elapsed: Duration,
    waited: Waited,
    record: &mut DocumentWriter<'_>,
) {
    // As `currentOp` has them.
    record.int32("numYield", i32::try_from(context.slot.yields()).unwrap_or(i32::MAX));
    record.document("locks", |_| {});
    record.document("flowControl", |_| {});
    record.string("protocol", if context.request.is_legacy { "op_query" } else { "op_msg" });
    record.count("millis", elapsed.as_millis() as u64);
    record.count("workingMillis", waited.working(elapsed).as_millis() as u64);
    write_waited(waited, record);
    let plan = context.notes.plan.borrow();
    if !plan.is_empty() {
        record.string("planSummary", &plan);
    }
    record.date("ts", DateTime::from_millis(context.server.clock.wall_millis()));
    record.string("client", &context.slot.client);
    if let Some(name) = context.metadata.as_ref().and_then(|metadata| application_name(metadata)) {
        record.string("appName", name);
    }
    let user = context.login.user();
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
