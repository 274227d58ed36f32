//! IXSCAN: entries of an index within byte ranges, in either direction.
//!
//! Behind the ranges stand checks of later fields; after a few failures in a row the scan seeks to the next key that can pass.
//! A record with several entries in a multikey index is yielded once. A scan for distinct values passes over what begins as
//! the entry that it has yielded last, and seeks in the same way.

use std::sync::Arc;

use collection::RecordId;
use document::CanonicalType;
use index_key::{KeyPattern, KeyReader, KeyValue, append_after_prefix};
use planner::{FieldCheck, IndexScanPlan, Nulls, ScanDirection, ScanKind};
use transaction::{Counted, IndexCursor, ReadView};

use crate::error::Result;
use crate::key_filter::KeyFilter;
use crate::seen_records::SeenRecords;
use crate::stage::{Context, KeyEntry, PlanStage, Step, WORKS_PER_STEP};
use crate::statistics::StageStatistics;

pub(crate) struct IndexScan {
    plan: Arc<IndexScanPlan>,
    cursor: IndexCursor,
    /// Which range is being read, counted in the direction of the scan.
    range: usize,
    is_positioned: bool,
    key_filter: Option<KeyFilter>,
    /// Records yielded from a multikey index.
    seen: Option<SeenRecords>,
    /// What an entry was yielded for, where one of each is wanted.
    taken: Option<Taken>,
    /// Checks that failed in a row, and entries like the one that was taken.
    failed_checks: u32,
    seek_position: Vec<u8>,
    statistics: StageStatistics,
}

/// The values that an entry was yielded for.
struct Taken {
    /// The components of the fields that tell entries apart.
    components: Vec<u8>,
    /// Bytes of all but the last of them.
    leading_bytes: usize,
    /// Whether that one is null or undefined.
    is_nullish: bool,
}

/// Failures of checks in a row after which the scan seeks: stepping over a few keys costs less.
const FAILED_CHECKS_MAX: u32 = 4;

/// Ranges without an entry that are passed over at a time.
const EMPTY_RANGES_MAX: usize = 64;

/// Where a move has led.
enum Moved {
    /// To an entry within the ranges.
    Inside,
    /// To none yet: a point at which to ask whether to stop.
    Between,
    End,
}

/// What a key's look at its checks says.
enum Checked {
    Passed,
    Failed,
    /// `seek_position` is where the next key that can pass is.
    Seek,
}

impl IndexScan {
    pub(crate) fn new(context: &Context<'_>, plan: Arc<IndexScanPlan>) -> IndexScan {
        let key_filter = plan.key_filter.clone().map(|node| KeyFilter::new(node, plan.pattern()));
        IndexScan {
            cursor: context.view.index_cursor(context.collection, &plan.index),
            range: 0,
            is_positioned: false,
            key_filter,
            seen: plan.is_multikey().then(|| SeenRecords::new(context.memory.begin())),
            taken: None,
            failed_checks: 0,
            seek_position: Vec::new(),
            statistics: StageStatistics::default(),
            plan,
        }
    }

    /// Moves to the next entry within the ranges, in the direction of the scan.
    #[inline]
    fn step(&mut self) -> Result<Moved> {
        let ranges = &self.plan.ranges.ranges;
        for _ in 0..EMPTY_RANGES_MAX {
            let ordinal = match self.plan.direction {
                ScanDirection::Forward => Some(self.range),
                ScanDirection::Backward => ranges.len().checked_sub(self.range + 1),
            };
            let Some(range) = ordinal.and_then(|ordinal| ranges.get(ordinal)) else { return Ok(Moved::End) };
            if !self.is_positioned {
                self.statistics.seeks += 1;
                match self.plan.direction {
                    ScanDirection::Forward => self.cursor.seek_range(&range.low, &range.high)?,
                    ScanDirection::Backward => self.cursor.seek_range_before(&range.low, &range.high)?,
                }
                self.is_positioned = true;
            }
            let moved = match self.plan.direction {
                ScanDirection::Forward => self.cursor.next()?,
                ScanDirection::Backward => self.cursor.previous()?,
            };
            if !moved {
                self.range = ranges.len();
                return Ok(Moved::End);
            }
            self.statistics.keys_examined += 1;
            let key = self.cursor.key();
            let is_inside = match self.plan.direction {
                ScanDirection::Forward => key < range.high.as_slice(),
                ScanDirection::Backward => key >= range.low.as_slice(),
            };
            if is_inside {
                return Ok(Moved::Inside);
            }
            self.range += 1;
            self.is_positioned = false;
            self.statistics.keys_examined -= u64::from(self.range < ranges.len());
        }
        Ok(Moved::Between)
    }

