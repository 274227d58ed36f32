//! `validate`: checks every record of a collection against every index, both ways, and the pages underneath.
//!
//! It always checks everything, and always beside other operations, so `full`, `background`, `checkBSONConformance` and `scandata`, which old drivers send,
//! ask for what is done anyway.

use collection::ValidateReport;

use super::coll_stats::write_ring;
use super::{existing_collection, reason_to_stop, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs, Sees};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::operations::Operation;
use crate::state::queries::Queries;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let (queries, database) = (context.server.queries(), context.request.database);
        run(queries, &context.operation, database, arguments, reply)
    },
    Declaration {
        sees: Sees::Newest,
        ..Declaration::new(
            "validate",
            "Checks a collection's records, indexes and pages.",
            Needs::Data,
            &[on_collection(Action::Validate)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    queries: Queries<'_>,
    operation: &Operation<'_>,
    database: &str,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(database, &arguments)?;
    let (mut is_full, mut is_in_background) = (false, false);
    for field in arguments.fields() {
        match field.name() {
            "full" => is_full = field.boolean()?,
            "background" => is_in_background = field.boolean()?,
            "checkBSONConformance" | "scandata" => drop(field.boolean()?),
            "repair" | "fixMultikey" | "metadata" | "enforceFastCount" if !field.boolean()? => {}
            "repair" | "fixMultikey" | "metadata" | "enforceFastCount" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    if is_full && is_in_background {
        let message = "Running the validate command with both { background: true } and { full: true } is not supported";
        return Err(CommandError::named("InvalidOptions", message));
    }
    let missing = || format!("Collection '{namespace}' does not exist to validate.");
    let collection = existing_collection(queries, namespace.as_str(), missing)?;
    operation.set_time_limit(arguments.generic.max_time)?;
    let validated = queries.store.validate(&collection, &|| operation.check_interrupt().is_err());
    write_report(&validated.map_err(|error| reason_to_stop(error, operation))?, reply);
    if let Some(ring) = collection.ring() {
        reply.boolean("capped", true);
        write_ring(ring, reply);
    }
    Ok(())
}

fn write_report<'a>(report: &'a ValidateReport, reply: &mut DocumentWriter<'_>) {
    reply.string("ns", &report.namespace);
    reply.uuid("uuid", report.uuid);
    reply.count("nInvalidDocuments", report.invalid_documents);
    reply.count("nNonCompliantDocuments", report.invalid_documents);
    reply.count("nrecords", report.records);
    reply.count("nIndexes", report.indexes.len() as u64);
    reply.document("keysPerIndex", |keys| {
        report.indexes.iter().for_each(|index| keys.count(&index.name, index.keys));
    });
    reply.document("indexDetails", |details| {
        for index in &report.indexes {
            details.document(&index.name, |detail| {
                detail.boolean("valid", index.problems.count == 0);
                if index.problems.count > 0 {
                    detail.array("errors", |errors| {
                        index.problems.listed.iter().for_each(|text| errors.push_string(text))
                    });
                }
            });
        }
    });
    reply.boolean("valid", report.is_valid());
    reply.boolean("repaired", false);
    reply.array("warnings", |_| {});
    reply.array("errors", |errors| {
        report.problems.listed.iter().for_each(|text| errors.push_string(text));
        for index in report.indexes.iter().filter(|index| index.problems.count > 0) {
            errors.push_string(&format!("index '{}' has {} problems", index.name, index.problems.count));
        }
    });
    let named = |entries: u64, name: &'a str| (entries > 0).then_some((name, entries));
    write_entries(
        "extraIndexEntries",
        report.indexes.iter().filter_map(|index| named(index.extra, &index.name)),
        reply,
    );
    write_entries(
        "missingIndexEntries",
        report.indexes.iter().filter_map(|index| named(index.missing, &index.name)),
        reply,
    );
    reply.array("corruptRecords", |_| {});
}

/// How many entries each index has too many or too few.
fn write_entries<'a>(name: &str, indexes: impl Iterator<Item = (&'a str, u64)>, reply: &mut DocumentWriter<'_>) {
    reply.array(name, |list| {
        for (index, entries) in indexes {
            list.push_document(|item| {
                item.string("indexName", index);
                item.count("entries", entries);
            });
        }
    });
}
