//! The change of one document that has very many index entries, as an array of 200,000 under several indexes has.
//!
//! Called by `Store::commit`. Whoever commits after a commit becomes visible after it, so one that takes seconds to apply would have everybody wait. It is logged as
//! a large transaction without a session is (`large_commit`: a part with the operation, the decision, the commit) and concealed while it is applied: others go past it.
//!
//! It is applied piece by piece, the record last: a checkpoint between two pieces has the old record and some of the new entries, and replay, which begins at the decision at
//! the latest, makes the rest from the difference between the two records. What is there already is put once more.
//!
//! The record, its unique keys and the gate are locked for all of that time. Changes of the collection's definition wait before they lock anything, so who holds the
//! gate must have announced it (`announce_large_change`) before.

use std::sync::Arc;

use collection::{Collection, DocumentChange, Telling, TransactionEncoder, WriteAccess};
use oplog::Oplog;
use platform::{LongWork, WorkBudget};
use storage_engine::{Batch, Timestamp};

use super::large_commit::{LargeCommit, Logging};
use crate::commit_order::{CommitInfo, Effect, tell_why_stopped};
use crate::error::Result;
use crate::interleaving::Moment;
use crate::store::Store;
use crate::write_context::Statement;

/// Changes of the record and its index entries from which on they are applied so: some ten milliseconds of work.
pub(crate) const LARGE_CHANGE_ENTRIES: usize = 4096;
/// Applied at a time.
const PIECE_ENTRIES: usize = 256;

/// Whether others would wait for a change.
pub(crate) fn is_large(change: &DocumentChange) -> bool {
    // A ring is written in order.
    change.batch().len() > LARGE_CHANGE_ENTRIES && change.ring_change().is_none()
}

impl Store {
    /// Announces such a change. No gate may be held.
    pub(crate) fn announce_large_change(&self, collection: &Arc<Collection>) -> LargeCommit<'_> {
        self.begin_large_commit([collection.ident()])
    }

    /// Commits a prepared change. All locks that it needs are held, and it is announced.
    pub(crate) fn commit_large_change(
        &self,
        access: &WriteAccess<'_>,
        change: &DocumentChange,
        statement: Option<&Statement>,
    ) -> Result<CommitInfo> {
        let _may_write = self.may_write()?;
        self.check_commits()?;
        // What is logged is applied to its end, whoever wants the command to stop.
        let _unwatched = document::work::unwatched();
        let gives_way = LongWork::begin(&self.foreground);
        let hold = self.commits.hold();
        let mut logging = Logging::default();
        logging.entry.push(change.oplog_entry(), Telling::Whole);
        self.log_part(&mut logging, &hold)?;
        let parts = logging.positions();
        let Some(first) = parts.first().copied() else { return Err(crate::TransactionError::Stopped) };
        self.check_commits()?;
        let mut decided = self.commits.decide();
        let mut entry = TransactionEncoder::new();
        let decision = entry.finish_decision(&parts, None, self.clock.wall_millis());
        let logged =
            self.oplog.append(&mut |_, bytes| bytes.extend_from_slice(decision), &mut |timestamp, position| {
                decided.register(timestamp, position, first);
            })?;
        self.options.interleaving.at(Moment::Logged { timestamp: logged.timestamp, entry: decision });
        self.apply_in_pieces(change, logged.timestamp).inspect_err(tell_why_stopped)?;
        // For the commit itself others wait.
        drop(gives_way);
        let (documents, bytes) = change.count_changes();
        let effects = vec![Effect { collection: access.collection.clone(), documents, bytes }];
        entry.clear();
        let commit = entry.finish_commit(&parts, None, self.clock.wall_millis());
        self.reveal(decided, commit, effects, || {
            if let Some(statement) = statement {
                self.statement_executed(statement, documents, first);
            }
        })
    }

    /// The record comes first in the batch.
    fn apply_in_pieces(&self, change: &DocumentChange, timestamp: Timestamp) -> Result<()> {
        let (mut budget, mut piece) = (self.work_budget(), Batch::new());
        let mut changes = change.batch().changes();
        let record = changes.next();
        for entry in changes.chain(record) {
            piece.add(entry);
            if piece.len() < PIECE_ENTRIES {
                continue;
            }
            self.apply_piece(&mut piece, timestamp, &mut budget)?;
        }
        self.apply_piece(&mut piece, timestamp, &mut budget)
    }

    fn apply_piece(&self, piece: &mut Batch, timestamp: Timestamp, budget: &mut WorkBudget) -> Result<()> {
        self.pace();
        self.give_way(budget);
        self.options.interleaving.at(Moment::LargeCommit);
        self.engine.apply(piece, timestamp)?;
        piece.clear();
        Ok(())
    }
}
