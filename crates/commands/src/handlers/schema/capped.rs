//! `convertToCapped` and `cloneCollectionAsCapped`: capped collections out of ordinary ones.
//!
//! The newest documents that fit are copied, in natural order; indexes other than that of `_id` are not.

use collection::{CappedOptions, Namespace};
use transaction::{CommitInfo, DefinitionScope};

use super::{acknowledge, check_is_free, check_may_create, reason_to_stop, target_namespace};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::views;
use crate::request::arguments::{Arguments, required};
use crate::request::audit_events;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Changes, Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_collection};
use crate::request::requirements::Requirements;
use crate::state::defining::Defining;

pub(crate) static CONVERT: Command = Command::new(
    |context, arguments, reply| convert(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "convertToCapped",
            "Replaces a collection by a capped one with its newest documents.",
            Needs::Primary,
            &[on_collection(Action::ConvertToCapped)],
        )
    },
);

/// Runs `convertToCapped`.
pub(crate) fn convert(
    defining: &Defining<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let namespace = target_namespace(defining.database(), &arguments)?;
    let mut size = None;
    for field in arguments.fields() {
        match field.name() {
            "size" => size = field.integer()?,
            _ => arguments.generic(field)?,
        }
    }
    let capped = bounds("convertToCapped", size)?;
    check_may_create(&namespace)?;
    views::refuse(defining.queries(), &namespace)?;
    let (store, operation) = (defining.queries().store, defining.operation());
    operation.set_time_limit(arguments.generic.max_time)?;
    let excluded = defining.exclude_transactions(&DefinitionScope::Collections(vec![namespace.clone()]))?;
    let is_stopped = || operation.check_interrupt().is_err();
    let converted = store.convert_to_capped(&namespace, capped, operation.waiting(), &is_stopped);
    let commit: CommitInfo = converted.map_err(|error| reason_to_stop(error, operation))?;
    defining.forget(&namespace);
    drop(excluded);
    acknowledge(defining, arguments.generic.write_concern, Some(&commit), reply)
}

pub(crate) static CLONE: Command = Command::new(
    |context, arguments, reply| clone_collection(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        computed: Some(needs_of_clone),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "cloneCollectionAsCapped",
            "Makes a capped collection with the newest documents of another collection.",
            Needs::Primary,
            &[on_collection(Action::Find)],
        )
    },
);

/// It makes another collection.
fn needs_of_clone(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let target = document::get_field(request.body, "toCollection").and_then(|name| name.as_str()).unwrap_or_default();
    let actions = [Action::Insert, Action::CreateCollection];
    actions.into_iter().for_each(|action| needs.need_on(request.database, target, action));
    Ok(())
}

/// Runs `cloneCollectionAsCapped`.
pub(crate) fn clone_collection(
    defining: &Defining<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let from = target_namespace(defining.database(), &arguments)?;
    let (mut to, mut size) = (None, None);
    for field in arguments.fields() {
        match field.name() {
            "toCollection" => to = field.string()?,
            "size" => size = field.integer()?,
            _ => arguments.generic(field)?,
        }
    }
    let to = Namespace::new(defining.database(), required(to, "cloneCollectionAsCapped.toCollection")?)?;
    let capped = bounds("cloneCollectionAsCapped", size)?;
    check_may_create(&to)?;
    check_is_free(defining.queries(), &to)?;
    let (store, operation) = (defining.queries().store, defining.operation());
    operation.set_time_limit(arguments.generic.max_time)?;
    let is_stopped = || operation.check_interrupt().is_err();
    let cloned = store.clone_as_capped(&from, &to, capped, operation.waiting(), &is_stopped);
    let commit = cloned.map_err(|error| reason_to_stop(error, operation))?;
    acknowledge(defining, arguments.generic.write_concern, Some(&commit), reply)
}

fn bounds(command: &str, size: Option<i64>) -> Result<CappedOptions> {
    let size = required(size, &format!("{command}.size"))?;
    if size <= 0 {
        return Err(CommandError::named(
            "InvalidOptions",
            format!("Capped collection size must be greater than zero, not {size}"),
        ));
    }
    Ok(CappedOptions::new(size, None)?)
}
