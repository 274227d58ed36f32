//! The commit of a large transaction: its changes go into the oplog and into the trees without holding anybody else up.
//!
//! Called by `commit`. Three kinds of entries are logged:
//!
//! 1. *parts*, with the changes. They mean nothing by themselves. The oplog's buffer is left to others: no more than a few parts are on their way.
//! 2. the *decision*, which names the parts. From here on the transaction has happened, and pages may have it. It is concealed (`commit_order`):
//!    commits after it become visible while it is being applied, piece by piece, paced like any other writer.
//! 3. the *commit*, which names the parts again, once all is applied. With it the transaction becomes visible, at this entry's timestamp; for those who
//!    follow the oplog the decision is nothing, and the changes are here.
//!
//! Crashes: without a decision nothing has happened. A decision without its commit is completed by recovery, which applies the parts and logs the
//! commit. Until the commit is visible, checkpoints keep the oplog from the first part on, and recovery begins at the decision at the latest.
//!
//! What it changes is its own (records, unique keys) until the commit is visible. Changes of the definitions of its collections wait for it without
//! holding anything (`lock_definitions`), so that nobody else waits for them.

use std::sync::Arc;
use std::time::Duration;

use collection::{Collection, DocumentChange, LoggedEntry, Telling, TransactionEncoder, UpdateStyle, WriteAccess};
use oplog::{Appended, Oplog, OplogPosition};
use parking_lot::{Condvar, Mutex, MutexGuard};
use platform::LongWork;
use storage_engine::Timestamp;

use super::Transaction;
use super::commit::telling_of;
use super::progress::Progress;
use crate::change_order::Listed;
use crate::commit_order::{CommitInfo, Decided, Effect, tell_why_stopped};
use crate::error::{Result, TransactionError};
use crate::interleaving::Moment;
use crate::sessions::Session;
use crate::store::Store;

/// Bytes of operations after which a part is logged, at most; less where transactions are large earlier.
const PART_BYTES_MAX: usize = 512 << 10;
/// Parts that may be on their way to the disk.
const PARTS_ON_THE_WAY: usize = 4;
/// How long a commit waits before it tries again to log that it has been applied, when the disk is full.
const FULL_DISK_PAUSE: Duration = Duration::from_millis(100);
/// And how long it tries in all. Then all writes end; recovery will complete it.
const FULL_DISK_PATIENCE: Duration = Duration::from_secs(600);

/// The large commits that are under way.
#[derive(Default)]
pub(crate) struct LargeCommits {
    /// The collections that they are writing into, by ident, once for each.
    writing: Mutex<Vec<u64>>,
    one_ended: Condvar,
}

/// A large commit, until it is dropped.
pub(crate) struct LargeCommit<'a> {
    commits: &'a LargeCommits,
    idents: Vec<u64>,
}

impl Drop for LargeCommit<'_> {
    fn drop(&mut self) {
        let mut writing = self.commits.writing.lock();
        for ident in &self.idents {
            if let Some(place) = writing.iter().position(|known| known == ident) {
                writing.swap_remove(place);
            }
        }
        self.commits.one_ended.notify_all();
    }
}

/// The changes of a transaction on their way to the oplog.
#[derive(Default)]
pub(super) struct Logging {
    pub(super) entry: TransactionEncoder,
    parts: Vec<Appended>,
}

impl Logging {
    /// Where the parts are that are logged.
    pub(super) fn positions(&self) -> Vec<OplogPosition> {
        self.parts.iter().map(|part| part.position).collect()
    }
}

