//! What a session has written: the statements of its newest retryable write, or whether its newest transaction is committed.
//!
//! Kept in memory in runs of statements with consecutive numbers and the same outcome, so that a write of many documents is one
//! run. What a retry's reply needs beside (the `_id` of an upsert, the document of a `findAndModify`) stays in the oplog; the record
//! has the entry's position. Format of the stored record: `docs/file-format.md`, "Sessions".

use bson::Uuid;
use collection::CollectionError;
use oplog::OplogPosition;

use crate::error::{Result, TransactionError};

/// Version of the stored form.
const FORMAT: u8 = 1;
/// Bytes before the runs: version, number, and whether it is that of a committed transaction.
const HEADER_BYTES: usize = 1 + 8 + 1;
/// Bytes of a run in the stored form.
const RUN_BYTES: usize = 4 + 4 + 1 + 8;
/// Runs of statements that a retryable write may have when another command goes on with it: as many as one command has operations at most.
const RUNS_MAX: usize = 100_000;
/// Room for so many runs stays for the next write.
const RUNS_KEPT: usize = 16;
/// In the place of a position: there are no details.
const NO_DETAILS: u64 = u64::MAX;

/// What one statement has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExecutedStatement {
    /// Its number in the retryable write.
    pub id: i32,
    /// 1: it inserted a document, 0: it changed one, -1: it deleted one.
    pub count_change: i8,
    /// Where its oplog entry is, when a reply needs what is in there.
    pub details: Option<OplogPosition>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    first: i32,
    count: u32,
    count_change: i8,
    details: Option<OplogPosition>,
}

/// What the newest number of a session stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberUse {
    /// A retryable write, or nothing yet.
    Statements,
    /// A transaction that is open.
    Open,
    /// A transaction that is committed.
    Committed,
    /// A transaction that is aborted.
    Aborted,
}

/// See the module's head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SessionRecord {
    /// Of the newest retryable write or transaction; -1 before the first.
    txn_number: i64,
    number_use: NumberUse,
    runs: Vec<Run>,
    /// The highest number of a statement; the lowest there is before the first.
    highest: i32,
}

impl Default for SessionRecord {
    fn default() -> SessionRecord {
        SessionRecord { txn_number: -1, number_use: NumberUse::Statements, runs: Vec::new(), highest: i32::MIN }
    }
}

impl SessionRecord {
    pub(crate) fn begin_retryable_write(&mut self, session: Uuid, txn_number: i64) -> Result<()> {
        if txn_number < self.txn_number {
            return Err(TransactionError::TransactionTooOld(format!(
                "Retryable write with txnNumber {txn_number} is prohibited on session {session} because a newer retryable \
                 write with txnNumber {} has already started on this session.",
                self.txn_number
            )));
        }
        if txn_number == self.txn_number && self.number_use != NumberUse::Statements {
            return Err(TransactionError::IncompleteTransactionHistory(format!(
                "Cannot retry a write with txnNumber {txn_number} on session {session} because the number is that of a transaction"
            )));
        }
        self.go_on_to(txn_number);
        if self.runs.len() >= RUNS_MAX {
            return Err(TransactionError::TooManyStatements(format!(
                "txnNumber {txn_number} of session {session} has {RUNS_MAX} statements that have to be remembered one by one: use another number"
            )));
        }
        Ok(())
    }

    /// The newest number, and what it stands for.
    pub(crate) fn newest(&self) -> (i64, NumberUse) {
        (self.txn_number, self.number_use)
    }

    /// A transaction goes on to another state; an older one than the newest is left out.
    pub(crate) fn set_transaction(&mut self, txn_number: i64, state: NumberUse) {
        if txn_number >= self.txn_number {
            self.go_on_to(txn_number);
            self.number_use = state;
        }
    }

    /// Whether it has nothing that anybody would miss: nothing was written, or a transaction that was aborted.
    pub(crate) fn is_empty(&self) -> bool {
        self.number_use == NumberUse::Aborted || *self == SessionRecord::default()
    }

    /// What it takes beside itself.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.runs.capacity() * size_of::<Run>()) as u64
    }

    fn go_on_to(&mut self, txn_number: i64) {
        if txn_number > self.txn_number {
            self.txn_number = txn_number;
            self.number_use = NumberUse::Statements;
            self.runs.clear();
            self.runs.shrink_to(RUNS_KEPT);
            self.highest = i32::MIN;
        }
    }

    /// `false`: it belongs to an older write, or is known.
    pub(crate) fn add_statement(&mut self, txn_number: i64, executed: ExecutedStatement) -> bool {
        if txn_number < self.txn_number {
            return false;
        }
        self.go_on_to(txn_number);
        if self.executed(executed.id).is_some() {
            return false;
        }
        let ExecutedStatement { id, count_change, details } = executed;
        self.highest = self.highest.max(id);
        match self.runs.last_mut() {
            Some(last) if last.takes(&executed) => last.count += 1,
            _ => self.runs.push(Run { first: id, count: 1, count_change, details }),
        }
        true
    }

    pub(crate) fn executed(&self, statement: i32) -> Option<ExecutedStatement> {
        // Statements come in ascending order: a new one is behind the last run, which mostly is all there is to look at.
        if statement > self.highest {
            return None;
        }
        let found = self.runs.iter().rev().find(|run| run.contains(statement))?;
        Some(ExecutedStatement { id: statement, count_change: found.count_change, details: found.details })
    }

    /// The stored form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.runs.len() * RUN_BYTES);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.txn_number.to_le_bytes());
        bytes.push(u8::from(self.number_use == NumberUse::Committed));
        for run in &self.runs {
            bytes.extend_from_slice(&run.first.to_le_bytes());
            bytes.extend_from_slice(&run.count.to_le_bytes());
            bytes.push(run.count_change as u8);
            bytes.extend_from_slice(&run.details.map_or(NO_DETAILS, |position| position.0).to_le_bytes());
        }
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<SessionRecord> {
        let (header, runs) = bytes.split_at_checked(HEADER_BYTES).ok_or_else(damaged)?;
        let (Some((&FORMAT, number)), 0) = (header.split_first(), runs.len() % RUN_BYTES) else {
            return Err(damaged());
        };
        let txn_number = i64::from_le_bytes(*number.first_chunk().ok_or_else(damaged)?);
        let runs = runs.chunks_exact(RUN_BYTES).map(|run| Run::decode(run).ok_or_else(damaged));
        let number_use = if header.last() == Some(&1) { NumberUse::Committed } else { NumberUse::Statements };
        let runs: Vec<Run> = runs.collect::<Result<_>>()?;
        let highest = runs.iter().map(Run::highest).max().unwrap_or(i32::MIN);
        Ok(SessionRecord { txn_number, number_use, runs, highest })
    }
}

