//! `fsync` and `fsyncUnlock`: make everything durable with a checkpoint, and, with `lock`, keep others from writing, so that the files can be copied.
//!
//! Acknowledged writes do not need it.

use std::time::Duration;

use oplog::Oplog;
use transaction::Store;

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::audit_events;
use crate::request::declaration::{Declaration, Needs, WithoutClient};
use crate::request::error::{CommandError, Result};
use crate::request::privileges::{Action, on_cluster};
use crate::state::fsync_lock::FsyncLock;
use crate::state::operations::Operation;

/// How long those who are writing may take to get through, unless told otherwise.
const LOCK_TIMEOUT_MILLIS: u64 = 90_000;

pub(crate) static FSYNC: Command = Command::new(
    |context, arguments, reply| {
        let server = context.server;
        run(&server.fsync_lock, &server.store, &context.operation, arguments, reply)
    },
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new(
            "fsync",
            "Makes everything durable with a checkpoint, which takes up to two seconds longer while others write, so that they do not notice; with `lock`, keeps others from writing.",
            Needs::Nothing,
            &[on_cluster(Action::Fsync)],
        )
    },
);

/// Runs `fsync`.
pub(crate) fn run(
    fsync_lock: &FsyncLock,
    store: &Store,
    operation: &Operation<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let (mut locks, mut timeout_millis) = (false, LOCK_TIMEOUT_MILLIS);
    for field in arguments.fields() {
        match field.name() {
            "lock" => locks = field.boolean()?,
            "fsyncLockAcquisitionTimeoutMillis" => timeout_millis = field.unsigned()?.unwrap_or(LOCK_TIMEOUT_MILLIS),
            // Data files are synced in one way only.
            "async" if !field.boolean()? => {}
            "async" => return Err(field.not_implemented()),
            _ => arguments.generic(field)?,
        }
    }
    if locks {
        let taken = fsync_lock.lock(|| stop_writes(store, Duration::from_millis(timeout_millis)))?;
        reply.string("info", "now locked against writes, use db.fsyncUnlock() to unlock");
        reply.size("lockCount", taken);
        return Ok(());
    }
    // Under the lock nothing is written, so there is nothing to be made durable.
    if !fsync_lock.is_locked() {
        // The oplog is durable up to the checkpoint's end, and the checkpoint holds everything before its mark.
        store.requested_checkpoint_unless(&|| operation.check_interrupt().is_err())?;
    }
    reply.int32("numFiles", 1);
    Ok(())
}

pub(crate) static UNLOCK: Command = Command::new(
    |context, arguments, reply| run_unlock(&context.server.fsync_lock, &context.server.store, arguments, reply),
    Declaration {
        audit: Some(audit_events::as_named),
        is_admin_only: true,
        without_client: WithoutClient::GoesOn,
        ..Declaration::new("fsyncUnlock", "Lets others write again.", Needs::Nothing, &[on_cluster(Action::Unlock)])
    },
);

/// Runs `fsyncUnlock`.
pub(crate) fn run_unlock(
    fsync_lock: &FsyncLock,
    store: &Store,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    let Some(left) = fsync_lock.unlock(|| store.thaw_writes()) else {
        return Err(CommandError::named("IllegalOperation", "fsyncUnlock called when not locked"));
    };
    reply.string("info", "fsyncUnlock completed");
    reply.size("lockCount", left);
    Ok(())
}

fn stop_writes(store: &Store, longest: Duration) -> Result<()> {
    store.requested_checkpoint()?;
    if !store.freeze_writes(longest) {
        return Err(CommandError::named(
            "LockTimeout",
            format!("writes that are being made did not end within {} ms", longest.as_millis()),
        ));
    }
    // What was written between the checkpoint and the stop.
    if let Err(error) = store.oplog().wait_durable(store.oplog().end_position()) {
        store.thaw_writes();
        return Err(error.into());
    }
    Ok(())
}
