//! `profile`: which operations on a database are recorded in its `system.profile`, and from when on one is slow.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::{CappedOptions, Collection, CollectionOptions, Namespace, Validation};
use transaction::{InsertOrder, Store};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_database};
use crate::state::profiler::{Level, ProfileFilter, Profiler};
use crate::state::writing::Writing;

/// The collection of records.
pub(crate) const COLLECTION: &str = "system.profile";
/// Its size when it is made here; a larger one is made by `create` beforehand.
const COLLECTION_BYTES: i64 = 1 << 20;
/// The level that asks for the settings.
const READ_ONLY: i64 = -1;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.profiler, &server.store, context.request.database, arguments, reply)
    },
    Declaration {
        audit: Some(audit_events::as_named),
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "profile",
            "Which operations on a database are recorded in its system.profile.",
            Needs::Nothing,
            &[on_database(Action::EnableProfiler)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    profiler: &Profiler,
    store: &Store,
    database: &str,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let level = match arguments.target() {
        Some(field) => level(field)?,
        None => return Err(CommandError::bad_value("an empty command")),
    };
    let (mut slow_millis, mut sample_rate, mut filter) = (None, None, None);
    for field in arguments.fields() {
        match field.name() {
            "slowms" if !field.is_null() => {
                slow_millis = Some(field.required(Field::integer)?.clamp(i32::MIN.into(), i32::MAX.into()))
            }
            "sampleRate" if !field.is_null() => sample_rate = Some(rate(field)?),
            "filter" if !field.is_null() => filter = Some(parse_filter(field)?),
            "slowms" | "sampleRate" | "filter" => {}
            _ => arguments.generic(field)?,
        }
    }
    let before = profiler.of_database(database);
    let (slow_before, rate_before) = (profiler.slow_millis(), profiler.sample_rate());
    if level.is_some_and(|level| level != Level::Off) {
        collection(store, database)?;
    }
    let mut profile = before.clone();
    profile.level = level.unwrap_or(before.level);
    profile.filter = filter.unwrap_or_else(|| before.filter.clone());
    profiler.set_database(database, profile);
    slow_millis.into_iter().for_each(|millis| profiler.set_slow_millis(millis));
    sample_rate.into_iter().for_each(|rate| profiler.set_sample_rate(rate));
    reply.int32("was", before.level.number());
    reply.int32("slowms", i32::try_from(slow_before).unwrap_or(i32::MAX));
    reply.double("sampleRate", rate_before);
    if let Some(filter) = &before.filter {
        reply.embed("filter", &filter.source);
        reply.string("note", "When a filter expression is set, slowms and sampleRate are not used for profiling and slow-query log lines.");
    }
    Ok(())
}

/// `None`: the settings are only asked for.
fn level(field: Field<'_>) -> Result<Option<Level>> {
    let number = field.required(Field::integer)?;
    let level = Level::numbered(number);
    if level.is_none() && number != READ_ONLY {
        return Err(CommandError::bad_value(format!(
            "the profiling level must be 0, 1, 2, or -1 to read it, not {number}"
        )));
    }
    Ok(level)
}

fn rate(field: Field<'_>) -> Result<f64> {
    let rate = match document::Number::from_bson(field.value()) {
        Some(number) => number.to_f64(),
        None => return Err(field.wrong_type("types '[long, int, decimal, double]'")),
    };
    if (0.0..=1.0).contains(&rate) {
        return Ok(rate);
    }
    Err(CommandError::bad_value(format!("'sampleRate' must be between 0.0 and 1.0 inclusive, not {rate}")))
}

/// A filter, or that there is to be none.
fn parse_filter(field: Field<'_>) -> Result<Option<Arc<ProfileFilter>>> {
    match field.value() {
        RawBsonRef::Document(source) => Ok(Some(Arc::new(ProfileFilter::parse(source)?))),
        RawBsonRef::String("unset") => Ok(None),
        _ => Err(CommandError::bad_value("Expected an object, or the string 'unset'.")),
    }
}

/// The collection of a database's records, made if there is none.
fn collection(store: &Store, database: &str) -> Result<Arc<Collection>> {
    let namespace = Namespace::new(database, COLLECTION)?;
    if let Some(found) = store.catalog().lookup(namespace.as_str()) {
        return Ok(found);
    }
    let options =
        CollectionOptions { capped: Some(CappedOptions::new(COLLECTION_BYTES, None)?), ..CollectionOptions::default() };
    Ok(store.create_collection(&namespace, options)?.0)
}

/// Stores a record.
///
/// # Errors
/// Those of an insert.
pub(super) fn store_record(writing: &Writing, database: &str, record: &RawDocument) -> Result<()> {
    let collection = collection(&writing.store, database)?;
    let outcome = writing.with_context(|write| {
        writing.store.insert_documents(write, &collection, &[record], InsertOrder::Ordered, Validation::Bypass)
    });
    outcome.errors.into_iter().next().map_or(Ok(()), |(_, error)| Err(error.into()))
}
