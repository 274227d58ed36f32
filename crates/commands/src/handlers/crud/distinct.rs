//! `distinct`: the different values of a field.

use bson::RawDocument;
use collection::Namespace;
use executor::QueryExecutor;
use planner::{CanonicalQuery, Hint};

use super::command_collation;
use super::count::filter_of;
use super::pipeline_host::PipelineOpening;
use super::query_arguments::{hint, query, variables};
use super::query_settings;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::oplog_view;
use crate::handlers::read_source::ReadSource;
use crate::handlers::views;
use crate::request::arguments::{Arguments, required};
use crate::request::cluster_time::bson_timestamp;
use crate::request::declaration::{Class, Declaration, Needs, SessionUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::request::read_concern::Level;
use crate::state::noting::Noting;
use crate::state::query_settings::StoredSettings;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(PipelineOpening::of(context), context.noting(), arguments, reply),
    Declaration {
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        read_concerns: Level::ALL,
        ..Declaration::new("distinct", "The distinct values of a field.", Needs::Data, &[on_collection(Action::Find)])
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
    let settings = query_settings::of_command(reading, arguments.body)?;
    settings.as_deref().map_or(Ok(()), StoredSettings::check)?;
    let (mut query, key) = parse(reading, &mut arguments)?;
    if let Some(settings) = &settings {
        settings.restrict(namespace.as_str(), &mut query);
    }
    let values = match ReadSource::of(reading, namespace)? {
        ReadSource::Oplog => oplog_view::distinct(opening, &query, filter_of(&arguments)?, key)?,
        ReadSource::View(view) => views::read::distinct(opening, &view, &query, filter_of(&arguments)?, key)?,
        ReadSource::Stored(stored) => {
            let (services, view) = (reading.queries.services(), reading.view());
            let inspect = |executor: &QueryExecutor| noting.note_executor(executor);
            executor::distinct(&services, view, stored.target(), query, key, operation, inspect)?
        }
    };
    reply.array("values", |list| values.iter().for_each(|(kind, value)| list.push_bytes(kind, value)));
    if let Some(time) = reading.snapshot_time() {
        reply.timestamp("atClusterTime", bson_timestamp(time));
    }
    Ok(())
}

/// Reads the fields; gives the query and the path.
pub(crate) fn parse<'a>(reading: Reading<'_>, arguments: &mut Arguments<'a>) -> Result<(CanonicalQuery, &'a str)> {
    let (mut filter, mut key, mut hinted): (Option<&RawDocument>, _, _) = (None, None, Hint::None);
    for field in arguments.fields() {
        match field.name() {
            "query" => filter = field.document()?,
            "key" => key = field.string()?,
            "hint" => hinted = hint(field)?,
            "collation" => drop(field.document()?),
            _ => arguments.generic(field)?,
        }
    }
    let mut query = query(filter, &variables(reading, None)?)?;
    query.hint = hinted;
    match required(key, "distinct.key")? {
        "" => Err(CommandError::numbered(40352, "FieldPath cannot be constructed with empty string")),
        key => Ok((query, key)),
    }
}
