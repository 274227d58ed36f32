//! A command's place among those that run, which it gives up before it waits for the disk, or for data that may come.
//!
//! Made by `Context` for handlers that wait.

use crate::state::context::Context;
use crate::state::operations::Operation;
use crate::state::server_hooks::ServerHooks;

/// See the module's head.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    operation: &'a Operation<'a>,
    hooks: &'a dyn ServerHooks,
}

impl Context<'_> {
    /// Its place.
    pub(crate) fn place(&self) -> Place<'_> {
        Place { operation: &self.operation, hooks: &*self.server.hooks }
    }
}

impl Place<'_> {
    /// Lets another command run in this one's place.
    pub(crate) fn give_up(&self) {
        self.operation.turn().end_early();
        self.hooks.command_waits();
    }
}
