//! Gathers documents, or rows, into groups; what exceeds the stage's memory is written out as sorted runs.

use std::ops::Range;
use std::sync::Arc;

use document::work;
use query_language::expression::EvaluationContext;
use query_language::rows::{COLUMNS_MAX, RowBatch, RowExpression, RowNames, RowValues, Slot};

use super::Group;
use super::grouping::{Found, Groups};
use super::merging::{self, MergedGroups};
use super::table::GroupTable;
use crate::context::{Memory, RunContext};
use crate::error::Result;
use crate::host::BoxSource;
use crate::row_stage::RowConsumer;
use crate::spill::Runs;

/// Room for so many groups more, below which more is made.
const FREE_MIN: usize = 256;
/// What one group may take in any case, and a part of one in a run that is not the first.
pub(super) const GROUP_BYTES_MIN: usize = 1 << 20;

/// A `$group` that is being filled.
pub(super) struct Gatherer {
    stage: Arc<Group>,
    run: RunContext,
    memory: Memory,
    table: GroupTable,
    runs: Runs,
    /// Of a key that is looked for.
    key_bytes: Vec<u8>,
}

impl Gatherer {
    pub(super) fn new(stage: &Arc<Group>, run: &RunContext) -> Self {
        Self {
            stage: Arc::clone(stage),
            run: run.clone(),
            memory: run.begin_memory(),
            table: GroupTable::new(stage),
            runs: Runs::new(Arc::new(merging::compare_keys)),
            key_bytes: Vec::new(),
        }
    }

    pub(super) fn table(&self) -> &GroupTable {
        &self.table
    }

    /// Sees to room for so many groups more.
    fn make_room(&mut self, more: usize) -> Result<()> {
        if let Some(bytes) = self.table.bytes_with(more)
            && !self.memory.holds(bytes)
            && self.table.len() > 0
        {
            self.spill()?;
            if let Some(bytes) = self.table.bytes_with(more) {
                // What is taken on at once is taken on in any case.
                self.memory.holds(bytes);
            }
        }
        self.table.make_room(more)
    }

    /// Writes the groups out if they have become too large.
    fn save_memory(&mut self) -> Result<()> {
        // Once groups are put together from runs, a merge holds a part of each run's next group in memory: no large parts.
        let has_large_part = !self.runs.is_empty() && self.table.largest_bytes() > GROUP_BYTES_MIN;
        if has_large_part || !self.memory.holds(self.table.memory_bytes()) { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        let reader = merging::spill_groups(&mut self.table, &self.run)?;
        self.memory.clear();
        self.runs.push(reader, &self.run, "$group")
    }

    /// The group of a key.
    fn group_of(&mut self, key: Slot) -> Result<usize> {
        let key = if key.is_nullish() { Slot::NULL } else { key };
        let hash = self.table.hash(key, &self.key_bytes);
        let variables = self.run.variables();
        Ok(self.table.find_or_add(&self.stage, (key, &self.key_bytes), hash, variables)? as usize)
    }

    /// Takes a document on.
    pub(super) fn take_document(&mut self, context: &EvaluationContext<'_>) -> Result<()> {
        let stage = Arc::clone(&self.stage);
        let key = stage.key.expression().evaluate(context)?;
        self.make_room(1)?;
        self.key_bytes.clear();
        let key = Slot::of_value(key.get(), &mut self.key_bytes)?;
        let group = self.group_of(key)?;
        for ((_, accumulator), states) in stage.fields.iter().zip(&mut self.table.states) {
            states.accumulate(group, accumulator, context)?;
        }
        self.save_memory()
    }

    /// Takes on so many documents, of which nothing is read.
    pub(super) fn take_count(&mut self, documents: u64) -> Result<()> {
        if documents == 0 {
            return Ok(());
        }
        let stage = Arc::clone(&self.stage);
        let empty = bson::RawDocumentBuf::new();
        let variables = Arc::clone(self.run.variables());
        let key = stage.key.expression().evaluate(&EvaluationContext::new(&empty, &variables))?;
        self.make_room(1)?;
        self.key_bytes.clear();
        let key = Slot::of_value(key.get(), &mut self.key_bytes)?;
        let group = self.group_of(key)?;
        for ((_, accumulator), states) in stage.fields.iter().zip(&mut self.table.states) {
            if let Some(state) = states.state_mut(group) {
                accumulator.accumulate_count(state, documents)?;
            }
        }
        Ok(())
    }

    /// The groups, once all documents have been taken on.
    pub(super) fn finish(mut self) -> Result<Groups> {
        let stage = Arc::clone(&self.stage);
        let found = if self.runs.is_empty() {
            Found::Memory { gathered: Box::new(self), next: 0 }
        } else {
            self.spill()?;
            let table = GroupTable::new(&stage);
            Found::Merge(Box::new(MergedGroups::new(self.runs.merge()?, table, self.memory, self.run)))
        };
        Ok(Groups { stage, found })
    }
}

/// A `$group` that is filled from rows.
pub(super) struct RowGatherer {
    gatherer: Gatherer,
    names: RowNames,
    key: (RowExpression, RowValues),
    /// What each accumulator is given; `None`: nothing of rows.
    inputs: Vec<Option<(RowExpression, RowValues)>>,
    /// Of the rows of a batch.
    hashes: Vec<u32>,
    groups: Vec<u32>,
    nothing: Vec<Slot>,
}

impl RowGatherer {
    /// `None`: what it reads has no form for rows.
    pub(super) fn new(stage: &Arc<Group>, names: &RowNames, run: &RunContext) -> Option<Self> {
        if stage.fields.len() > COLUMNS_MAX {
            return None;
        }
        let compile = |expression| Some((RowExpression::compile(expression, names)?, RowValues::default()));
        let key = compile(stage.key.expression())?;
        let mut inputs = Vec::new();
        for (_, accumulator) in &stage.fields {
            inputs.push(match accumulator.row_input()? {
                Some(expression) => Some(compile(expression)?),
                None => None,
            });
        }
        let gatherer = Gatherer::new(stage, run);
        let names = Arc::clone(names);
        Some(Self { gatherer, names, key, inputs, hashes: Vec::new(), groups: Vec::new(), nothing: Vec::new() })
    }

