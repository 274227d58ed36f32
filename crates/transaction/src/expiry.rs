//! The TTL pass: deletes documents that have expired, a few at a time.
//!
//! Called once a minute by the background thread, and by the simulator. It reads TTL indexes for records whose date has passed and deletes each like
//! any other writer: paced, under the record's lock, after looking again. Clients' operations go first (`giving_way`), so that a day on which everything expires at
//! once is one on which the others have a processor too. An index whose collection is damaged is set aside (`set_aside_work`): the others' documents expire all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bson::RawDocument;
use collection::{Collection, ExpiredRange, Index, RecordId, Validation};

use crate::change::{ChangeOutcome, Decision};
use crate::error::{Result, TransactionError};
use crate::set_aside_work::{SetAsideWork, WorkOf};
use crate::store::Store;
use crate::waiting::Waiting;
use crate::write_context::WriteContext;

/// Records found before they are deleted: how long a snapshot is held.
const BATCH_RECORDS: usize = 1_000;

/// What is set aside when it fails.
const EXPIRY: &str = "deleting expired documents";

/// What all passes since the start did.
#[derive(Debug, Default)]
pub(crate) struct ExpiryProgress {
    passes: AtomicU64,
    deleted: AtomicU64,
    /// Everything that had expired by this time of the wall clock is deleted; 0 before the first pass has ended.
    done_until_millis: AtomicI64,
    interval_millis: AtomicU64,
    is_off: AtomicBool,
}

impl ExpiryProgress {
    pub(crate) fn new(interval: Duration) -> ExpiryProgress {
        let progress = ExpiryProgress::default();
        progress.interval_millis.store(interval.as_millis() as u64, Ordering::Relaxed);
        progress
    }
}

/// Figures of expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryStatistics {
    /// Passes that ended.
    pub passes: u64,
    /// Documents deleted.
    pub deleted: u64,
    /// How far expiry is behind the clock: the age of the last pass that has ended, from its begin. `None` before the first.
    pub lag: Option<Duration>,
}

/// What a pass did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TtlPass {
    /// TTL indexes looked at.
    pub indexes: u64,
    /// Documents deleted.
    pub deleted: u64,
}

impl Store {
    /// How often expired documents are looked for.
    pub fn ttl_interval(&self) -> Duration {
        Duration::from_millis(self.expiry.interval_millis.load(Ordering::Relaxed))
    }

    /// Sets it. The thread that looks for them notices at once.
    pub fn set_ttl_interval(&self, interval: Duration) {
        self.expiry.interval_millis.store(interval.as_millis() as u64, Ordering::Relaxed);
        self.stopping.wake();
    }

