//! `count`: how many documents match.

use std::sync::Arc;

use bson::RawDocument;
use collection::Namespace;
use document::Number;
use executor::QueryExecutor;
use planner::{CanonicalQuery, Hint};

use super::command_collation;
use super::pipeline_host::PipelineOpening;
use super::query_arguments::{hint, query, variables};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::handlers::read_source::ReadSource;
use crate::handlers::views;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Class, Declaration, Needs, Sees, StableApi};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::request::read_concern::Level;
use crate::state::noting::Noting;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(PipelineOpening::of(context), context.noting(), arguments, reply),
    Declaration {
        class: Class::Read,
        // Without a filter it counts without reading.
        sees: Sees::Newest,
        read_concerns: &[Level::Available, Level::Majority, Level::Linearizable],
        stable_api: StableApi::Version1,
        ..Declaration::new("count", "Counts the documents that match.", Needs::Data, &[on_collection(Action::Find)])
    },
);

/// Runs the command.
pub(crate) fn run(
    opening: PipelineOpening<'_>,
    noting: Noting<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let PipelineOpening { reading, operation, .. } = opening;
    let namespace = Namespace::new(reading.database, arguments.collection_name()?)?;
    operation.set_time_limit(arguments.time_limit())?;
    let _collation = command_collation::enter_of_command(reading, &arguments, &namespace)?;
    let query = parse(reading, &mut arguments)?;
    let counted = match ReadSource::of(reading, namespace)? {
        ReadSource::Oplog => oplog_view::count_entries(opening, &query, filter_of(&arguments)?)?,
        ReadSource::View(view) => views::read::count(opening, &view, &query, filter_of(&arguments)?)?,
        ReadSource::Stored(stored) => {
            let (services, view) = (reading.queries.services(), reading.queries.store.read_view());
            let inspect = |executor: &QueryExecutor| noting.note_executor(executor);
            executor::count(&services, view, stored.target(), Arc::new(query), operation, inspect)?
        }
    };
    reply.count("n", counted);
    Ok(())
}

/// The filter as it was sent.
pub(crate) fn filter_of<'a>(arguments: &Arguments<'a>) -> Result<Option<&'a RawDocument>> {
    match arguments.fields().find(|field| field.name() == "query") {
        Some(field) => field.document(),
        None => Ok(None),
    }
}

/// Reads `limit`: a negative one means the same as a positive one.
fn parse_limit(field: Field<'_>) -> Result<u64> {
    match Number::from_bson(field.value()) {
        Some(number) if number.to_f64().fract() != 0.0 => {
            Err(CommandError::failed_to_parse("Expected an integer: limit"))
        }
        Some(number) => Ok(number.to_i64_saturating().unsigned_abs()),
        None if field.is_null() => Ok(0),
        None => Err(CommandError::bad_value("limit value is not a valid number")),
    }
}

/// Reads the fields.
pub(crate) fn parse(reading: Reading<'_>, arguments: &mut Arguments<'_>) -> Result<CanonicalQuery> {
    let (mut filter, mut skip, mut limit, mut hinted): (Option<&RawDocument>, _, _, _) = (None, 0, 0, Hint::None);
    for field in arguments.fields() {
        match field.name() {
            "query" => filter = field.document()?,
            "skip" => skip = field.unsigned()?.unwrap_or_default(),
            "limit" => limit = parse_limit(field)?,
            "hint" => hinted = hint(field)?,
            "collation" => drop(field.document()?),
            // What old shells send; it never had an effect on the count.
            "fields" => {}
            _ => arguments.generic(field)?,
        }
    }
    let mut query = query(filter, &variables(reading, None)?)?;
    query.skip = skip;
    query.limit = Some(limit).filter(|limit| *limit > 0);
    query.hint = hinted;
    Ok(query)
}