    fn check(&mut self) -> Checked {
        let key = self.cursor.key();
        let mut reader = KeyReader::new(self.plan.pattern(), key);
        let mut position = 0;
        for check in &self.plan.ranges.checks {
            while position < check.position {
                reader.skip_component();
                position += 1;
            }
            let start = key.len() - reader.rest().len();
            reader.skip_component();
            position += 1;
            let component = key.get(start..key.len() - reader.rest().len()).unwrap_or_default();
            if is_inside(check, component) {
                continue;
            }
            self.failed_checks += 1;
            if self.failed_checks < FAILED_CHECKS_MAX {
                return Checked::Failed;
            }
            self.seek_position.clear();
            self.seek_position.extend_from_slice(key.get(..start).unwrap_or_default());
            append_next(&mut self.seek_position, check, component, self.plan.direction);
            return Checked::Seek;
        }
        self.failed_checks = 0;
        Checked::Passed
    }

    /// Whether the entry that the cursor is on is to be yielded.
    fn is_wanted(&mut self) -> Result<bool> {
        let told_apart = match self.plan.kind {
            ScanKind::Distinct { fields, nulls } => Some((fields, nulls)),
            ScanKind::Entries | ScanKind::Count => None,
        };
        if let Some((fields, nulls)) = told_apart
            && self.is_like_taken(fields, nulls)?
        {
            return Ok(false);
        }
        let is_wanted = self.passes()?;
        if let (true, Some((fields, nulls))) = (is_wanted, told_apart) {
            self.take(fields, nulls);
        }
        Ok(is_wanted)
    }

    /// Whether the entry has the values that one was yielded for. After a few of these the scan seeks behind them.
    fn is_like_taken(&mut self, fields: usize, nulls: Nulls) -> Result<bool> {
        let Some(taken) = &self.taken else { return Ok(false) };
        let key = self.cursor.key();
        let is_like = key.starts_with(&taken.components) || {
            let is_same_before = key.starts_with(taken.components.get(..taken.leading_bytes).unwrap_or_default());
            nulls == Nulls::One && taken.is_nullish && is_same_before && is_nullish(self.plan.pattern(), key, fields)
        };
        if !is_like {
            return Ok(false);
        }
        self.failed_checks += 1;
        if self.failed_checks >= FAILED_CHECKS_MAX && key.starts_with(&taken.components) {
            self.failed_checks = 0;
            self.statistics.seeks += 1;
            self.seek_position.clear();
            self.seek_position.extend_from_slice(&taken.components);
            match self.plan.direction {
                ScanDirection::Forward => {
                    append_after_prefix(&mut self.seek_position);
                    self.cursor.seek(&self.seek_position)?;
                }
                ScanDirection::Backward => self.cursor.seek_before(&self.seek_position)?,
            }
        }
        Ok(true)
    }

    /// Notes what the entry is yielded for.
    fn take(&mut self, fields: usize, nulls: Nulls) {
        let (pattern, key) = (self.plan.pattern(), self.cursor.key());
        let mut reader = KeyReader::new(pattern, key);
        for _ in 1..fields {
            reader.skip_component();
        }
        let leading_bytes = key.len() - reader.rest().len();
        let is_nullish = is_null_or_undefined(reader.clone().next());
        reader.skip_component();
        if is_nullish && nulls == Nulls::Each {
            self.taken = None;
            return;
        }
        let mut components = self.taken.take().map(|taken| taken.components).unwrap_or_default();
        components.clear();
        components.extend_from_slice(key.get(..key.len() - reader.rest().len()).unwrap_or_default());
        self.failed_checks = 0;
        self.taken = Some(Taken { components, leading_bytes, is_nullish });
    }

    /// Whether the entry fulfils what the ranges do not say, and is the first of its record.
    fn passes(&mut self) -> Result<bool> {
        if !self.plan.ranges.checks.is_empty() {
            match self.check() {
                Checked::Passed => {}
                Checked::Failed => return Ok(false),
                Checked::Seek => {
                    self.statistics.seeks += 1;
                    match self.plan.direction {
                        ScanDirection::Forward => self.cursor.seek(&self.seek_position)?,
                        ScanDirection::Backward => self.cursor.seek_before(&self.seek_position)?,
                    }
                    return Ok(false);
                }
            }
        }
        if let Some(filter) = &mut self.key_filter
            && !filter.accepts(self.plan.pattern(), self.cursor.key())?
        {
            return Ok(false);
        }
        if let Some(seen) = &mut self.seen
            && !seen.insert(self.cursor.record_id())?
        {
            self.statistics.duplicates_dropped += 1;
            return Ok(false);
        }
        Ok(true)
    }
}

