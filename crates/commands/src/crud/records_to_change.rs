//! The records that an update or delete of many changes.
//!
//! Outside of transactions they come from the query as it goes: it reads a snapshot, which the changes do not touch. In a transaction the query sees the
//! transaction's own changes, so a record that an update moves in an index would be met again, for ever: there all are found first.

use collection::RecordId;
use executor::QueryExecutor;
use platform::{MemoryReservation, MemoryUse};

use crate::context::Context;
use crate::error::{CommandError, Result};
use crate::operations::Operation;

/// See the module's head.
pub(crate) enum RecordsToChange {
    /// As the query yields them.
    Streamed,
    /// Found before the first is changed; counted in the memory budget.
    Found(std::vec::IntoIter<RecordId>, #[allow(dead_code, reason = "held for as long as the list")] MemoryReservation),
}

impl RecordsToChange {
    /// For a command that may change several of the records that a query yields, or one.
    pub(crate) fn of(context: &Context<'_>, is_many: bool, found: &mut QueryExecutor) -> Result<RecordsToChange> {
        if !is_many || context.session.transaction().is_none() {
            return Ok(RecordsToChange::Streamed);
        }
        let mut memory = context.server.memory.budget().reservation(MemoryUse::WriteSets);
        let mut records: Vec<RecordId> = Vec::new();
        while let Some(row) = found.next(&context.operation)? {
            records.extend(row.record_id);
            if records.len() == records.capacity() {
                let bytes = (records.capacity() * 2 * size_of::<RecordId>()) as u64;
                memory.cover(bytes).map_err(|error| {
                    CommandError::named(
                        "TransactionTooLargeForCache",
                        format!("the records to change do not fit: {error}"),
                    )
                })?;
            }
        }
        Ok(RecordsToChange::Found(records.into_iter(), memory))
    }

    /// The next one.
    pub(crate) fn next(&mut self, found: &mut QueryExecutor, operation: &Operation<'_>) -> Result<Option<RecordId>> {
        match self {
            RecordsToChange::Found(records, _) => {
                operation.check_interrupt()?;
                Ok(records.next())
            }
            RecordsToChange::Streamed => loop {
                let Some(row) = found.next(operation)? else { return Ok(None) };
                if row.record_id.is_some() {
                    return Ok(row.record_id);
                }
            },
        }
    }
}
