//! `lockInfo`: who holds the locks that MongoDB has, too, and who waits for them.
//!
//! There is one of them here, that of `fsync` with `lock`: commands take no locks on the server, a database or a collection as a whole.

use super::only_generic;
use crate::DocumentWriter;
use crate::handlers::command::Command;
use crate::request::arguments::Arguments;
use crate::request::declaration::{Declaration, Needs};
use crate::request::error::Result;
use crate::request::privileges::{Action, on_cluster};
use crate::state::fsync_lock::FsyncLock;
use crate::state::operations::Operations;

pub(crate) static COMMAND: Command = Command::new(
    |context, arguments, reply| run(&context.server.fsync_lock, &context.server.operations, arguments, reply),
    Declaration {
        is_admin_only: true,
        ..Declaration::new(
            "lockInfo",
            "Who holds the lock of fsync, and who waits for it.",
            Needs::Nothing,
            &[on_cluster(Action::ServerStatus)],
        )
    },
);

/// Runs the command.
pub(crate) fn run(
    fsync_lock: &FsyncLock,
    operations: &Operations,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    only_generic(&mut arguments)?;
    let is_locked = fsync_lock.is_locked();
    let waiting = operations.running().into_iter().filter(|(operation, _, _)| operation.waits_for_lock);
    reply.array("lockInfo", |locks| {
        if !is_locked {
            return;
        }
        locks.push_document(|lock| {
            lock.string("resourceId", "{1: Global, 1}");
            lock.array("granted", |granted| {
                granted.push_document(|holder| {
                    holder.string("mode", "S");
                    holder.string("desc", "fsyncLock");
                });
            });
            lock.array("pending", |pending| {
                for (operation, slot, _) in waiting {
                    pending.push_document(|waiter| {
                        waiter.string("mode", "IX");
                        waiter.string("desc", &format!("conn{}", slot.connection));
                        waiter.string("client", &slot.client);
                        waiter.int32("connectionId", slot.connection as i32);
                        waiter.int32("opid", operation.id as i32);
                    });
                }
            });
        });
    });
    Ok(())
}
