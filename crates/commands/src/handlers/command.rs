//! A command: its declaration and its handler.
//!
//! Each handler's file has one, as a static; `registry` lists them, `dispatcher` runs them.

use crate::DocumentWriter;
use crate::request::arguments::Arguments;
use crate::request::declaration::Declaration;
use crate::request::error::Result;
use crate::request::outcome::Outcome;
use crate::state::context::Context;

/// See the module's head.
pub(crate) struct Command {
    pub(crate) declaration: Declaration,
    pub(crate) handler: Handler,
}

/// How a command is run.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// It always replies.
    Reply(fn(&mut Context<'_>, Arguments<'_>, &mut DocumentWriter<'_>) -> Result<()>),
    /// It may ask to be run again, before its reply or after it.
    MayWait(fn(&mut Context<'_>, Arguments<'_>, &mut DocumentWriter<'_>) -> Result<Outcome>),
}

impl Command {
    /// One that always replies.
    pub(crate) const fn new(
        run: fn(&mut Context<'_>, Arguments<'_>, &mut DocumentWriter<'_>) -> Result<()>,
        declaration: Declaration,
    ) -> Self {
        Self { declaration, handler: Handler::Reply(run) }
    }

    /// One that may wait.
    pub(crate) const fn waiting(
        run: fn(&mut Context<'_>, Arguments<'_>, &mut DocumentWriter<'_>) -> Result<Outcome>,
        declaration: Declaration,
    ) -> Self {
        Self { declaration, handler: Handler::MayWait(run) }
    }
}
