//! `setDefaultRWConcern`: sets the read and write concerns of commands that name none. Durable before it is answered.

use bson::{DateTime, RawDocument, RawDocumentBuf};
use document::get_field;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::document_writer::document_of;
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::request::write_concern::WriteConcern;
use crate::state::default_concerns::DefaultConcerns;
use crate::state::replica_set::ReplicaSet;
use crate::state::writing::Writing;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.default_concerns, &server.replica_set, &server.writing, arguments, reply)
    },
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "setDefaultRWConcern",
            "Sets the read and write concerns of commands that name none.",
            Needs::Primary,
            &[on_cluster(Action::SetDefaultRwConcern)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    defaults: &DefaultConcerns,
    replica_set: &ReplicaSet,
    writing: &Writing,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut read, mut write) = (None, None);
    for field in arguments.fields() {
        match field.name() {
            "defaultReadConcern" => read = field.document()?,
            "defaultWriteConcern" => write = field.document()?,
            _ => arguments.generic(field)?,
        }
    }
    if read.is_none() && write.is_none() {
        let message = "At least one of the 'defaultReadConcern' or 'defaultWriteConcern' fields must be present";
        return Err(CommandError::bad_value(message));
    }
    let mut concerns = (*defaults.set()).clone();
    if let Some(read) = read {
        concerns.read_level = read_level(read)?;
    }
    match write {
        Some(empty) if empty.is_empty() && concerns.write.is_some() => {
            let message = "The global default write concern cannot be unset once it is set.";
            return Err(CommandError::named("IllegalOperation", message));
        }
        Some(given) if !given.is_empty() => concerns.write = Some(write_concern(replica_set, given)?),
        _ => {}
    }
    defaults.change(writing, concerns)?;
    let now = DateTime::from_millis(writing.clock.wall_millis());
    defaults.write(replica_set, now, reply);
    Ok(())
}

/// The level; none for an empty concern, which takes the default back.
fn read_level(concern: &RawDocument) -> Result<Option<String>> {
    let mut level = None;
    for element in document::elements(concern) {
        let field = Field::of("defaultReadConcern", element);
        match (field.name(), field.value()) {
            ("level", _) if ["local", "available", "majority"].contains(&field.required(Field::string)?) => {
                level = Some(field.required(Field::string)?.to_owned());
            }
            ("level", _) => {
                let message =
                    format!("The default read concern cannot be of level '{}'", field.required(Field::string)?);
                return Err(CommandError::bad_value(message));
            }
            ("provenance", _) => {}
            _ => return Err(CommandError::bad_value(format!("'{}' cannot be a default", field.name()))),
        }
    }
    Ok(level)
}

fn write_concern(replica_set: &ReplicaSet, given: &RawDocument) -> Result<(RawDocumentBuf, WriteConcern)> {
    let parsed = WriteConcern::parse(given)?;
    let w = get_field(given, "w").ok_or_else(|| CommandError::bad_value("The default write concern needs 'w'"))?;
    if parsed.is_unacknowledged() {
        return Err(CommandError::bad_value("The default write concern cannot be {w: 0}"));
    }
    parsed.check_satisfiable(replica_set)?;
    let stored = document_of(|document| {
        document.value("w", w);
        if let Some(journal) = get_field(given, "j") {
            document.value("j", journal);
        }
        match get_field(given, "wtimeout") {
            Some(timeout) => document.value("wtimeout", timeout),
            None => document.int32("wtimeout", 0),
        }
    })?;
    Ok((stored, parsed))
}
