//! `drop`: drops a collection with its indexes, or a view. Dropping what does not exist succeeds, as in MongoDB since 7.0.

use collection::Namespace;
use transaction::DefinitionScope;

use super::{acknowledge, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::diagnostics::{feature_compatibility, profile};
use crate::handlers::time_series;
use crate::handlers::views::define;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Changes, Declaration, Needs, StableApi, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::collection_dropped),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        stable_api: StableApi::Version1,
        ..Declaration::new(
            "drop",
            "Drops a collection or a view.",
            Needs::Primary,
            &[on_collection(Action::DropCollection)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    for field in arguments.fields() {
        arguments.generic(field)?;
    }
    check_may_drop(defining, &namespace)?;
    defining.operation().set_time_limit(arguments.generic.max_time)?;
    // A time-series collection goes with its buckets.
    let series = time_series::of(defining.queries(), &namespace);
    let is_there = defining.queries().store.catalog().lookup(namespace.as_str()).is_some();
    let stored = series.filter(|_| !is_there).map_or_else(|| namespace.clone(), |series| series.collection.namespace());
    let excluded = defining.exclude_transactions(&DefinitionScope::Collections(vec![stored.clone()]))?;
    let dropped = defining.queries().store.drop_collection(&stored)?;
    if let Some((indexes, _)) = &dropped {
        defining.forget(&namespace);
        reply.count("nIndexesWas", *indexes as u64);
        reply.string("ns", namespace.as_str());
    }
    drop(excluded);
    let mut commit = dropped.map(|(_, commit)| commit);
    if commit.is_none() {
        commit = define::drop_view(&defining.changing, &namespace)?;
        if commit.is_some() {
            reply.string("ns", namespace.as_str());
        }
    }
    acknowledge(defining, arguments.generic.write_concern, commit.as_ref(), reply)
}

/// What the server itself needs stays.
fn check_may_drop(defining: &Defining<'_>, namespace: &Namespace) -> Result<()> {
    if namespace.collection() == profile::COLLECTION && defining.profiler.is_on(namespace.database()) {
        let message = "turn off profiling before dropping system.profile collection";
        return Err(CommandError::named("IllegalOperation", message));
    }
    if feature_compatibility::is_version_collection(namespace) {
        return Err(CommandError::named("IllegalOperation", format!("cannot drop {namespace}")));
    }
    Ok(())
}
