//! `planCacheClearFilters`: removes the index filter of a shape of query, or all of a collection.

use super::shape_arguments::named_shape;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::Result;
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
            "planCacheClearFilters",
            "Removes index filters.",
            Needs::Primary,
            &[on_collection(Action::PlanCacheIndexFilter)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(reading: Reading<'_>, mut arguments: Arguments<'_>) -> Result<()> {
    let Some((collection, shape)) = named_shape(reading, &mut arguments)? else { return Ok(()) };
    let (filters, cache) = (reading.queries.index_filters, reading.queries.plan_cache);
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
