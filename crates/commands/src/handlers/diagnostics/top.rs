//! `top`: what each collection was used for since the start, how often and for how long.

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::namespace_usage::{NamespaceUsage, OTHERS, UsageFigures, UsageKind};

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.usage, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new("top", "Use of each collection.", Needs::Nothing, &[on_cluster(Action::Top)])
    },
);

/// Runs the command.
pub(crate) fn run(usage: &NamespaceUsage, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    only_generic(&mut arguments)?;
    let figures = usage.figures();
    reply.document("totals", |totals| {
        totals.string("note", "all times in microseconds");
        for namespace in &figures {
            let (reads, writes) = (namespace.reads(), namespace.writes());
            let others = namespace.of(OTHERS);
            let total = UsageFigures {
                operations: reads.operations + writes.operations + others.operations,
                microseconds: reads.microseconds + writes.microseconds + others.microseconds,
            };
            totals.document(&namespace.namespace, |entry| {
                write_usage("total", total, entry);
                write_usage("readLock", reads, entry);
                write_usage("writeLock", writes, entry);
                write_usage("queries", namespace.of(&[UsageKind::Query]), entry);
                write_usage("getmore", namespace.of(&[UsageKind::GetMore]), entry);
                write_usage("insert", namespace.of(&[UsageKind::Insert]), entry);
                write_usage("update", namespace.of(&[UsageKind::Update]), entry);
                write_usage("remove", namespace.of(&[UsageKind::Remove]), entry);
                write_usage("commands", namespace.commands(), entry);
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