impl Run {
    fn contains(&self, statement: i32) -> bool {
        let distance = i64::from(statement) - i64::from(self.first);
        (0..i64::from(self.count)).contains(&distance)
    }

    fn highest(&self) -> i32 {
        i32::try_from(i64::from(self.first) + i64::from(self.count) - 1).unwrap_or(i32::MAX)
    }

    /// Whether a statement makes the run longer.
    fn takes(&self, next: &ExecutedStatement) -> bool {
        let is_next = i64::from(self.first) + i64::from(self.count) == i64::from(next.id);
        is_next && self.count_change == next.count_change && self.details.is_none() && next.details.is_none()
    }

    fn decode(bytes: &[u8]) -> Option<Run> {
        let position = u64::from_le_bytes(*bytes.get(9..)?.first_chunk()?);
        Some(Run {
            first: i32::from_le_bytes(*bytes.first_chunk()?),
            count: u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?),
            count_change: *bytes.get(8)? as i8,
            details: (position != NO_DETAILS).then_some(OplogPosition(position)),
        })
    }
}

pub(crate) fn damaged() -> TransactionError {
    CollectionError::Damaged("the record of a session".to_owned()).into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn executed(id: i32, count_change: i8, details: Option<u64>) -> ExecutedStatement {
        ExecutedStatement { id, count_change, details: details.map(OplogPosition) }
    }

    #[test]
    fn many_inserts_are_one_run() {
        let mut record = SessionRecord::default();
        (0..1_000).for_each(|id| assert!(record.add_statement(3, executed(id, 1, None))));
        assert_eq!(record.runs.len(), 1);
        assert_eq!(record.executed(999), Some(executed(999, 1, None)));
        assert_eq!(record.executed(1_000), None);
        assert!(!record.add_statement(3, executed(5, 1, None)), "known already");
    }

    #[test]
    fn a_newer_write_takes_the_place_of_an_older_one() {
        let id = Uuid::from_bytes([1; 16]);
        let mut record = SessionRecord::default();
        record.begin_retryable_write(id, 5).unwrap();
        record.add_statement(5, executed(0, 0, None));
        record.begin_retryable_write(id, 5).unwrap();
        assert!(record.executed(0).is_some());
        record.begin_retryable_write(id, 6).unwrap();
        assert!(record.executed(0).is_none());
        assert!(matches!(record.begin_retryable_write(id, 5), Err(TransactionError::TransactionTooOld(_))));
        assert!(!record.add_statement(5, executed(1, 0, None)));
    }

    #[test]
    fn a_write_that_goes_on_for_ever_is_refused_before_its_record_fits_nowhere() {
        let id = Uuid::from_bytes([1; 16]);
        let mut record = SessionRecord::default();
        let mut statement = 0;
        while record.begin_retryable_write(id, 7).is_ok() {
            // As scattered as one command can be.
            (0..RUNS_MAX as i32 - 1).for_each(|_| {
                statement += 2;
                record.add_statement(7, executed(statement, 1, None));
            });
        }
        assert!(matches!(record.begin_retryable_write(id, 7), Err(TransactionError::TooManyStatements(_))));
        assert!(record.encode().len() < storage_engine::MAX_VALUE_BYTES / 4);
        record.begin_retryable_write(id, 8).unwrap();
    }

    #[test]
    fn damaged_records_are_refused() {
        assert!(SessionRecord::decode(&[]).is_err());
        assert!(SessionRecord::decode(&[9; HEADER_BYTES]).is_err());
        assert!(SessionRecord::decode(&[FORMAT; 12]).is_err());
    }

    proptest! {
        /// Against a map: what was added first for a number is what is found, also after storing and loading.
        #[test]
        fn statements_are_found_as_they_were_added(
            added in prop::collection::vec((0..20_i32, -1..=1_i8, prop::option::of(0..9_u64)), 0..60),
        ) {
            let mut record = SessionRecord::default();
            let mut model = std::collections::BTreeMap::new();
            for (id, count_change, details) in added {
                let statement = executed(id, count_change, details);
                prop_assert_eq!(record.add_statement(1, statement), !model.contains_key(&id));
                model.entry(id).or_insert(statement);
            }
            let loaded = SessionRecord::decode(&record.encode()).unwrap();
            prop_assert_eq!(&loaded, &record);
            for id in -1..21 {
                prop_assert_eq!(loaded.executed(id), model.get(&id).copied());
            }
        }
    }
}
