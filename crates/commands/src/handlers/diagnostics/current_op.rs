//! `currentOp`: the commands that are running and those that wait for a ticket or a lock, open transactions between their commands, and, if wanted,
//! connections and cursors that nobody uses.
//!
//! Fields that no command has are a filter on the entries, as in MongoDB.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use aggregation::IdleOperations;
use authentication::Target;
use bson::{DateTime, RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Collection, Index, IndexState};
use document::elements;
use document::get_field;
use query_language::filter::{Filter, FilterOptions};
use transaction::OpenTransaction;

use super::{document_of_fields, first_string, host_and_port};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::schema::take_generic;
use crate::handlers::sessions::owner;
use crate::request::arguments::{Arguments, Field};
use crate::request::client_metadata::application_name;
use crate::request::cluster_time::bson_timestamp;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Declaration, Needs};
use crate::request::document_writer::document_of;
use crate::request::error::Result;
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
use crate::state::access_control::names::UserName;
use crate::state::client_cursors::{CursorFigures, IdleCursor};
use crate::state::fsync_lock::FsyncLock;
use crate::state::operations::{Operation, OperationSlot, RunningOperation};
use crate::state::rights::Rights;
use crate::state::running_work::RunningWork;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let (server, operation) = (context.server, &context.operation);
        run((server.running_work(), operation), context.rights(), &server.fsync_lock, arguments, reply)
    },
    Declaration {
        is_admin_only: true,
        computed: Some(needs),
        ..Declaration::new(
            "currentOp",
            "Lists the commands that are running, and those that wait for a ticket (`currentQueue`).",
            Needs::Nothing,
            &[],
        )
    },
);

