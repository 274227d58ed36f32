//! `top`: reads and writes of each collection since the start, with the time they took.

use super::namespace_usage::UsageFigures;
use super::only_generic;
use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    let figures = context.server.usage.figures();
    reply.document("totals", |totals| {
        totals.string("note", "all times in microseconds");
        for namespace in &figures {
            let (reads, writes) = (namespace.reads, namespace.writes);
            let total = UsageFigures {
                operations: reads.operations + writes.operations,
                microseconds: reads.microseconds + writes.microseconds,
            };
            totals.document(&namespace.namespace, |entry| {
                write_usage("total", total, entry);
                write_usage("readLock", reads, entry);
                write_usage("writeLock", writes, entry);
            });
        }
    });
    Ok(())
}

fn write_usage(name: &str, figures: UsageFigures, entry: &mut DocumentWriter<'_>) {
    entry.document(name, |usage| {
        usage.size("time", figures.microseconds);
        usage.size("count", figures.operations);
    });
}