    /// Finds the groups of some rows, for which there is room.
    fn find_groups(&mut self, batch: &RowBatch, rows: Range<usize>) -> Result<()> {
        let Self { gatherer, key: (form, values), hashes, groups, .. } = self;
        let variables = gatherer.run.variables();
        let (keys, bytes) = form.values(batch, values);
        let keys = keys.get(rows).unwrap_or_default();
        let shown = |key: &Slot| if key.is_nullish() { Slot::NULL } else { *key };
        let table = &mut gatherer.table;
        groups.clear();
        if let (Some(_), Some(first)) = (form.constant(), keys.first()) {
            let first = shown(first);
            let group = table.find_or_add(&gatherer.stage, (first, bytes), table.hash(first, bytes), variables)?;
            groups.resize(keys.len(), group);
            return Ok(());
        }
        hashes.clear();
        hashes.extend(keys.iter().map(|key| table.hash(shown(key), bytes)));
        for (key, hash) in keys.iter().zip(hashes.iter()) {
            groups.push(table.find_or_add(&gatherer.stage, (shown(key), bytes), *hash, variables)?);
        }
        Ok(())
    }

    /// Feeds some rows to the groups that were found.
    fn accumulate(&mut self, batch: &RowBatch, rows: Range<usize>) -> Result<()> {
        let Self { gatherer, inputs, groups, nothing, .. } = self;
        for (input, states) in inputs.iter().zip(&mut gatherer.table.states) {
            match input {
                Some((form, values)) => {
                    let (slots, bytes) = form.values(batch, values);
                    states.accumulate_rows(groups, slots.get(rows.clone()).unwrap_or_default(), bytes)?;
                }
                None => {
                    nothing.resize(groups.len(), Slot::MISSING);
                    states.accumulate_rows(groups, nothing, &[])?;
                }
            }
        }
        Ok(())
    }
}

impl RowConsumer for RowGatherer {
    fn take(&mut self, batch: &RowBatch) -> Result<()> {
        let count = batch.rows();
        work::done(count * (1 + self.inputs.len()))?;
        let Self { gatherer: Gatherer { stage, run, .. }, names, key: (form, values), inputs, .. } = self;
        form.evaluate(stage.key.expression(), (batch, names), run.variables(), values)?;
        for (input, (_, accumulator)) in inputs.iter_mut().zip(&stage.fields) {
            if let (Some((form, values)), Some(expression)) = (input, accumulator.row_input().flatten()) {
                form.evaluate(expression, (batch, names), run.variables(), values)?;
            }
        }
        let mut first = 0;
        while first < count {
            // As many as there is room for if each is of a group of its own, which is seldom so.
            let wanted = (count - first).min(FREE_MIN);
            if self.gatherer.table.free() < wanted {
                self.gatherer.make_room(wanted)?;
            }
            let rows = first..count.min(first + self.gatherer.table.free());
            self.find_groups(batch, rows.clone())?;
            self.accumulate(batch, rows.clone())?;
            self.gatherer.save_memory()?;
            first = rows.end;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<BoxSource> {
        Ok(Box::new(self.gatherer.finish()?))
    }
}
