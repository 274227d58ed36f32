//! `plimsollBackup`: the server copies itself to a place for backups, while it goes on (`plimsoll backup --to URL`).
//!
//! `{plimsollBackup: 1, to: "file:///var/backups/plimsoll"}` answers when the backup is whole. `currentOp` shows how far it is,
//! `killOp` ends it, and the next one uses what is there of it. Fields: `full` stores everything anew, `compress` compresses
//! pages once more, `encrypt` insists on a key, `bytesPerSecond` holds it to a rate.

use std::sync::Arc;

use backup::{BackupError, BackupOptions, Extent, Manifest, Packing, Place};
use bson::RawBsonRef;
use platform::SystemRandom;
use transaction::Store;

use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::{Arguments, Field};
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::backups::{Backups, COMMAND_NAME, EndedBackup};
use crate::state::operations::Operation;
use crate::state::server_hooks::ServerHooks;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        let (store, backups, hooks) = (&server.store, &server.backups, &*server.hooks);
        let parts = Parts { store, backups, hooks, version: server.facts.build.version };
        run(&parts, &context.operation, arguments, reply)
    },
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        ..Declaration::new(
            COMMAND_NAME,
            "Copies the server's data to a place for backups, while it goes on.",
            Needs::Nothing,
            &[on_cluster(Action::PlimsollBackup)],
        )
    },
);

/// What it takes of the server.
struct Parts<'a> {
    store: &'a Arc<Store>,
    backups: &'a Backups,
    hooks: &'a dyn ServerHooks,
    version: &'static str,
}

/// What the fields say.
#[derive(Default)]
struct Wanted {
    to: Option<String>,
    is_full: bool,
    compresses: bool,
    must_encrypt: bool,
    bytes_per_second: Option<u64>,
}

/// Runs the command.
fn run(
    parts: &Parts<'_>,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut wanted = Wanted::default();
    for field in arguments.fields() {
        match field.name() {
            "to" => wanted.to = Some(text(field)?),
            "full" => wanted.is_full = field.boolean()?,
            "compress" => wanted.compresses = field.boolean()?,
            "encrypt" => wanted.must_encrypt = field.boolean()?,
            "bytesPerSecond" => wanted.bytes_per_second = field.unsigned()?,
            _ => arguments.generic(field)?,
        }
    }
    if wanted.bytes_per_second == Some(0) {
        return Err(CommandError::bad_value("bytesPerSecond must be at least 1"));
    }
    operation.set_time_limit(arguments.generic.max_time)?;
    let made = make(parts, &wanted, &|| operation.check_interrupt().is_err());
    if made.is_err() {
        // What asked it to end says it better.
        operation.check_interrupt()?;
    }
    write(&made?, reply);
    Ok(())
}

fn text(field: Field<'_>) -> Result<String> {
    match field.value() {
        RawBsonRef::String(text) => Ok(text.to_owned()),
        _ => Err(field.wrong_type("string")),
    }
}

fn make(parts: &Parts<'_>, wanted: &Wanted, is_stopped: &dyn Fn() -> bool) -> Result<Manifest> {
    let Some(to) = &wanted.to else {
        return Err(CommandError::numbered(40414, "BSON field 'plimsollBackup.to' is missing but a required field"));
    };
    let facts = parts.hooks.backup_facts();
    if wanted.must_encrypt && facts.key.is_none() {
        let message = "the server has no key to encrypt backups with: start it with --backup-key-file, or with an encrypted data directory";
        return Err(CommandError::named("InvalidOptions", message));
    }
    let place = Place::of_url(to).map_err(failed)?;
    let Some(running) = parts.backups.begin() else {
        return Err(CommandError::named("ConflictingOperationInProgress", "another backup is being made"));
    };
    let options = BackupOptions {
        name: None,
        packing: Packing { compresses_pages: wanted.compresses, key: facts.key },
        bytes_per_second: wanted.bytes_per_second,
        extent: if wanted.is_full { Extent::Full } else { Extent::Changed },
        server: parts.version,
    };
    tracing::info!(target: "control", to, "a backup begins");
    let made = place.open(facts.data.as_deref()).and_then(|objects| {
        backup::make(parts.store, &objects, &SystemRandom, &options, &running.progress, is_stopped)
    });
    match &made {
        Ok(manifest) => tracing::info!(target: "control", id = manifest.id, "the backup is whole"),
        Err(error) => tracing::warn!(target: "control", %error, "the backup was ended"),
    }
    let outcome = made.as_ref().map(|manifest| (manifest.id.clone(), manifest.stored_bytes));
    parts.backups.note(EndedBackup {
        to: place.to_string(),
        ended_millis: parts.store.clock().wall_millis(),
        outcome: outcome.map_err(ToString::to_string),
    });
    made.map_err(failed)
}

fn failed(error: BackupError) -> CommandError {
    match error {
        BackupError::Place(_) | BackupError::Key(_) => CommandError::named("InvalidOptions", error.to_string()),
        BackupError::DiskFull => CommandError::named("OutOfDiskSpace", error.to_string()),
        BackupError::Store(error) => error.into(),
        error => CommandError::named("OperationFailed", error.to_string()),
    }
}

fn write(manifest: &Manifest, reply: &mut DocumentWriter<'_>) {
    reply.string("id", &manifest.id);
    reply.size("pages", manifest.pages);
    reply.size("pageBytes", manifest.page_bytes);
    reply.size("reusedBytes", manifest.reused_bytes);
    reply.size("storedBytes", manifest.stored_bytes);
    reply.boolean("encrypted", manifest.is_encrypted);
    let end = manifest.last_timestamp();
    reply.timestamp("until", bson::Timestamp { time: end.seconds(), increment: end.increment() });
    reply.size("millis", u64::try_from(manifest.ended_millis - manifest.began_millis).unwrap_or(0));
}
