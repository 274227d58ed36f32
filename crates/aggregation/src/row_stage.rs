//! Rows in place of documents between stages.
//!
//! A run of stages that pass rows on (`$match`, `$project` and its kin), with one behind it that gathers all of them (`$group`,
//! `$count`, `$facet`), needs no documents: `RowPlan::compile` finds out which fields of its source it reads, backwards over the
//! stages, and `RowPlan::open` makes of it a source that takes those out of documents, in batches. Called by `pipeline`. It relies
//! on `query_language::rows` for columns. A stage that reads whole documents, or what is known of them beside their fields, has no
//! form for rows: then the run is as it always was.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::RawDocumentBuf;
use query_language::depth::DepthBudget;
use query_language::expression::{DependencySet, Variables};
use query_language::rows::{COLUMNS_MAX, RowBatch, RowFilter, RowNames, RowProjection, RowReader};

use crate::context::RunContext;
use crate::error::Result;
use crate::host::{BoxSource, DocumentSource};
use crate::stage::Stage;
use crate::stages::project::first_component;

/// Stages that pass rows on in one plan. It is tried at each stage of a pipeline, which may have a thousand.
const PASSING_MAX: usize = 32;

/// Names of fields at the top of documents.
pub(crate) type FieldNames = BTreeSet<String>;

/// What a stage that passes rows on does with a batch.
pub(crate) enum RowStep {
    Filter(RowFilter),
    Projection(RowProjection),
}

impl RowStep {
    fn apply(&mut self, batch: &mut RowBatch, variables: &Variables) -> Result<()> {
        match self {
            RowStep::Filter(filter) => filter.apply(batch)?,
            RowStep::Projection(projection) => projection.apply(batch, variables)?,
        }
        Ok(())
    }

    /// The columns behind it, where they are others than before it.
    fn output(&self) -> Option<&RowNames> {
        match self {
            RowStep::Filter(_) => None,
            RowStep::Projection(projection) => Some(projection.output()),
        }
    }
}

/// Whether rows are read whether a stage wants them or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AreRead {
    /// Something else reads them.
    InAnyCase,
    ForThis,
}

/// A stage that gathers rows, while it does.
pub(crate) trait RowConsumer: Send {
    /// Takes the rows of a batch on.
    fn take(&mut self, batch: &RowBatch) -> Result<()>;

    /// What the stage gives, once there are no more rows.
    fn finish(self: Box<Self>) -> Result<BoxSource>;
}

/// The fields at the top of documents that something reads; `None`: it reads more.
pub(crate) fn fields_of(set: &DependencySet) -> Option<FieldNames> {
    if set.whole_document || set.metadata.is_any() {
        return None;
    }
    Some(set.paths.iter().map(|path| first_component(path).to_owned()).collect())
}

/// Stages at the front of some that are run over rows.
pub(crate) struct RowPlan {
    names: RowNames,
    steps: Vec<RowStep>,
    consumer: Box<dyn RowConsumer>,
    variables: Arc<Variables>,
    rows_max: usize,
    /// How many stages it stands for.
    pub(crate) stages: usize,
    /// What they may have added to what was added before.
    pub(crate) depth: DepthBudget,
}

/// The front of some stages that might be run over rows: how many pass them on, and what is read by them and the one behind them.
struct Front<'s> {
    passing: &'s [Stage],
    gathering: &'s Stage,
    /// The fields that are read of what comes to each stage, and to the one behind them.
    needed: Vec<FieldNames>,
    depth: DepthBudget,
}

impl<'s> Front<'s> {
    fn of(stages: &'s [Stage], mut depth: DepthBudget) -> Option<Self> {
        let count = stages.iter().take(PASSING_MAX + 1).position(|stage| !stage.definition().passes_rows())?;
        let (passing, gathering) = (stages.get(..count)?, stages.get(count)?);
        // Between stages that may make documents too deep each document is looked at.
        if stages.iter().take(count + 1).any(|stage| depth.add(stage.levels_added())) {
            return None;
        }
        let mut needed = vec![gathering.definition().row_fields()?];
        for stage in passing.iter().rev() {
            let before = stage.definition().row_needs(needed.last()?)?;
            needed.push(before);
        }
        needed.reverse();
        Some(Self { passing, gathering, needed, depth })
    }

