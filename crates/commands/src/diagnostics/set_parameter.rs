//! `setParameter`: changes a server parameter while the server runs.

use super::parameters::{algorithm_name, algorithm_named};
use crate::DocumentWriter;
use crate::admission::{Algorithm, Class};
use crate::arguments::{Arguments, Field, required};
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
            "storageEngineConcurrencyAdjustmentAlgorithm" => {
                let before = context.server.admission.set_algorithm(algorithm(field)?);
                reply.string("was", algorithm_name(before));
                was_set = true;
            }
            "storageEngineConcurrentReadTransactions" => {
                reply.count("was", set_tickets(context, field, Class::Read)?);
                was_set = true;
            }
            "storageEngineConcurrentWriteTransactions" => {
                reply.count("was", set_tickets(context, field, Class::Write)?);
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

fn algorithm(field: Field<'_>) -> Result<Algorithm> {
    let name = required(field.string()?, field.name())?;
    algorithm_named(name).ok_or_else(|| {
        CommandError::bad_value(format!(
            "'{name}' is not a value of {}: throughputProbing or fixedConcurrentTransactions",
            field.name()
        ))
    })
}

/// Sets how many commands of a kind may run at once; gives how many might.
fn set_tickets(context: &Context<'_>, field: Field<'_>, class: Class) -> Result<u64> {
    let tickets = usize::try_from(positive(field)?).unwrap_or(usize::MAX);
    let admission = &context.server.admission;
    if admission.algorithm() == Algorithm::ThroughputProbing {
        let what = if class == Class::Read { "read" } else { "write" };
        let message =
            format!("Cannot modify concurrent {what} transactions limit when it is being dynamically adjusted");
        return Err(CommandError::named("IllegalOperation", message));
    }
    Ok(admission.set_limit(class, tickets).unwrap_or_default())
}

fn positive(field: Field<'_>) -> Result<u64> {
    match u64::try_from(required(field.integer()?, field.name())?) {
        Ok(value) if value > 0 => Ok(value),
        _ => Err(CommandError::bad_value(format!("{} must be greater than or equal to 1", field.name()))),
    }
}
