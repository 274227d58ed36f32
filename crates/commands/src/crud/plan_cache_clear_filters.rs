//! `planCacheClearFilters`: removes the index filter of a shape of query, or all of a collection.

use super::shape_arguments::ShapeArguments;
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = collection::Namespace::new(context.request.database, arguments.collection_name()?)?;
    let mut example = ShapeArguments::default();
    for field in arguments.fields() {
        if !example.take(field)? {
            arguments.generic(field)?;
        }
    }
    let shape = example.shape(context)?;
    let Some(collection) = context.collection(&namespace)? else { return Ok(()) };
    let (filters, cache) = (&context.server.index_filters, &context.server.plan_cache);
    match shape {
        Some(shape) => {
            filters.clear_shape(&collection, &shape);
            cache.forget_shape(&collection, &shape);
        }
        None => {
            filters.clear(&collection);
            cache.forget(collection.uuid());
        }
    }
    Ok(())
}
