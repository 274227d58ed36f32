//! `aggregate`: runs a pipeline on a collection.
//!
//! How its pipeline is read and run is in `aggregate` and `opened_pipeline`, which other commands use, too.

use bson::RawDocument;
use executor::Verbosity;

use super::aggregate::{explain, parse, view_of};
use super::command_collation;
use super::explain::write_document;
use super::needed_privileges;
use super::opened_pipeline::open;
use super::pipeline_host::PipelineOpening;
use super::query_settings;
use super::write_errors::write_concern_error;
use crate::DocumentWriter;
use crate::handlers::change_stream;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Class, Declaration, Needs, Sees, SessionUse, StableApi, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::read_concern::{Level, ReadConcern};
use crate::state::acknowledgement::Acknowledging;
use crate::state::client_cursors::{BatchLimit, ClientCursor, CursorWork, FIRST_BATCH_DOCUMENTS, write_first_batch};

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let (opening, cursors) = (PipelineOpening::of(context), context.cursor_work());
        run(opening, &cursors, context.read_concern, context.acknowledging(), arguments, reply)
    },
    Declaration {
        audit: Some(audit_events::replaced_by_pipeline),
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        read_concerns: Level::ALL,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        sees: Sees::NewestByStages,
        computed: Some(needed_privileges::of_pipeline),
        ..Declaration::new("aggregate", "Runs an aggregation pipeline on a collection.", Needs::Data, &[])
    },
);

/// Runs the command.
pub(crate) fn run(
    opening: PipelineOpening<'_>,
    cursors: &CursorWork<'_>,
    read_concern: ReadConcern,
    acknowledging: Acknowledging<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let PipelineOpening { reading, operation, .. } = opening;
    let parsed = parse(reading, &mut arguments)?;
    let _collation = command_collation::enter_of_command(reading, &arguments, &parsed.namespace)?;
    if let (Some(settings), false) = (&parsed.settings, parsed.is_explain) {
        settings.check()?;
    }
    let view = view_of(reading, &parsed)?;
    let parsed = parsed.through(view.as_ref())?;
    for stage in parsed.stages.iter().filter_map(|stage| document::elements(stage).next()) {
        read_concern.check_stage(stage.name())?;
    }
    if reading.is_in_transaction() {
        check_in_transaction(&parsed.stages)?;
    }
    if !change_stream::is_wanted(&parsed.stages) {
        operation.set_time_limit(arguments.generic.max_time)?;
    }
    if parsed.is_explain {
        let mut explained = explain((reading, operation), parsed, Verbosity::QueryPlanner)?;
        query_settings::explain(reading, arguments.body, &mut explained)?;
        return write_document(reply, &explained);
    }
    if !parsed.has_cursor {
        return Err(CommandError::failed_to_parse(
            "The 'cursor' option is required, except for aggregate with the explain argument",
        ));
    }
    if change_stream::is_wanted(&parsed.stages) {
        return change_stream::open(opening, cursors, &parsed, arguments.generic.session, reply);
    }
    let opened = open(opening, &parsed)?;
    let writes = opened.writes;
    let mut cursor = ClientCursor::new(parsed.namespace.as_str().to_owned(), Box::new(opened.results))
        .with_session(arguments.generic.session)
        .with_transaction(cursors.txn_number);
    cursor.max_time = arguments.generic.max_time;
    cursor.at_cluster_time = reading.snapshot_time();
    let limit = BatchLimit { documents: Some(parsed.batch_size.unwrap_or(FIRST_BATCH_DOCUMENTS)) };
    write_first_batch(cursors, cursor, limit, false, reply)?;
    if writes {
        write_concern_error(acknowledging.wait_for_all(&arguments.generic.write_concern), reply);
    }
    Ok(())
}

/// Stages that look at or change something else than documents see no transaction.
fn check_in_transaction(stages: &[&RawDocument]) -> Result<()> {
    let refused = [
        "$collStats",
        "$currentOp",
        "$indexStats",
        "$listClusterCatalog",
        "$listSessions",
        "$listLocalSessions",
        "$merge",
        "$out",
        "$planCacheStats",
        "$querySettings",
        "$queryStats",
        "$changeStream",
    ];
    for stage in stages {
        let name = document::elements(stage).next().map_or("", |element| element.name());
        if refused.contains(&name) {
            return Err(CommandError::named(
                "OperationNotSupportedInTransaction",
                format!("Stage not supported inside of a multi-document transaction: {name}"),
            ));
        }
    }
    Ok(())
}