/// Everybody may look at what is his own.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let own = elements(request.body).find(|element| element.name() == "$ownOps");
    let is_own = own.map_or(Ok(false), |own| Field::of("currentOp", own).boolean())?;
    if !is_own {
        needs.need(Target::Cluster, Action::Inprog);
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run(
    (work, operation): (RunningWork<'_>, &Operation<'_>),
    rights: Rights<'_>,
    fsync_lock: &FsyncLock,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    operation.set_time_limit(arguments.time_limit())?;
    let (mut filter, mut wanted) =
        (Vec::new(), IdleOperations { sessions: true, all_users: true, ..IdleOperations::default() });
    for field in arguments.fields() {
        match field.name() {
            "$ownOps" => wanted.all_users = !field.boolean()?,
            // Nothing is left out of a command.
            "$truncateOps" => drop(field.boolean()?),
            "$all" => wanted.connections = field.boolean()?,
            _ if take_generic(&mut arguments, field)? => {}
            _ => filter.push(field),
        }
    }
    let is_to_stop = || operation.check_interrupt();
    let filter = Filter::parse(&document_of_fields(&filter)?, &FilterOptions::default())?;
    let mut entries = Vec::new();
    let only_of = rights.login.user().filter(|_| !wanted.all_users && rights.is_enforced());
    for entry in current_operations(work, wanted, only_of.map(|user| &**user), &is_to_stop)? {
        is_to_stop()?;
        if filter.matches(&entry)? {
            entries.push(entry);
        }
    }
    reply.array("inprog", |list| entries.iter().for_each(|entry| list.push(entry)));
    if fsync_lock.is_locked() {
        reply.boolean("fsyncLock", true);
        reply.string("info", "use db.fsyncUnlock() to let others write again");
    }
    Ok(())
}

/// What is running, and of what is not, what is wanted; of one user, what is known to be his. Also for the stage `$currentOp`.
pub(crate) fn current_operations(
    work: RunningWork<'_>,
    wanted: IdleOperations,
    only_of: Option<&UserName>,
    is_to_stop: &dyn Fn() -> Result<()>,
) -> Result<Vec<RawDocumentBuf>> {
    let is_wanted = |owner: Option<&UserName>| only_of.is_none() || owner == only_of;
    let (mut entries, mut busy_sessions) = (Vec::new(), HashSet::new());
    let open = work.store.listed_transactions();
    let open_of: HashMap<_, _> = open.iter().map(|(session, open)| ((*session, open.txn_number), open)).collect();
    for (operation, slot, elapsed) in work.operations.running() {
        is_to_stop()?;
        if !is_wanted(slot.user().as_deref()) {
            continue;
        }
        let own = operation.session.zip(operation.transaction);
        let transaction = own.and_then(|own| open_of.get(&own).copied());
        entries.push(describe(work, &operation, &slot, elapsed, transaction)?);
        busy_sessions.extend(operation.session);
    }
    let builds = if only_of.is_none() { work.store.interrupted_builds() } else { Vec::new() };
    for collection in builds {
        for index in collection.indexes().all().iter().filter(|index| index.state() == IndexState::Building) {
            entries.push(describe_build(work, &collection, index)?);
        }
    }
    if wanted.connections {
        for slot in work.operations.idle().iter().filter(|slot| is_wanted(slot.user().as_deref())) {
            is_to_stop()?;
            entries.push(document_of(|entry| {
                write_connection(work, slot, entry);
                entry.boolean("active", false);
                write_time(work, entry);
                write_locks(0, false, entry);
            })?);
        }
    }
    if wanted.sessions {
        for (session, transaction) in open.iter().filter(|(session, _)| !busy_sessions.contains(session)) {
            is_to_stop()?;
            let found = work.store.sessions().find(*session);
            if !is_wanted(owner(found.as_ref().and_then(|session| session.owner()))) {
                continue;
            }
            entries.push(describe_transaction(work, *session, transaction)?);
        }
    }
    if wanted.cursors {
        for cursor in work.cursors.idle().iter().filter(|cursor| is_wanted(cursor.owner.as_deref())) {
            is_to_stop()?;
            entries.push(describe_cursor(work, cursor)?);
        }
    }
    Ok(entries)
}

fn write_connection(work: RunningWork<'_>, slot: &OperationSlot, entry: &mut DocumentWriter<'_>) {
    entry.string("type", "op");
    entry.string("host", &host_and_port(work.facts));
    entry.string("desc", &format!("conn{}", slot.connection));
    entry.int32("connectionId", slot.connection as i32);
    entry.string("client", &slot.client);
    if let Some(user) = slot.user() {
        entry.array("effectiveUsers", |users| users.push_document(|document| user.write("user", document)));
    }
    if let Some(metadata) = slot.metadata() {
        if let Some(name) = application_name(&metadata) {
            entry.string("appName", name);
        }
        entry.embed("clientMetadata", &metadata);
    }
}

fn write_time(work: RunningWork<'_>, entry: &mut DocumentWriter<'_>) {
    let now = DateTime::from_millis(work.clock.wall_millis());
    entry.string("currentOpTime", &now.try_to_rfc3339_string().unwrap_or_default());
}

fn describe(
    work: RunningWork<'_>,
    operation: &RunningOperation,
    slot: &Arc<OperationSlot>,
    elapsed: Duration,
    open: Option<&OpenTransaction>,
) -> Result<RawDocumentBuf> {
    let command = RawDocument::from_bytes(&operation.command).ok();
    document_of(|entry| {
        write_connection(work, slot, entry);
        entry.boolean("active", true);
        write_time(work, entry);
        entry.int32("opid", operation.id as i32);
        if let Some(session) = operation.session {
            entry.document("lsid", |lsid| lsid.uuid("id", session));
        }
        if let Some(txn_number) = operation.transaction {
            entry.document("transaction", |transaction| match open {
                Some(open) => write_transaction(work, open, elapsed, transaction),
                None => write_parameters(txn_number, transaction),
            });
        }
        entry.size("secs_running", elapsed.as_secs());
        entry.size("microsecs_running", elapsed.as_micros() as u64);
        if operation.is_queued {
            entry.document("currentQueue", |queue| {
                queue.string("name", "execution");
                queue.size("timeQueuedMicros", elapsed.as_micros() as u64);
            });
        }
        entry.string("op", kind(operation.name));
        entry.string("ns", &namespace(operation.name, &operation.database, command));
        match command {
            Some(command) => entry.embed("command", command),
            // It is too large to be kept.
            None => entry.document("command", |command| command.string("$truncated", operation.name)),
        }
        write_cursor_in_use(operation, command, entry);
        if matches!(operation.name, "createIndexes" | "reIndex") {
            let collection = work.store.catalog().lookup(&namespace(operation.name, &operation.database, command));
            write_build(collection.as_deref(), entry);
        }
        if operation.name == crate::state::backups::COMMAND_NAME {
            work.backups.write(entry);
        }
        write_locks(slot.yields(), operation.waits_for_lock, entry);
        if slot.is_to_end() {
            entry.boolean("killPending", true);
        }
    })
}

/// How often it gave way to others; MongoDB's hierarchy of locks, of which nothing holds any here, and its flow control, for which nobody waits.
fn write_locks(yields: u32, waits_for_lock: bool, entry: &mut DocumentWriter<'_>) {
    entry.int32("numYields", i32::try_from(yields).unwrap_or(i32::MAX));
    entry.document("locks", |_| {});
    entry.boolean("waitingForLock", waits_for_lock);
    entry.document("lockStats", |_| {});
    entry.boolean("waitingForFlowControl", false);
    entry.document("flowControlStats", |_| {});
}

/// How far the builds of a collection's indexes are: about, by the numbers of records.
fn write_build(collection: Option<&Collection>, entry: &mut DocumentWriter<'_>) {
    let Some((collection, last)) = collection.zip(collection.and_then(Collection::last_record_id)) else { return };
    let indexes = collection.indexes();
    let building = indexes.all().iter().filter(|index| index.state().is_being_filled());
    let Some(read) = building.map(|index| index.read_up_to().0).min() else { return };
    let total = collection.counts().documents();
    let share = (read as f64 / last.0 as f64).clamp(0.0, 1.0);
    let done = (total as f64 * share) as u64;
    let percent = (100.0 * share) as u64;
    let scanning = "Index Build: scanning collection";
    entry.string("msg", &format!("{scanning} {scanning}: {done}/{total} {percent}%"));
    entry.document("progress", |progress| {
        progress.size("done", done);
        progress.size("total", total);
    });
}

/// The cursor that a getMore goes on with, and the command that has opened it.
fn write_cursor_in_use(operation: &RunningOperation, command: Option<&RawDocument>, entry: &mut DocumentWriter<'_>) {
    let Some(originating) = &operation.originating else { return };
    entry.document("cursor", |cursor| {
        let id = command.and_then(|command| get_field(command, operation.name)).and_then(|id| id.as_i64());
        id.into_iter().for_each(|id| cursor.int64("cursorId", id));
        cursor.embed("originatingCommand", originating);
        cursor.int32("operationUsingCursorId", operation.id as i32);
    });
}

fn write_parameters(txn_number: i64, transaction: &mut DocumentWriter<'_>) {
    transaction.document("parameters", |parameters| {
        parameters.int64("txnNumber", txn_number);
        parameters.boolean("autocommit", false);
    });
}

/// A transaction, in which a command has been running for so long.
fn write_transaction(
    work: RunningWork<'_>,
    open: &OpenTransaction,
    running: Duration,
    transaction: &mut DocumentWriter<'_>,
) {
    let age = work.clock.monotonic().saturating_sub(open.began);
    // Its first command came before it began.
    let active = (open.active + running).min(age);
    let began = work.clock.wall_millis().saturating_sub(age.as_millis() as i64);
    let lifetime = work.parameters.transaction_lifetime_seconds() as i64 * 1000;
    let text = |millis| DateTime::from_millis(millis).try_to_rfc3339_string().unwrap_or_default();
    write_parameters(open.txn_number, transaction);
    transaction.timestamp("readTimestamp", bson_timestamp(open.transaction.read_view().timestamp()));
    transaction.string("startWallClockTime", &text(began));
    transaction.size("timeOpenMicros", age.as_micros() as u64);
    transaction.size("timeActiveMicros", active.as_micros() as u64);
    transaction.size("timeInactiveMicros", age.as_micros().saturating_sub(active.as_micros()) as u64);
    transaction.string("expiryTime", &text(began.saturating_add(lifetime)));
}

/// An open transaction with no command running in it.
fn describe_transaction(work: RunningWork<'_>, session: bson::Uuid, open: &OpenTransaction) -> Result<RawDocumentBuf> {
    document_of(|entry| {
        entry.string("type", "idleSession");
        entry.string("host", &host_and_port(work.facts));
        entry.string("desc", "inactive transaction");
        entry.document("lsid", |lsid| lsid.uuid("id", session));
        entry.document("transaction", |transaction| write_transaction(work, open, Duration::ZERO, transaction));
        entry.boolean("active", false);
        write_locks(0, false, entry);
    })
}

fn describe_cursor(work: RunningWork<'_>, idle: &IdleCursor) -> Result<RawDocumentBuf> {
    let CursorFigures { created, last_used, documents, batches, has_no_timeout, is_tailable, awaits } = idle.figures;
    document_of(|entry| {
        entry.string("type", "idleCursor");
        entry.string("host", &host_and_port(work.facts));
        entry.string("ns", &idle.namespace);
        if let Some(session) = idle.session {
            entry.document("lsid", |lsid| lsid.uuid("id", session));
        }
        entry.document("cursor", |cursor| {
            cursor.int64("cursorId", idle.id);
            cursor.date("createdDate", DateTime::from_millis(created));
            cursor.date("lastAccessDate", DateTime::from_millis(last_used));
            cursor.size("nDocsReturned", documents);
            cursor.size("nBatchesReturned", batches);
            cursor.boolean("noCursorTimeout", has_no_timeout);
            cursor.boolean("tailable", is_tailable);
            cursor.boolean("awaitData", awaits);
            if let Some(command) = &idle.command {
                cursor.embed("originatingCommand", command);
            }
        });
    })
}

/// An index build that a restart has interrupted and that goes on.
fn describe_build(work: RunningWork<'_>, collection: &Collection, index: &Index) -> Result<RawDocumentBuf> {
    let namespace = collection.namespace();
    document_of(|entry| {
        entry.string("type", "op");
        entry.string("host", &host_and_port(work.facts));
        entry.string("desc", "index-builds");
        entry.boolean("active", true);
        entry.string("op", "command");
        entry.string("ns", namespace.as_str());
        entry.document("command", |command| {
            command.string("createIndexes", namespace.collection());
            command.array("indexes", |list| list.push(&index.specification().to_document()));
        });
        write_build(Some(collection), entry);
        write_locks(0, false, entry);
    })
}

/// MongoDB's kinds of operations.
pub(crate) fn kind(command: &str) -> &str {
    match command {
        "insert" | "update" => command,
        "delete" => "remove",
        "find" => "query",
        "getMore" => "getmore",
        _ => "command",
    }
}

/// The collection that a command is about, or, in MongoDB's way, that it is about none.
pub(crate) fn namespace(name: &str, database: &str, command: Option<&RawDocument>) -> String {
    let collection = match (name, command) {
        ("getMore", Some(command)) => match get_field(command, "collection") {
            Some(RawBsonRef::String(name)) => Some(name),
            _ => None,
        },
        (
            "renameCollection"
            | "getLog"
            | "logRotate"
            | "rotateCertificates"
            | "explain"
            | "dataSize"
            | "setFeatureCompatibilityVersion",
            _,
        ) => None,
        (_, command) => command.and_then(first_string),
    };
    format!("{database}.{}", collection.unwrap_or("$cmd"))
}
