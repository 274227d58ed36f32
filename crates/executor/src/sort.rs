//! SORT: all documents of the input in the query's order, in bounded memory.
//!
//! With a limit only so many (at most twice) are kept. What exceeds the stage's share of memory is written out as sorted
//! runs that are merged at the end, if the query may use the disk. Where index keys are wanted instead of documents, it keeps those.

use bson::RawDocument;
use collection::RecordId;
use document::collation;
use planner::DiskUse;
use platform::{OperationMemory, RunMerge};
use query_language::expression::Metadata;
use query_language::expression::sort_pattern::SortPattern;
use transaction::ReadView;

use crate::error::{ExecutorError, Result};
use crate::projection::metadata;
use crate::return_key;
use crate::sort_entries::SortEntries;
use crate::sort_key;
use crate::sorted_runs::{Entry, EntryFormat, EntryRef, SortedRuns};
use crate::stage::{BoxedStage, Context, KeyEntry, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

/// Room for more than a small limit, so that trimming is rare.
const KEPT_MIN: usize = 1024;
pub(crate) struct Sort {
    input: BoxedStage,
    pattern: SortPattern,
    limit: Option<usize>,
    state: State,
    entries: SortEntries,
    /// That of the document that is looked at.
    key: Vec<u8>,
    /// The key that later documents must be below, once as many as the limit are known.
    threshold: Option<Vec<u8>>,
    memory: OperationMemory,
    runs: Option<SortedRuns>,
    statistics: StageStatistics,
}

enum State {
    Reading,
    /// Yielding what is in memory; on the entry before this one.
    Entries(usize),
    /// Yielding what is in files.
    Merging {
        merge: RunMerge<EntryFormat>,
        current: Option<Entry>,
    },
}

impl Sort {
    pub(crate) fn new(input: BoxedStage, pattern: SortPattern, limit: Option<u64>, memory: OperationMemory) -> Sort {
        Sort {
            input,
            pattern,
            limit: limit.and_then(|limit| usize::try_from(limit).ok()),
            state: State::Reading,
            entries: SortEntries::default(),
            key: Vec::new(),
            threshold: None,
            memory,
            runs: None,
            statistics: StageStatistics::default(),
        }
    }

    fn read(&mut self, context: &Context<'_>) -> Result<Step> {
        let reads_metadata = context.query.metadata().is_any();
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            match self.input.next(context)? {
                Step::Advanced => self.take(context, reads_metadata)?,
                Step::Working => return Ok(Step::Working),
                Step::End => {
                    self.end_reading()?;
                    return Ok(Step::Working);
                }
            }
        }
        Ok(Step::Working)
    }

    fn end_reading(&mut self) -> Result<()> {
        self.arrange()?;
        self.state = match self.runs.take() {
            None => State::Entries(0),
            Some(mut runs) => {
                runs.push(&self.entries)?;
                self.forget_entries();
                State::Merging { merge: runs.merge()?, current: None }
            }
        };
        Ok(())
    }

    /// Keeps the document that the input is on, if it can be among those wanted.
    fn take(&mut self, context: &Context<'_>, reads_metadata: bool) -> Result<()> {
        let record_id = self.input.record_id();
        let metadata = match reads_metadata {
            true => metadata(context.query, &*self.input),
            false => Metadata::default(),
        };
        let document = self.input.document()?;
        let subject = sort_key::Subject { document, metadata: &metadata };
        let collator = collation::in_force();
        let threshold = self.threshold.as_deref();
        if !sort_key::write_below(&self.pattern, &subject, collator.as_deref(), threshold, &mut self.key)? {
            return Ok(());
        }
        if context.query.return_key || !metadata.is_empty() {
            let document = match context.query.return_key {
                true => return_key::key_document(&mut *self.input)?.into_bytes(),
                false => {
                    query_language::before_allocating_if_large(document.as_bytes().len())?;
                    document.as_bytes().to_vec()
                }
            };
            let metadata = if metadata.is_empty() { Vec::new() } else { metadata.to_document().into_bytes() };
            return self.keep(context, record_id, Some(&document), &metadata);
        }
        self.keep(context, record_id, None, &[])
    }

    /// Keeps a document under the key; `None`: that of the input.
    fn keep(
        &mut self,
        context: &Context<'_>,
        record_id: Option<RecordId>,
        document: Option<&[u8]>,
        metadata: &[u8],
    ) -> Result<()> {
        let length = match document {
            Some(document) => document.len(),
            None => self.input.document()?.as_bytes().len(),
        };
        self.make_room(context, self.key.len() + length + metadata.len())?;
        let document = match document {
            Some(document) => document,
            None => self.input.document()?.as_bytes(),
        };
        self.entries.push(&EntryRef { key: &self.key, document, record_id, metadata })?;
        self.statistics.sorted_bytes += (self.key.len() + length) as u64;
        if self.limit.is_some_and(|limit| self.entries.len() >= limit.saturating_mul(2).max(KEPT_MIN)) {
            self.trim()?;
        }
        Ok(())
    }

    /// Sees to memory for an entry of so many bytes: what there is is trimmed, or written out.
    fn make_room(&mut self, context: &Context<'_>, bytes: usize) -> Result<()> {
        if self.memory.holds(self.entries.bytes_with(bytes) as u64) || self.entries.len() == 0 {
            return Ok(());
        }
        self.trim()?;
        if self.memory.holds(self.entries.bytes_with(bytes) as u64) {
            return Ok(());
        }
        if context.query.disk_use == DiskUse::Forbidden {
            let limit = self.memory.share();
            let problem = "but did not opt in to external sorting.";
            return Err(ExecutorError::MemoryLimit(format!("Sort exceeded memory limit of {limit} bytes, {problem}")));
        }
        self.arrange()?;
        let limit = self.limit;
        let runs = self.runs.get_or_insert_with(|| SortedRuns::new(context.memory.temporary(), limit));
        runs.push(&self.entries)?;
        self.statistics.spilled_bytes = runs.bytes();
        self.statistics.spills += 1;
        self.forget_entries();
        Ok(())
    }

    /// In order, without what the limit leaves out.
    fn arrange(&mut self) -> Result<()> {
        self.entries.arrange(self.limit.unwrap_or(usize::MAX))
    }

    /// Drops what the limit leaves out.
    fn trim(&mut self) -> Result<()> {
        let Some(limit) = self.limit else { return Ok(()) };
        if self.entries.len() <= limit {
            return Ok(());
        }
        self.arrange()?;
        let last = self.entries.len().checked_sub(1).and_then(|last| self.entries.get(last));
        self.threshold = last.map(|entry| entry.key.to_vec());
        Ok(())
    }

    fn forget_entries(&mut self) {
        self.entries = SortEntries::default();
        self.memory.shrink(0);
    }

    fn current(&self) -> Option<EntryRef<'_>> {
        match &self.state {
            State::Entries(next) => self.entries.get(next.checked_sub(1)?),
            State::Merging { current, .. } => current.as_ref().map(Entry::lent),
            State::Reading => None,
        }
    }
}

