//! `planCacheListFilters`: the index filters of a collection, each with the example from which its shape was taken.

use bson::RawBsonRef;
use planner::{AllowedIndex, IndexFilter};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_collection};
use crate::state::reading::Reading;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(context.reading(), arguments, reply),
    Declaration::new(
        "planCacheListFilters",
        "Lists the index filters of a collection.",
        Needs::Primary,
        &[on_collection(Action::PlanCacheIndexFilter)],
    ),
);

/// Runs the command.
pub(crate) fn run(reading: Reading<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = collection::Namespace::new(reading.database, arguments.collection_name()?)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    let collection = reading.collection(&namespace)?;
    let filters = collection.map(|collection| reading.queries.index_filters.list(&collection)).unwrap_or_default();
    reply.array("filters", |written| {
        for filter in &filters {
            written.push_document(|written| write_filter(filter, written));
        }
    });
    Ok(())
}

fn write_filter(filter: &IndexFilter, written: &mut DocumentWriter<'_>) {
    written.embed("query", &filter.query);
    written.embed("sort", &filter.sort);
    written.embed("projection", &filter.projection);
    if !filter.collation.is_empty() {
        written.embed("collation", &filter.collation);
    }
    written.array("indexes", |written| {
        for allowed in &filter.indexes {
            match allowed {
                AllowedIndex::Name(name) => written.push_string(name),
                AllowedIndex::KeyPattern(pattern) => written.push_value(RawBsonRef::Document(pattern)),
            }
        }
    });
}