    /// Whether expired documents are deleted.
    pub fn expires_documents(&self) -> bool {
        !self.expiry.is_off.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_expires_documents(&self, is_on: bool) {
        self.expiry.is_off.store(!is_on, Ordering::Relaxed);
    }

    /// Deletes everything that has expired by now.
    ///
    /// # Errors
    /// `Engine`, `Oplog`, `Stopped`. Collections and indexes dropped meanwhile are no error.
    pub fn ttl_pass(&self, context: &mut WriteContext) -> Result<TtlPass> {
        let now_millis = self.clock.wall_millis();
        let mut pass = TtlPass::default();
        for collection in self.catalog.all_collections() {
            if collection.aside().is_some() {
                continue;
            }
            let indexes: Vec<Arc<Index>> = collection.indexes().ready().cloned().collect();
            for index in indexes {
                let Some(mut range) = ExpiredRange::of(&collection, &index, now_millis) else { continue };
                if self.is_set_aside(EXPIRY, WorkOf::Index(index.identity())) {
                    continue;
                }
                pass.indexes += 1;
                match self.delete_expired(context, &collection, &index, &mut range, &mut pass) {
                    // Unless it was in the midst of a commit: then nothing can be written any more.
                    Err(error) if error.is_damage() && self.check_writable().is_ok() => {
                        self.set_expiry_aside(&collection, &index, &error);
                    }
                    Err(TransactionError::Collection(error)) => {
                        tracing::debug!(%error, index = index.name(), "a TTL pass ended early");
                    }
                    other => other?,
                }
            }
        }
        if self.is_stopping() {
            return Ok(pass);
        }
        self.expiry.passes.fetch_add(1, Ordering::Relaxed);
        self.expiry.done_until_millis.store(now_millis, Ordering::Relaxed);
        Ok(pass)
    }

    /// Figures of expiry since the start.
    pub fn expiry_statistics(&self) -> ExpiryStatistics {
        let done_until = self.expiry.done_until_millis.load(Ordering::Relaxed);
        let behind = u64::try_from(self.clock.wall_millis().saturating_sub(done_until)).unwrap_or(0);
        ExpiryStatistics {
            passes: self.expiry.passes.load(Ordering::Relaxed),
            deleted: self.expiry.deleted.load(Ordering::Relaxed),
            lag: (done_until != 0).then(|| Duration::from_millis(behind)),
        }
    }

    fn set_expiry_aside(&self, collection: &Collection, index: &Index, error: &TransactionError) {
        let work = SetAsideWork {
            what: EXPIRY,
            namespace: collection.namespace().as_str().to_owned(),
            index: index.name().to_owned(),
            reason: error.to_string(),
            advice: "documents of this collection do not expire until the server is started again or the index is made anew. `validate` says what is damaged, \
                     `plimsoll repair` saves what can be read",
        };
        self.set_aside(Some(WorkOf::Index(index.identity())), work);
    }

    fn delete_expired(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        index: &Arc<Index>,
        range: &mut ExpiredRange,
        pass: &mut TtlPass,
    ) -> Result<()> {
        let mut start = range.start.clone();
        let mut budget = self.work_budget();
        loop {
            let (found, next_start) = self.find_expired(collection, index, &start, range)?;
            for record_id in found {
                if self.is_stopping() {
                    return Ok(());
                }
                self.give_way(&mut budget);
                if self.delete_if_expired(context, collection, index, range, record_id)? {
                    pass.deleted += 1;
                    self.expiry.deleted.fetch_add(1, Ordering::Relaxed);
                }
            }
            match next_start {
                Some(next) => start = next,
                None => return Ok(()),
            }
        }
    }

    /// One batch of records, and where the next begins if there is one.
    fn find_expired(
        &self,
        collection: &Arc<Collection>,
        index: &Arc<Index>,
        start: &[u8],
        range: &ExpiredRange,
    ) -> Result<(Vec<RecordId>, Option<Vec<u8>>)> {
        let mut cursor = self.newest_view().index_cursor(collection, index);
        let mut found = Vec::new();
        cursor.seek(start)?;
        while cursor.next()? && cursor.key() < range.end.as_slice() {
            found.push(cursor.record_id());
            // A batch ends between two keys, where the next can begin.
            if found.len() >= BATCH_RECORDS && cursor.key() != start {
                return Ok((found, Some(cursor.key().to_vec())));
            }
        }
        Ok((found, None))
    }

    fn delete_if_expired(
        &self,
        context: &mut WriteContext,
        collection: &Arc<Collection>,
        index: &Arc<Index>,
        range: &mut ExpiredRange,
        record_id: RecordId,
    ) -> Result<bool> {
        let decide = |document: &RawDocument, _: &mut Vec<u8>| -> Result<Decision> {
            let indexes = collection.indexes();
            let position = indexes.position(index.tree());
            let has_expired = position.is_some_and(|position| range.contains(&indexes, position, document));
            Ok(if has_expired { Decision::Delete } else { Decision::Keep })
        };
        context.set_waiting(Waiting::Never);
        match self.change_document(context, collection, record_id, Validation::Bypass, decide) {
            // A transaction has it: the next pass sees what became of it.
            Err(TransactionError::WriteConflict) => Ok(false),
            outcome => Ok(matches!(outcome?, ChangeOutcome::Deleted(_))),
        }
    }
}