impl Store {
    /// Locks definitions for a change of some collections, once no large commit writes into them. `find` is called under the lock.
    pub(crate) fn lock_definitions(&self, find: impl Fn() -> Vec<Arc<Collection>>) -> MutexGuard<'_, ()> {
        loop {
            let definitions = self.definition_lock.lock();
            let mut writing = self.large_commits.writing.lock();
            if writing.is_empty() || !find().iter().any(|collection| writing.contains(&collection.ident())) {
                return definitions;
            }
            drop(definitions);
            self.large_commits.one_ended.wait(&mut writing);
        }
    }

    /// Announces a large commit. No gate is held yet.
    pub(super) fn begin_large_commit(&self, idents: impl IntoIterator<Item = u64>) -> LargeCommit<'_> {
        // A change of definitions has either got its gates by now, or sees this.
        let _definitions = self.definition_lock.lock();
        let idents: Vec<u64> = idents.into_iter().collect();
        self.large_commits.writing.lock().extend_from_slice(&idents);
        LargeCommit { commits: &self.large_commits, idents }
    }

    /// `None`: there was nothing to be committed.
    pub(super) fn commit_large(
        &self,
        transaction: &Transaction,
        accesses: &[WriteAccess<'_>],
        session: &Arc<Session>,
        txn_number: i64,
    ) -> Result<Option<CommitInfo>> {
        let gives_way = LongWork::begin(&self.foreground);
        // What is committed was read and checked. Nobody reads in the transaction any more, and others' old versions must not be kept for it.
        transaction.snapshot.end();
        let hold = self.commits.hold();
        let mut logging = Logging::default();
        let effects = self.log_changes(transaction, accesses, &mut logging, &hold)?;
        if !logging.entry.is_empty() {
            self.log_part(&mut logging, &hold)?;
        }
        let parts = logging.positions();
        let Logging { mut entry, .. } = logging;
        let Some(first) = parts.first().copied() else { return Ok(None) };
        self.check_commits()?;
        let mut decided = self.commits.decide();
        let decision = entry.finish_decision(&parts, Some((session.id(), txn_number)), self.clock.wall_millis());
        let logged =
            self.oplog.append(&mut |_, bytes| bytes.extend_from_slice(decision), &mut |timestamp, position| {
                decided.register(timestamp, position, first);
            })?;
        self.options.interleaving.at(Moment::Logged { timestamp: logged.timestamp, entry: decision });
        for access in accesses {
            let applied = self.apply_changes(transaction, access, logged.timestamp);
            applied.or_else(|error| self.pass_over_damage(access.collection, error)).inspect_err(tell_why_stopped)?;
        }
        // For the commit itself others wait.
        drop(gives_way);
        entry.clear();
        self.reveal(
            decided,
            entry.finish_commit(&parts, Some((session.id(), txn_number)), self.clock.wall_millis()),
            effects,
            || {
                self.sessions.record_commit(session, txn_number);
            },
        )
        .map(Some)
    }

    /// Logs the commit of a transaction that is applied.
    pub(super) fn reveal(
        &self,
        decided: Decided<'_>,
        entry: &[u8],
        effects: Vec<Effect>,
        before_visible: impl FnOnce(),
    ) -> Result<CommitInfo> {
        let appended;
        self.check_commits()?;
        let mut in_flight = self.commits.prepare();
        let give_up = self.clock.monotonic() + FULL_DISK_PATIENCE;
        loop {
            let append =
                self.oplog.append(&mut |_, bytes| bytes.extend_from_slice(entry), &mut |timestamp, position| {
                    decided.reveal_at(timestamp);
                    in_flight.register(timestamp, position);
                });
            match append {
                // It has happened and cannot be taken back; the decision is in the oplog. Others see the full disk for themselves.
                Err(oplog::OplogError::DiskFull) if !self.is_stopping() && self.clock.monotonic() < give_up => {
                    self.options.interleaving.at(Moment::LargeCommitOnFullDisk);
                    self.clock.sleep(FULL_DISK_PAUSE);
                }
                append => {
                    appended = append.map_err(TransactionError::from).inspect_err(tell_why_stopped)?;
                    break;
                }
            }
        }
        self.options.interleaving.at(Moment::Logged { timestamp: appended.timestamp, entry });
        before_visible();
        self.note_set_aside();
        decided.complete(in_flight, appended.end, effects);
        Ok(CommitInfo { timestamp: appended.timestamp, end: appended.end })
    }

    /// Prepares every change and logs it, in the order in which they were made.
    fn log_changes(
        &self,
        transaction: &Transaction,
        accesses: &[WriteAccess<'_>],
        logging: &mut Logging,
        hold: &crate::commit_order::Hold<'_>,
    ) -> Result<Vec<Effect>> {
        let mut effects: Vec<Effect> = accesses.iter().map(|access| Effect::of(access.collection)).collect();
        let part_bytes = PART_BYTES_MAX.min(self.options.large_transaction_bytes);
        let (mut change, mut old, mut new) = (DocumentChange::default(), Vec::new(), Vec::new());
        let (mut budget, mut in_order) = (self.work_budget(), transaction.writes.in_order());
        let mut progress = Progress::new(&*self.clock, "logged");
        while let Some(listed) = in_order.next()? {
            self.give_way(&mut budget);
            match listed {
                Listed::Step(operation) => logging.entry.push(LoggedEntry::whole(&operation), Telling::Step),
                Listed::Record(tree, record_id) => {
                    progress.count();
                    let number = accesses.iter().position(|access| access.collection.record_tree() == tree);
                    let Some((access, effect)) =
                        number.and_then(|number| Some((accesses.get(number)?, effects.get_mut(number)?)))
                    else {
                        continue;
                    };
                    let note = transaction.writes.note(tree, record_id)?;
                    let exists = transaction.writes.read(tree, &record_id.record_key(), &mut new)?;
                    let new = if exists == Some(true) { Some(new.as_slice()) } else { None };
                    let style = note.map_or(UpdateStyle::Fields, |note| note.style);
                    if self.prepare_net(access, record_id, new, style, (&mut change, &mut old))? {
                        self.note_multikey(access, &change)?;
                        effect.count(&change);
                        logging.entry.push(change.oplog_entry(), telling_of(note));
                    }
                }
            }
            if logging.entry.len() >= part_bytes {
                self.log_part(logging, hold)?;
            }
        }
        Ok(effects)
    }

    pub(super) fn log_part(&self, logging: &mut Logging, hold: &crate::commit_order::Hold<'_>) -> Result<()> {
        if let Some(place) = logging.parts.len().checked_sub(PARTS_ON_THE_WAY) {
            self.oplog.wait_durable(logging.parts[place].end)?;
        }
        self.check_commits()?;
        self.check_space_for_delete()?;
        let payload = logging.entry.finish_part(self.clock.wall_millis());
        let appended = self.oplog.append(&mut |_, bytes| bytes.extend_from_slice(payload), &mut |_, position| {
            hold.keep_from(position);
        })?;
        self.options.interleaving.at(Moment::Logged { timestamp: appended.timestamp, entry: payload });
        logging.parts.push(appended);
        logging.entry.clear();
        Ok(())
    }

    /// Prepares every change in a collection again and applies it.
    fn apply_changes(&self, transaction: &Transaction, access: &WriteAccess<'_>, timestamp: Timestamp) -> Result<()> {
        let (mut budget, mut progress) = (self.work_budget(), Progress::new(&*self.clock, "applied"));
        let applied = self.for_each_change(transaction, access, |change, _| {
            progress.count();
            self.pace();
            self.give_way(&mut budget);
            self.options.interleaving.at(Moment::LargeCommit);
            Ok(self.engine.apply(change.batch(), timestamp)?)
        });
        applied.map(drop)
    }
}
