//! `currentOp`: the commands that are running, and those that wait for a ticket.
//!
//! Fields that no command has are a filter on the entries, as in MongoDB.

use std::sync::Arc;
use std::time::Duration;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Collection, Index, IndexState};
use document::get_field;
use query_language::filter::{Filter, FilterOptions};

use super::{document_of_fields, first_string, host_and_port};
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::{Context, ServerContext};
use crate::error::Result;
use crate::operations::{OperationSlot, RunningOperation};
use crate::schema::{document_of, take_generic};

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut filter, mut with_idle) = (Vec::new(), false);
    for field in arguments.fields() {
        match field.name() {
            // Without access control everything is everybody's own.
            "$ownOps" => drop(field.boolean()?),
            "$all" => with_idle = field.boolean()?,
            _ if take_generic(&mut arguments, field)? => {}
            _ => filter.push(field),
        }
    }
    let filter = Filter::parse(&document_of_fields(&filter)?, &FilterOptions::default())?;
    let mut entries = Vec::new();
    for entry in current_operations(context.server, with_idle)? {
        if filter.matches(&entry)? {
            entries.push(entry);
        }
    }
    reply.array("inprog", |list| entries.iter().for_each(|entry| list.push(entry)));
    Ok(())
}

/// What is running, and, if wanted, the connections on which nothing is. Also for the stage `$currentOp`.
pub(crate) fn current_operations(server: &ServerContext, with_idle: bool) -> Result<Vec<RawDocumentBuf>> {
    let mut entries = Vec::new();
    for (operation, slot, elapsed) in server.operations.running() {
        entries.push(describe(server, &operation, &slot, elapsed)?);
    }
    for collection in server.store.interrupted_builds() {
        for index in collection.indexes().all().iter().filter(|index| index.state() == IndexState::Building) {
            entries.push(describe_build(server, &collection, index)?);
        }
    }
    if with_idle {
        for slot in server.operations.idle() {
            entries.push(document_of(|entry| {
                write_connection(server, &slot, entry);
                entry.boolean("active", false);
            })?);
        }
    }
    Ok(entries)
}

fn write_connection(server: &ServerContext, slot: &OperationSlot, entry: &mut DocumentWriter<'_>) {
    entry.string("type", "op");
    entry.string("host", &host_and_port(&server.facts));
    entry.string("desc", &format!("conn{}", slot.connection));
    entry.int32("connectionId", slot.connection as i32);
    entry.string("client", &slot.client);
}

fn describe(
    server: &ServerContext,
    operation: &RunningOperation,
    slot: &Arc<OperationSlot>,
    elapsed: Duration,
) -> Result<RawDocumentBuf> {
    let command = RawDocument::from_bytes(&operation.command).ok();
    document_of(|entry| {
        write_connection(server, slot, entry);
        entry.boolean("active", true);
        entry.int32("opid", operation.id as i32);
        entry.size("secs_running", elapsed.as_secs());
        entry.size("microsecs_running", elapsed.as_micros() as u64);
        if operation.is_queued {
            entry.document("currentQueue", |queue| {
                queue.string("name", "execution");
                queue.size("timeQueuedMicros", elapsed.as_micros() as u64);
            });
        }
        entry.string("op", kind(operation.name));
        entry.string("ns", &namespace(operation, command));
        match command {
            Some(command) => entry.embed("command", command),
            // It is too large to be kept.
            None => entry.document("command", |command| command.string("$truncated", operation.name)),
        }
    })
}

/// An index build that a restart has interrupted and that goes on.
fn describe_build(server: &ServerContext, collection: &Collection, index: &Index) -> Result<RawDocumentBuf> {
    let namespace = collection.namespace();
    document_of(|entry| {
        entry.string("type", "op");
        entry.string("host", &host_and_port(&server.facts));
        entry.string("desc", "index-builds");
        entry.boolean("active", true);
        entry.string("op", "command");
        entry.string("ns", namespace.as_str());
        entry.document("command", |command| {
            command.string("createIndexes", namespace.collection());
            command.array("indexes", |list| list.push(&index.specification().to_document()));
        });
        let filled = index.filled().0;
        entry.string("msg", &format!("Index Build: goes on after a restart; records up to number {filled} are done"));
    })
}

/// MongoDB's kinds of operations.
fn kind(command: &str) -> &str {
    match command {
        "insert" | "update" => command,
        "delete" => "remove",
        "find" => "query",
        "getMore" => "getmore",
        _ => "command",
    }
}

fn namespace(operation: &RunningOperation, command: Option<&RawDocument>) -> String {
    let collection = match (operation.name, command) {
        ("getMore", Some(command)) => match get_field(command, "collection") {
            Some(RawBsonRef::String(name)) => Some(name),
            _ => None,
        },
        ("renameCollection" | "getLog" | "logRotate" | "explain", _) => None,
        (_, command) => command.and_then(first_string),
    };
    format!("{}.{}", operation.database, collection.unwrap_or("$cmd"))
}
