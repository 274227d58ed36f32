//! `ping`: answers.

use crate::DocumentWriter;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::Result;

/// Runs the command.
pub(crate) fn run(
    _context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    _reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    super::only_generic(&mut arguments)
}
