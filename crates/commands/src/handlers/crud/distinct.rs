//! `distinct`: the different values of a field.

use bson::RawDocument;
use collection::Namespace;
use executor::QueryExecutor;
use planner::{CanonicalQuery, Hint};

use super::command_collation;
use super::count::filter_of;
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
use crate::state::context::Context;
use crate::state::query_settings::StoredSettings;
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    run,
    Declaration {
        class: Class::Read,
        session_use: SessionUse::InTransaction,
        read_concerns: Level::ALL,
        ..Declaration::new("distinct", "The distinct values of a field.", Needs::Data, &[on_collection(Action::Find)])
    },
);

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = Namespace::new(context.request.database, arguments.collection_name()?)?;
    context.operation.set_time_limit(arguments.time_limit())?;
    let _collation = command_collation::enter_of_command(context.reading(), &arguments, &namespace)?;
    let settings = query_settings::of_command(context.reading(), arguments.body)?;
    settings.as_deref().map_or(Ok(()), StoredSettings::check)?;
    let (mut query, key) = parse(context.reading(), &mut arguments)?;
    if let Some(settings) = &settings {
        settings.restrict(namespace.as_str(), &mut query);
    }
    let values = match ReadSource::of(context.reading(), namespace)? {
        ReadSource::Oplog => oplog_view::distinct(context, &query, filter_of(&arguments)?, key)?,
        ReadSource::View(view) => views::read::distinct(context, &view, &query, filter_of(&arguments)?, key)?,
        ReadSource::Stored(stored) => {
            let (services, view) = (context.server.queries().services(), context.reading().view());
            let inspect = |executor: &QueryExecutor| context.note_executor(executor);
            executor::distinct(&services, view, stored.target(), query, key, &context.operation, inspect)?
        }
    };
    reply.array("values", |list| values.iter().for_each(|(kind, value)| list.push_bytes(kind, value)));
    if let Some(time) = context.reading().snapshot_time() {
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
