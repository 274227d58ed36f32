//! Groups that do not fit into memory: written out as sorted runs of partial results, and put together again.

use std::cmp::Ordering;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use document::{array_elements, work};
use platform::RunMerge;
use query_language::expression::order::compare;
use query_language::{ErrorKind, before_allocating_if_large};

use super::Group;
use super::gatherer::GROUP_BYTES_MIN;
use super::grouping::document;
use super::table::{GroupTable, add_states};
use crate::context::{Memory, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::SpillReader;
use crate::spill::{self, Record, RecordFormat};

/// The order of groups in a run.
pub(super) fn compare_keys(left: &[RawBson], right: &[RawBson]) -> Ordering {
    compare(left.first().map(RawBson::as_raw_bson_ref), right.first().map(RawBson::as_raw_bson_ref))
}

/// Writes the groups out, sorted by key, as partial results.
pub(super) fn spill_groups(table: &mut GroupTable, run: &RunContext) -> Result<Box<dyn SpillReader>> {
    let mut writer = spill::begin_run(run, "$group")?;
    before_allocating_if_large(table.len() * 2 * size_of::<u32>())?;
    let mut groups: Vec<u32> = (0..table.len() as u32).collect();
    work::sort_by(&mut groups, |left, right| {
        compare(Some(table.key(*left as usize)), Some(table.key(*right as usize)))
    })?;
    let mut buffer = Vec::new();
    for group in groups.into_iter().map(|group| group as usize) {
        // Its state, the array of those, the body and the record.
        before_allocating_if_large(4 * bytes_of(table, group))?;
        let mut partials = RawArrayBuf::new();
        for state in table.states.iter().filter_map(|states| states.state(group)) {
            partials.push(state.to_partial()?);
        }
        let mut body = RawDocumentBuf::new();
        body.append(cstr!("partials"), partials);
        spill::append(writer.as_mut(), &mut buffer, &[RawBson::from(table.key(group))], &body)?;
    }
    table.clear();
    writer.finish()
}

fn bytes_of(table: &GroupTable, group: usize) -> usize {
    table.states.iter().filter_map(|states| states.state(group)).map(|state| state.memory_bytes()).sum()
}

/// The groups of several runs.
pub(super) struct MergedGroups {
    merge: RunMerge<RecordFormat>,
    /// The states of one group at a time.
    table: GroupTable,
    memory: Memory,
    run: RunContext,
}

impl MergedGroups {
    pub(super) fn new(merge: RunMerge<RecordFormat>, table: GroupTable, memory: Memory, run: RunContext) -> Self {
        Self { merge, table, memory, run }
    }

    /// The next group: the partial results of all records with its key, in the order of the runs.
    pub(super) fn next(&mut self, stage: &Group) -> Result<Option<RawDocumentBuf>> {
        let (mut first, mut record) = (Record::default(), Record::default());
        if !self.merge.next(&mut first)? {
            return Ok(None);
        }
        self.table.states.iter_mut().for_each(|states| states.restart());
        let key = first.key.first().map_or(RawBsonRef::Null, RawBson::as_raw_bson_ref);
        add_states(stage, &mut self.table.states, Some(key), self.run.variables())?;
        self.add_partials(&first.body)?;
        while self.merge.peek().is_some_and(|next| compare_keys(&next.key, &first.key).is_eq()) {
            self.merge.next(&mut record)?;
            self.add_partials(&record.body)?;
        }
        document(stage, key, &self.table, 0).map(Some)
    }

    fn add_partials(&mut self, body: &RawDocumentBuf) -> Result<()> {
        let partials = document::get_field(body, "partials").and_then(RawBsonRef::as_array);
        let partials = partials.into_iter().flat_map(array_elements);
        for (states, partial) in self.table.states.iter_mut().zip(partials) {
            if let Some(state) = states.state_mut(0) {
                state.merge(partial.value())?;
            }
        }
        self.check_size()
    }

    /// A group is put together in memory, so one that does not fit there cannot be.
    fn check_size(&mut self) -> Result<()> {
        let bytes = bytes_of(&self.table, 0);
        if bytes <= GROUP_BYTES_MIN || self.memory.holds(bytes) {
            return Ok(());
        }
        let message =
            format!("$group used too much memory and cannot spill to disk: one group alone takes {bytes} bytes");
        Err(AggregationError::new(ErrorKind::ExceededMemoryLimit, message))
    }
}
