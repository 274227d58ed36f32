//! `ping`: answers.

use crate::DocumentWriter;
use crate::request::arguments::Arguments;
use crate::request::error::Result;
use crate::state::context::Context;

/// Runs the command.
pub(crate) fn run(
    _context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    super::only_generic(&mut arguments)
}