    /// Its steps and what gathers the rows, over columns of these names.
    fn compile(
        &self,
        names: &RowNames,
        read: AreRead,
        run: &RunContext,
    ) -> Option<(Vec<RowStep>, Box<dyn RowConsumer>)> {
        let read = if self.passing.is_empty() { read } else { AreRead::InAnyCase };
        let (mut steps, mut columns) = (Vec::new(), Arc::clone(names));
        for (stage, wanted) in self.passing.iter().zip(self.needed.get(1..)?) {
            let step = stage.definition().row_step(&columns, wanted)?;
            if let Some(output) = step.output() {
                columns = Arc::clone(output);
            }
            steps.push(step);
        }
        let consumer = self.gathering.definition().row_consumer(&columns, read, run)?;
        Some((steps, consumer))
    }
}

impl RowPlan {
    /// The plan of the front of some stages, if they can be run over rows.
    pub(crate) fn compile(stages: &[Stage], depth: DepthBudget, run: &RunContext) -> Option<Self> {
        if run.pipeline.batch_rows_max == 0 {
            return None;
        }
        let front = Front::of(stages, depth)?;
        let names = names_of(front.needed.first()?);
        Self::of(&front, names, AreRead::ForThis, run)
    }

    /// The same where the columns are given, and read in any case.
    pub(crate) fn compile_over(stages: &[Stage], names: &RowNames, run: &RunContext) -> Option<Self> {
        Self::of(&Front::of(stages, DepthBudget::new())?, Arc::clone(names), AreRead::InAnyCase, run)
    }

    /// The fields that the front of some stages reads, if they can be run over rows.
    pub(crate) fn fields(stages: &[Stage]) -> Option<FieldNames> {
        Front::of(stages, DepthBudget::new())?.needed.into_iter().next()
    }

    fn of(front: &Front<'_>, names: RowNames, read: AreRead, run: &RunContext) -> Option<Self> {
        if front.needed.iter().any(|names| names.len() > COLUMNS_MAX) {
            return None;
        }
        let (steps, consumer) = front.compile(&names, read, run)?;
        let (variables, rows_max) = (Arc::clone(run.variables()), run.pipeline.batch_rows_max);
        let stages = front.passing.len() + 1;
        Some(Self { names, steps, consumer, variables, rows_max, stages, depth: front.depth })
    }

    /// The stages over a source.
    pub(crate) fn open(self, source: BoxSource) -> BoxSource {
        let reader = RowReader::new(Arc::clone(&self.names), self.rows_max);
        Box::new(Gathering::Reading(Box::new(Reading { source, reader, plan: self })))
    }

    /// Whether batches are changed on their way.
    pub(crate) fn changes_batches(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Takes on a batch that nobody else wants.
    pub(crate) fn take(&mut self, batch: &mut RowBatch) -> Result<()> {
        for step in &mut self.steps {
            step.apply(batch, &self.variables)?;
        }
        self.consumer.take(batch)
    }

    /// Takes on a batch that it does not change.
    pub(crate) fn take_unchanged(&mut self, batch: &RowBatch) -> Result<()> {
        self.consumer.take(batch)
    }

    /// What the stages give, once there are no more rows.
    pub(crate) fn finish(self) -> Result<BoxSource> {
        self.consumer.finish()
    }
}

/// Columns of these names.
fn names_of(names: &FieldNames) -> RowNames {
    names.iter().map(|name| name.as_str().into()).collect()
}

/// A plan's stages over a source: first they gather, then they give.
enum Gathering {
    Reading(Box<Reading>),
    Giving(BoxSource),
    /// Something has failed.
    Ended,
}

/// A plan and what it reads.
struct Reading {
    source: BoxSource,
    reader: RowReader,
    plan: RowPlan,
}

impl Reading {
    /// Reads all rows.
    fn finish(mut self) -> Result<BoxSource> {
        loop {
            self.reader.clear();
            let has_more = self.source.fill(&mut self.reader)?;
            self.plan.take(self.reader.batch_mut())?;
            if !has_more {
                return self.plan.finish();
            }
        }
    }
}

impl DocumentSource for Gathering {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if let Gathering::Reading(_) = self
            && let Gathering::Reading(reading) = std::mem::replace(self, Gathering::Ended)
        {
            *self = Gathering::Giving(reading.finish()?);
        }
        match self {
            Gathering::Giving(output) => output.next(),
            Gathering::Reading(_) | Gathering::Ended => Ok(None),
        }
    }
}
