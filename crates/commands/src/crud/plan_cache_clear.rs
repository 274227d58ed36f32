//! `planCacheClear`: forgets which plans were chosen for the queries of a collection, or for one shape of query.

use bson::RawDocument;
use planner::query_shape;

use super::find::{FindArguments, canonical_query};
use super::query_arguments::check_collation;
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::{CommandError, Result};

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = collection::Namespace::new(context.request.database, arguments.collection_name()?)?;
    let mut shape = FindArguments::default();
    for field in arguments.fields() {
        match field.name() {
            "query" => shape.filter = field.document()?,
            "sort" => shape.sort = field.document()?,
            "projection" => shape.projection = field.document()?,
            "collation" => check_collation(field)?,
            _ => arguments.generic(field)?,
        }
    }
    let has = |part: Option<&RawDocument>| part.is_some_and(|part| !part.is_empty());
    if shape.filter.is_none() && (has(shape.sort) || has(shape.projection)) {
        return Err(CommandError::bad_value("sort or projection provided without query"));
    }
    let Some(collection) = context.collection(&namespace)? else { return Ok(()) };
    let cache = &context.server.plan_cache;
    match shape.filter {
        Some(_) => cache.forget_shape(&collection, &query_shape(&canonical_query(context, &shape)?)),
        None => cache.forget(collection.uuid()),
    }
    Ok(())
}
