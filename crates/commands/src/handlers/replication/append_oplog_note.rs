//! `appendOplogNote`: logs a note of the client's, which changes nothing and moves the cluster's time on.

use document::get_field;
use transaction::CommitInfo;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::handlers::crud::write_errors::write_concern_error;
use crate::request::arguments::{Arguments, Field, required};
use crate::request::declaration::{Declaration, Needs, WithoutClient, WriteConcernUse};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::acknowledgement::Acknowledging;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.acknowledging(), arguments, reply),
    Declaration {
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        write_concern: WriteConcernUse::Taken,
        ..Declaration::new(
            "appendOplogNote",
            "Logs a note, which changes nothing.",
            Needs::Primary,
            &[on_cluster(Action::AppendOplogNote)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    acknowledging: &Acknowledging<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut data, mut newest) = (None, None);
    for field in arguments.fields() {
        match field.name() {
            "data" => data = field.document()?,
            "maxClusterTime" if field.is_null() => {}
            "maxClusterTime" => newest = Some(timestamp(field)?),
            _ => arguments.generic(field)?,
        }
    }
    let data = required(data, "appendOplogNote.data")?;
    if get_field(data, "applyOps").is_some() {
        return Err(CommandError::bad_value("a note cannot look like a transaction"));
    }
    let visible = acknowledging.store.visible_timestamp();
    if let Some(newest) = newest.filter(|newest| *newest <= visible) {
        let message =
            format!("Requested maxClusterTime {newest} is less or equal to the last primary OpTime: {visible}");
        return Err(CommandError::named("StaleClusterTime", message));
    }
    let commit: CommitInfo = acknowledging.store.log_note(data)?;
    write_concern_error(arguments.generic.write_concern.wait(acknowledging, Some(&commit)), reply);
    Ok(())
}

fn timestamp(field: Field<'_>) -> Result<platform::Timestamp> {
    match field.value() {
        bson::RawBsonRef::Timestamp(time) => Ok(platform::Timestamp::new(time.time, time.increment)),
        _ => Err(field.wrong_type("type 'timestamp'")),
    }
}