/// Whether the last of the first fields of a key is null or undefined.
fn is_nullish(pattern: &KeyPattern, key: &[u8], fields: usize) -> bool {
    let mut reader = KeyReader::new(pattern, key);
    for _ in 1..fields {
        reader.skip_component();
    }
    is_null_or_undefined(reader.next())
}

fn is_null_or_undefined(value: Option<KeyValue<'_>>) -> bool {
    matches!(value, Some(KeyValue::Null | KeyValue::Other(CanonicalType::Undefined)))
}

/// How many ranges of a check begin at or before a component. There may be as many as a message has room for; they are disjoint and sorted.
fn begun(check: &FieldCheck, component: &[u8]) -> usize {
    check.ranges.partition_point(|range| *range.low <= *component)
}

fn is_inside(check: &FieldCheck, component: &[u8]) -> bool {
    let last = begun(check, component).checked_sub(1).and_then(|last| check.ranges.get(last));
    last.is_some_and(|range| *component < *range.high)
}

/// Appends where, after a component that is in none of a check's ranges, the next one begins.
fn append_next(position: &mut Vec<u8>, check: &FieldCheck, component: &[u8], direction: ScanDirection) {
    let begun = begun(check, component);
    match direction {
        ScanDirection::Forward => match check.ranges.get(begun) {
            Some(range) => position.extend_from_slice(&range.low),
            None => append_after_prefix(position),
        },
        ScanDirection::Backward => {
            if let Some(range) = begun.checked_sub(1).and_then(|last| check.ranges.get(last)) {
                position.extend_from_slice(&range.high);
            }
        }
    }
}

impl PlanStage for IndexScan {
    fn next(&mut self, _: &Context<'_>) -> Result<Step> {
        for _ in 0..WORKS_PER_STEP {
            self.statistics.works += 1;
            match self.step()? {
                Moved::Inside => {}
                Moved::Between => return Ok(Step::Working),
                Moved::End => {
                    self.statistics.is_at_end = true;
                    return Ok(Step::End);
                }
            }
            if self.is_wanted()? {
                self.statistics.advanced += 1;
                return Ok(Step::Advanced);
            }
        }
        Ok(Step::Working)
    }

    fn count(&mut self, _: &Context<'_>) -> Result<Option<Counted>> {
        if !matches!(self.plan.kind, ScanKind::Entries | ScanKind::Count) {
            return Ok(None);
        }
        let looks_at_keys = !self.plan.ranges.checks.is_empty() || self.key_filter.is_some() || self.seen.is_some();
        if looks_at_keys || self.plan.direction != ScanDirection::Forward {
            return Ok(None);
        }
        let Some(range) = self.plan.ranges.ranges.get(self.range) else {
            self.statistics.is_at_end = true;
            return Ok(Some(Counted { entries: 0, is_end: true }));
        };
        if !self.is_positioned {
            self.statistics.seeks += 1;
            self.cursor.seek_range(&range.low, &range.high)?;
            self.is_positioned = true;
        }
        let Some(Counted { entries, is_end }) = self.cursor.count_below(&range.high)? else { return Ok(None) };
        self.statistics.works += 1;
        self.statistics.keys_examined += entries;
        self.statistics.advanced += entries;
        if is_end {
            self.range += 1;
            self.is_positioned = false;
        }
        Ok(Some(Counted { entries, is_end: false }))
    }

    fn record_id(&self) -> Option<RecordId> {
        Some(self.cursor.record_id())
    }

    fn key(&mut self) -> Result<Option<KeyEntry<'_>>> {
        // The cursor lends either, so the type bits come with a copy of the key.
        self.seek_position.clear();
        self.seek_position.extend_from_slice(self.cursor.key());
        let type_bits = self.cursor.type_bits()?;
        Ok(Some(KeyEntry { pattern: self.plan.pattern(), key: &self.seek_position, type_bits }))
    }

    fn reseat(&mut self, view: &ReadView) -> Result<()> {
        match self.plan.direction {
            ScanDirection::Forward => self.cursor.reseat(view)?,
            ScanDirection::Backward => self.cursor.reseat_backward(view)?,
        }
        Ok(())
    }

    fn can_reseat(&self) -> bool {
        !self.plan.is_outdated()
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }
}
