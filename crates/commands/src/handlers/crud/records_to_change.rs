//! The records that an update or delete of many changes.
//!
//! Outside of transactions they come from the query as it goes: it reads a snapshot, which the changes do not touch. Now and then it goes on in a newer
//! one, so that a long command does not keep versions of all that it and others change meanwhile, and does not end when the history's quota is reached. In a
//! transaction, and when an update could move a record in the index that is read, a newer view would show a record that was changed already again: a
//! transaction finds all records first, and such an update stays in its snapshot.

use std::time::Duration;

use collection::RecordId;
use executor::QueryExecutor;
use platform::{MemoryReservation, MemoryUse};

use crate::request::error::{CommandError, Result};
use crate::state::operations::Operation;
use crate::state::reading::Reading;

/// Records after which the query goes on in a newer view ...
const VIEW_RECORDS: usize = 1000;
/// ... or time, where they take longer.
const VIEW_TIME: Duration = Duration::from_millis(100);

/// What is done with the records.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    /// One at most.
    One,
    /// Deleted, however many.
    Deleted,
    /// Updated, however many.
    Updated,
}

/// See the module's head.
pub(crate) enum RecordsToChange {
    /// As the query yields them.
    Streamed(View),
    /// Found before the first is changed; counted in the memory budget.
    Found(std::vec::IntoIter<RecordId>, #[allow(dead_code, reason = "held for as long as the list")] MemoryReservation),
}

/// The view that the query reads.
pub(crate) struct View {
    may_move: bool,
    /// Records that it has yielded.
    records: usize,
    /// When it was opened, since the command began.
    opened: Duration,
}

impl RecordsToChange {
    /// For a command that does this with the records that a query yields.
    pub(crate) fn of(
        reading: Reading<'_>,
        operation: &Operation<'_>,
        changed: Changed,
        found: &mut QueryExecutor,
    ) -> Result<RecordsToChange> {
        if changed == Changed::One || !reading.is_in_transaction() {
            let may_move = match changed {
                Changed::One => false,
                Changed::Deleted => true,
                Changed::Updated => !found.reads_indexes(),
            };
            return Ok(RecordsToChange::Streamed(View { may_move, records: 0, opened: operation.elapsed() }));
        }
        let mut memory = reading.queries.memory.budget().reservation(MemoryUse::WriteSets);
        let mut records: Vec<RecordId> = Vec::new();
        while let Some(row) = found.next(operation)? {
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
    pub(crate) fn next(
        &mut self,
        found: &mut QueryExecutor,
        reading: Reading<'_>,
        operation: &Operation<'_>,
    ) -> Result<Option<RecordId>> {
        match self {
            RecordsToChange::Found(records, _) => {
                operation.check()?;
                Ok(records.next())
            }
            RecordsToChange::Streamed(view) => loop {
                view.move_on(found, reading, operation)?;
                // A change takes far longer than what the query looks after.
                operation.turn().check();
                let Some(row) = found.next(operation)? else { return Ok(None) };
                if row.record_id.is_some() {
                    return Ok(row.record_id);
                }
            },
        }
    }
}

impl View {
    /// Goes on in a newer one when it is time.
    fn move_on(&mut self, found: &mut QueryExecutor, reading: Reading<'_>, operation: &Operation<'_>) -> Result<()> {
        if !self.may_move {
            return Ok(());
        }
        self.records += 1;
        let now = operation.elapsed();
        if self.records > VIEW_RECORDS || now.saturating_sub(self.opened) > VIEW_TIME {
            found.reseat(reading.queries.store.newest_view())?;
            (self.records, self.opened) = (0, now);
        }
        Ok(())
    }
}
