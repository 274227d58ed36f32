//! `killCursors`: closes cursors.

use document::{Number, array_elements};

use crate::DocumentWriter;
use crate::arguments::{Arguments, required};
use crate::context::Context;
use crate::error::{CommandError, Result};

/// Runs the command.
pub(crate) fn run(
    context: &mut Context<'_>,
    mut arguments: Arguments<'_>,
    reply: &mut DocumentWriter<'_>,
) -> Result<()> {
    arguments.collection_name()?;
    let mut ids = None;
    for field in arguments.fields() {
        match field.name() {
            "cursors" => {
                let Some(items) = field.array()? else { continue };
                let items = array_elements(items);
                let parsed: Option<Vec<i64>> =
                    items.map(|item| Number::from_bson(item.value()).and_then(Number::to_i64_exact)).collect();
                ids = Some(parsed.ok_or_else(|| field.wrong_type("an array of type 'long'"))?);
            }
            _ => arguments.generic(field)?,
        }
    }
    let ids = required(ids, "killCursors.cursors")?;
    if ids.is_empty() {
        return Err(CommandError::bad_value("Must specify at least one cursor id in: { cursors: [] }"));
    }
    let (killed, missing): (Vec<i64>, Vec<i64>) = ids.into_iter().partition(|id| context.server.cursors.kill(*id));
    reply.array("cursorsKilled", |list| killed.iter().for_each(|id| list.push_int64(*id)));
    reply.array("cursorsNotFound", |list| missing.iter().for_each(|id| list.push_int64(*id)));
    reply.array("cursorsAlive", |_| {});
    reply.array("cursorsUnknown", |_| {});
    Ok(())
}