impl PlanStage for Sort {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        let is_found = match &mut self.state {
            State::Reading => return self.read(context),
            State::Entries(next) => {
                let is_found = *next < self.entries.len();
                *next += usize::from(is_found);
                is_found
            }
            State::Merging { merge, current } => {
                let is_found = merge.next(current.get_or_insert_default())?;
                *current = current.take().filter(|_| is_found);
                is_found
            }
        };
        self.statistics.works += 1;
        if !is_found {
            self.statistics.is_at_end = true;
            return Ok(Step::End);
        }
        self.statistics.advanced += 1;
        Ok(Step::Advanced)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        let bytes = self.current().map_or(&[][..], |entry| entry.document);
        Ok(RawDocument::from_bytes(bytes)?)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.current()?.record_id
    }

    fn metadata(&self) -> Metadata {
        let kept = self.current().and_then(|entry| RawDocument::from_bytes(entry.metadata).ok());
        kept.map_or_else(Metadata::default, Metadata::of_document)
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        match self.state {
            State::Reading => self.input.reseat(view),
            State::Entries(_) | State::Merging { .. } => Ok(()),
        }
    }

    fn can_reseat(&self) -> bool {
        // Half a sort from one view and half from another would be of no point in time.
        match self.state {
            State::Reading => self.statistics.works == 0 && self.input.can_reseat(),
            State::Entries(_) | State::Merging { .. } => true,
        }
    }

    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        // A sorted document is on no entry.
        Ok(None)
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }

    fn input(&self) -> Option<&dyn PlanStage> {
        Some(&*self.input)
    }

    fn input_mut(&mut self) -> Option<&mut dyn PlanStage> {
        Some(&mut *self.input)
    }
}
