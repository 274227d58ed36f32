//! `plimsollFigures`: the files of the flight recorder, for `plimsoll diagnose URI`.
//!
//! `{plimsollFigures: 1}` lists them; with `file` and `offset` it answers a piece of one, empty at its end. What is in them is what
//! `serverStatus` has said in the last weeks, so that who may ask for that may ask for this.

use bson::spec::BinarySubtype;
use bson::{RawBinaryRef, RawBsonRef};

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::server_hooks::ServerHooks;

/// A reply has at most so much of a file.
const PIECE_BYTES_MAX: usize = 4 << 20;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&*context.server.hooks, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "plimsollFigures",
            "The figures that the server has recorded, for a report of what it went through.",
            Needs::Nothing,
            &[on_cluster(Action::ServerStatus)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(hooks: &dyn ServerHooks, mut arguments: Arguments<'_>, reply: &mut DocumentWriter<'_>) -> Result<()> {
    let (mut file, mut offset) = (None, 0);
    for field in arguments.fields() {
        match field.name() {
            "file" => match field.value() {
                RawBsonRef::String(name) => file = Some(name.to_owned()),
                _ => return Err(field.wrong_type("string")),
            },
            "offset" => offset = field.unsigned()?.unwrap_or(0),
            _ => arguments.generic(field)?,
        }
    }
    let failed = |problem| CommandError::named("OperationFailed", problem);
    match file {
        None => {
            let files = hooks.recorded_figures().map_err(failed)?;
            reply.array("files", |list| {
                for (name, bytes) in files {
                    list.push_document(|file| {
                        file.string("name", &name);
                        file.size("bytes", bytes);
                    });
                }
            });
        }
        Some(name) => {
            let bytes = hooks.read_figures(&name, offset, PIECE_BYTES_MAX).map_err(failed)?;
            let data = RawBinaryRef { subtype: BinarySubtype::Generic, bytes: &bytes };
            reply.value("data", RawBsonRef::Binary(data));
        }
    }
    Ok(())
}
