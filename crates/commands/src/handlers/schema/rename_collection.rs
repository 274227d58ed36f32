//! `renameCollection`: gives a collection another name, also in another database.

use bson::RawBsonRef;
use collection::Namespace;
use transaction::{DefinitionScope, RenameTarget};

use super::{acknowledge, check_is_free, check_may_create, check_may_validate};
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::time_series;
use crate::handlers::views;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::audit_events;
use crate::request::command_request::CommandRequest;
use crate::request::declaration::{Changes, Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::Action;
use crate::request::requirements::Requirements;
use crate::state::defining::Defining;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.defining(), arguments, reply),
    Declaration {
        audit: Some(audit_events::renamed),
        is_admin_only: true,
        computed: Some(needs),
        changes: Changes::Stored,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new("renameCollection", "Renames a collection.", Needs::Primary, &[])
    },
);

/// Within a database one action; from one to another what copying takes.
fn needs(request: &CommandRequest<'_>, needs: &mut Requirements<'_>) -> Result<()> {
    let text = |name: &str| document::get_field(request.body, name).and_then(|value| value.as_str());
    // What is missing the command refuses.
    let names = text(request.name).zip(text("to")).and_then(|(from, to)| from.split_once('.').zip(to.split_once('.')));
    let Some(((from, source), (to, target))) = names else { return Ok(()) };
    if from == to {
        needs.need_on(from, source, Action::RenameCollectionSameDb);
        needs.need_on(to, target, Action::RenameCollectionSameDb);
    } else {
        [Action::Find, Action::DropCollection].into_iter().for_each(|action| needs.need_on(from, source, action));
        [Action::Insert, Action::CreateIndex].into_iter().for_each(|action| needs.need_on(to, target, action));
    }
    if document::get_field(request.body, "dropTarget").is_some_and(|value| value.as_bool() != Some(false)) {
        needs.need_on(to, target, Action::DropCollection);
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run(defining: &Defining<'_>, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let target = arguments.target().ok_or_else(|| CommandError::bad_value("an empty command"))?;
    let from = Namespace::parse(required(target.string()?, "renameCollection.renameCollection")?)?;
    let (mut to, mut replaced) = (None, RenameTarget::MustNotExist);
    for field in arguments.fields() {
        match field.name() {
            "to" => to = field.string()?,
            "dropTarget" => replaced = parse_drop_target(field)?,
            "stayTemp" if !field.boolean()? => {}
            "stayTemp" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    let to = Namespace::parse(required(to, "renameCollection.to")?)?;
    check_may_create(&from)?;
    check_may_create(&to)?;
    views::refuse(defining.queries(), &from)?;
    time_series::refuse(defining.queries(), &from, "renameCollection")?;
    check_is_free(defining.queries(), &to)?;
    defining.operation().set_time_limit(arguments.generic.max_time)?;
    let excluded = defining.exclude_transactions(&DefinitionScope::Collections(vec![from.clone(), to.clone()]))?;
    let source = defining.queries().store.catalog().lookup(from.as_str());
    if source.is_some_and(|source| source.definition().options.validator.is_some()) {
        check_may_validate(&to)?;
    }
    let commit = defining.queries().store.rename_collection(&from, &to, replaced)?;
    defining.forget(&from);
    drop(excluded);
    acknowledge(defining, arguments.generic.write_concern, Some(&commit), reply)
}

fn parse_drop_target(field: Field<'_>) -> Result<RenameTarget> {
    match field.value() {
        RawBsonRef::Binary(_) => Err(field.not_implemented()),
        _ if field.given("types '[bool, binData]'")?.boolean()? => Ok(RenameTarget::Drop),
        _ => Ok(RenameTarget::MustNotExist),
    }
}
