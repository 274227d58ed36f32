//! `setParameter`: changes a server parameter while the server runs.

use crate::DocumentWriter;
use crate::arguments::{Arguments, Field};
use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::schema::take_generic;

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    let mut was_set = false;
    for field in arguments.fields() {
        if take_generic(&mut arguments, field)? {
            continue;
        }
        match field.name() {
            "transactionLifetimeLimitSeconds" => {
                let before = context.server.parameters.set_transaction_lifetime_seconds(positive(field)?);
                reply.count("was", before);
                was_set = true;
            }
            name => {
                let message =
                    format!("attempted to set unrecognized parameter [{name}], use help:true to see options ");
                return Err(CommandError::named("InvalidOptions", message));
            }
        }
    }
    if was_set { Ok(()) } else { Err(CommandError::named("InvalidOptions", "no option found to set")) }
}

fn positive(field: Field<'_>) -> Result<u64> {
    match u64::try_from(field.integer()?) {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(CommandError::bad_value(format!("{} must be greater than or equal to 1", field.name()))),
    }
}
