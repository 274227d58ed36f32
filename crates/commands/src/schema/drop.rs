//! `drop`: drops a collection with its indexes. Dropping what does not exist succeeds, as in MongoDB since 7.0.

use transaction::DefinitionScope;

use super::{acknowledge, target_namespace};
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
    let namespace = target_namespace(context, &arguments)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    context.operation.set_time_limit(arguments.generic.max_time)?;
    let excluded = context.exclude_transactions(&DefinitionScope::Collections(vec![namespace.clone()]))?;
    let Some((indexes, commit)) = context.server.store.drop_collection(&namespace)? else { return Ok(()) };
    context.server.usage.forget(namespace.as_str());
    reply.count("nIndexesWas", indexes as u64);
    reply.string("ns", namespace.as_str());
    drop(excluded);
    acknowledge(context, arguments.generic.write_concern, Some(&commit), reply)
}
