//! `planCacheSetFilter`: says which indexes the planner may consider for a shape of query.
//!
//! What the filter does is in `planner::IndexFilters`.

use bson::RawBsonRef;
use planner::{AllowedIndex, IndexFilter};

use super::shape_arguments::{ShapeArguments, given};
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, _| {
        context.operation.set_time_limit(arguments.time_limit())?;
        run(context.reading(), arguments)
    },
    Declaration {
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "planCacheSetFilter",
            "Says which indexes may be used for a shape of query, whatever the hint; kept in memory, for the collection: it follows a rename, and ends with a drop or the process.",
            Needs::Primary,
            &[on_collection(Action::PlanCacheIndexFilter)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(reading: Reading<'_>, mut arguments: Arguments<'_>) -> Result<()> {
    let namespace = collection::Namespace::new(reading.database, arguments.collection_name()?)?;
    let mut example = ShapeArguments::default();
    let mut indexes = None;
    for field in arguments.fields() {
        match field.name() {
            "indexes" => indexes = allowed_indexes(field)?,
            _ if example.take(field)? => {}
            _ => arguments.generic(field)?,
        }
    }
    if example.query.is_none() {
        return Err(CommandError::bad_value("required field query missing"));
    }
    let indexes = indexes.ok_or_else(|| CommandError::bad_value("required field indexes missing"))?;
    let Some(shape) = example.shape(reading, &namespace)? else { return Ok(()) };
    let Some(collection) = reading.collection(&namespace)? else {
        return Err(CommandError::bad_value("no such collection"));
    };
    let filter = IndexFilter {
        query: given(example.query),
        sort: given(example.sort),
        projection: given(example.projection),
        collation: given(example.collation),
        indexes,
    };
    let no_memory = |error| CommandError::named("ExceededMemoryLimit", format!("the filter cannot be kept: {error}"));
    reading.queries.index_filters.set(&collection, shape.clone(), filter).map_err(no_memory)?;
    reading.queries.plan_cache.forget_shape(&collection, &shape);
    Ok(())
}

/// Reads `indexes`: names and key patterns.
fn allowed_indexes(field: Field<'_>) -> Result<Option<Vec<AllowedIndex>>> {
    let Some(array) = field.array()? else { return Ok(None) };
    let allowed = document::array_elements(array).map(|element| match element.value() {
        RawBsonRef::String(name) => Ok(AllowedIndex::Name(name.to_owned())),
        RawBsonRef::Document(pattern) if pattern.is_empty() => {
            Err(CommandError::bad_value("index specification cannot be empty"))
        }
        RawBsonRef::Document(pattern) => Ok(AllowedIndex::KeyPattern(pattern.to_owned())),
        _ => Err(CommandError::bad_value("each item in indexes must be either an object or a string")),
    });
    let allowed = allowed.collect::<Result<Vec<_>>>()?;
    if allowed.is_empty() {
        return Err(CommandError::bad_value("required field indexes must contain at least one index"));
    }
    Ok(Some(allowed))
}
