//! A parsed pipeline: its stages in order, checked and optimised.

use std::sync::Arc;

use bson::raw::{RawArray, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::depth::{DepthBudget, levels_added};
use query_language::expression::{DependencySet, MetadataUse};

use crate::context::{PipelineContext, RunContext};
use crate::cursor::{DepthChecked, Interruptible, PipelineCursor};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, ForeignQuery, PipelineHost, source_of};
use crate::optimize::optimize;
use crate::pushdown::{self, Pushdown};
use crate::registry::{self, StageOperator};
use crate::row_stage::RowPlan;
use crate::stack::{STAGES_BETWEEN, WithRoom};
use crate::stage::{Placement, Stage, chain_dependencies, stage_document};
use crate::stages::match_stage;

/// Stages that a pipeline may have, MongoDB's limit.
const STAGES_MAX: usize = 1000;

/// A parsed pipeline.
#[derive(Debug, Clone)]
pub struct Pipeline {
    pub(crate) stages: Vec<Stage>,
    pub(crate) context: PipelineContext,
}

/// Where a pipeline's documents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PipelineSource {
    /// The collection: `run` is given its documents.
    Collection,
    /// The first stage makes them (`$collStats`, `$indexStats`): `run` may be given an empty source.
    FirstStage,
}

impl Pipeline {
    /// Parses the stages of a command and brings them into the order in which they are best run.
    pub fn parse(stages: &[&RawDocument], context: &PipelineContext) -> Result<Self> {
        let mut pipeline = Self::parse_unplaced(stages, context)?;
        pipeline.check_placement(Placement::Last)?;
        optimize(&mut pipeline)?;
        Ok(pipeline)
    }

    /// The same with the stages as they are written, for tests that compare.
    pub fn parse_as_written(stages: &[&RawDocument], context: &PipelineContext) -> Result<Self> {
        let mut pipeline = Self::parse_unplaced(stages, context)?;
        pipeline.check_placement(Placement::Last)?;
        Ok(pipeline)
    }

    /// Parses the pipeline of a stage, which may not write.
    pub(crate) fn parse_nested(value: RawBsonRef<'_>, context: &PipelineContext) -> Result<Self> {
        let RawBsonRef::Array(array) = value else {
            return Err(AggregationError::new(
                ErrorKind::TypeMismatch,
                "'pipeline' option must be specified as an array",
            ));
        };
        let mut stages = Vec::new();
        for stage in array {
            let RawBsonRef::Document(stage) = stage? else {
                let message = "Each element of the 'pipeline' array must be an object";
                return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
            };
            stages.push(stage);
        }
        let mut pipeline = Self::parse_unplaced(&stages, context)?;
        pipeline.check_placement(Placement::Anywhere)?;
        optimize(&mut pipeline)?;
        Ok(pipeline)
    }

    fn parse_unplaced(stages: &[&RawDocument], context: &PipelineContext) -> Result<Self> {
        if stages.len() > STAGES_MAX {
            let message = format!("Pipeline length must be no longer than {STAGES_MAX} stages");
            return Err(AggregationError::new(ErrorKind::FailedToParse, message));
        }
        let mut parsed = Vec::with_capacity(stages.len());
        for stage in stages {
            parsed.extend(parse_stage(stage, context)?);
        }
        Ok(Self { stages: parsed, context: context.clone() })
    }

    /// Refuses stages that must be first or last elsewhere, and, when `last` does not allow it, writing stages.
    fn check_placement(&mut self, last: Placement) -> Result<()> {
        let count = self.stages.len();
        for (position, stage) in self.stages.iter().enumerate() {
            let definition = stage.definition();
            let name = name_of(stage)?;
            if matches!(stage, Stage::Match(filter) if filter.has_text()) && position > 0 {
                let message = "$match with $text is only allowed as the first pipeline stage";
                return Err(AggregationError::numbered(17313, message));
            }
            match definition.placement() {
                Placement::First if position > 0 => {
                    let message = format!("{name} is only valid as the first stage in a pipeline.");
                    return Err(AggregationError::numbered(40602, message));
                }
                Placement::Last if last != Placement::Last => {
                    let message = format!("{name} is not allowed to be used within a nested pipeline");
                    return Err(AggregationError::numbered(51047, message));
                }
                Placement::Last if position + 1 < count => {
                    let message = format!("{name} can only be the final stage in the pipeline");
                    return Err(AggregationError::numbered(40601, message));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Where the documents come from.
    pub fn source(&self) -> PipelineSource {
        match self.stages.first().map(|stage| stage.definition().placement()) {
            Some(Placement::First) => PipelineSource::FirstStage,
            _ => PipelineSource::Collection,
        }
    }

    /// Whether the pipeline writes (`$out`, `$merge`).
    pub fn writes(&self) -> bool {
        self.stages.last().is_some_and(|stage| stage.definition().placement() == Placement::Last)
    }

    /// What stages read of what a query knows of documents beside their fields. The scores of `$score` are no query's.
    pub fn metadata(&self) -> MetadataUse {
        metadata(&self.stages)
    }

    /// Whether no stage is left to run.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Takes off the front what a query plan does better.
    pub fn split_pushdown(self) -> Result<Pushdown> {
        pushdown::split(self)
    }

    /// What the stages read of the source's documents.
    pub fn dependencies(&self) -> DependencySet {
        chain_dependencies(&self.stages)
    }

    /// The stages as the client could have written them, after optimisation, for explain.
    pub fn to_bson(&self) -> Result<RawArrayBuf> {
        let mut array = RawArrayBuf::new();
        for stage in &self.stages {
            array.push(stage.definition().to_bson()?);
        }
        Ok(array)
    }

    /// The output over a source. Nothing is read before the cursor is asked for its first document.
    pub fn run(&self, source: BoxSource, host: Arc<dyn PipelineHost>) -> Result<PipelineCursor> {
        let run = RunContext { pipeline: self.context.clone(), host };
        let source = Box::new(Interruptible::new(source, Arc::clone(&run.host)));
        Ok(PipelineCursor::new(self.open(source, &run)?))
    }

    /// The output over the pipeline's own collection, of which only the documents that also meet `condition` count.
    pub(crate) fn open_over_collection(
        &self,
        condition: Option<RawDocumentBuf>,
        run: &RunContext,
    ) -> Result<BoxSource> {
        if self.source() == PipelineSource::FirstStage {
            return self.open_made(condition, run);
        }
        let (filter, rest) = match self.stages.split_first() {
            Some((Stage::Match(first), rest)) => (Some(first.source().to_owned()), rest),
            _ => (None, self.stages.as_slice()),
        };
        let filter = match (condition, filter) {
            (Some(condition), Some(filter)) => {
                let both: RawArrayBuf = [&*condition, &*filter].into_iter().collect();
                stage_document(cstr!("$and"), both)
            }
            (condition, filter) => condition.or(filter).unwrap_or_default(),
        };
        let needed = chain_dependencies(rest);
        let needed_paths = needed.needed_paths().map(|paths| paths.into_iter().map(str::to_owned).collect());
        let variables = Arc::clone(&self.context.variables);
        let query = ForeignQuery { filter, needed_paths, metadata: metadata(rest), variables };
        let found = run.host.find(&self.context.namespace, &query)?;
        let found = Box::new(Interruptible::new(found, Arc::clone(&run.host)));
        self.open_stages(rest, found, run)
    }

    /// The same where the first stage makes the documents.
    fn open_made(&self, condition: Option<RawDocumentBuf>, run: &RunContext) -> Result<BoxSource> {
        let Some((condition, (first, rest))) = condition.zip(self.stages.split_first()) else {
            return self.open(source_of([]), run);
        };
        let mut stages = vec![first.clone()];
        stages.extend(match_stage::parse(RawBsonRef::Document(&condition), &self.context)?);
        stages.extend_from_slice(rest);
        self.open_stages(&stages, source_of([]), run)
    }

    /// The chain of the stages' sources.
    pub(crate) fn open(&self, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        self.open_stages(&self.stages, source, run)
    }

    /// The chain of the stages behind the first ones, of which these are the documents.
    pub(crate) fn open_behind(&self, passed: usize, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        self.open_stages(self.stages.get(passed..).unwrap_or_default(), source, run)
    }

    fn open_stages(&self, stages: &[Stage], source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let run = RunContext { pipeline: self.context.clone(), host: Arc::clone(&run.host) };
        let (mut source, mut depth, mut position) = (source, DepthBudget::new(), 0);
        while let Some((stage, _)) = stages.get(position..).and_then(<[Stage]>::split_first) {
            let begun = position;
            if let Some(plan) = RowPlan::compile(stages.get(position..).unwrap_or_default(), depth, &run) {
                (depth, position) = (plan.depth, position + plan.stages);
                source = plan.open(source);
            } else {
                source = open_stage(stage, source, &mut depth, &run)?;
                position += 1;
            }
            if begun.next_multiple_of(STAGES_BETWEEN) < position {
                source = Box::new(WithRoom(source));
            }
        }
        Ok(if depth.may_exceed() { Box::new(DepthChecked(source)) } else { source })
    }
}

/// One stage over documents.
fn open_stage(stage: &Stage, source: BoxSource, depth: &mut DepthBudget, run: &RunContext) -> Result<BoxSource> {
    let (mut source, definition) = (source, stage.definition());
    // Whoever writes takes documents as they are.
    if definition.placement() == Placement::Last && depth.may_exceed() {
        source = Box::new(DepthChecked(source));
    }
    source = definition.open(source, run)?;
    if depth.add(stage.levels_added()) {
        source = Box::new(DepthChecked(source));
    }
    Ok(source)
}

/// Refuses what is no pipeline whatever it is for: entries that are not documents of one field, and unknown stages.
///
/// # Errors
/// `TypeMismatch`, 40323, 40324.
pub fn check_stage_names(pipeline: &RawArray) -> Result<()> {
    for stage in pipeline {
        let stage = stage?;
        let Some(stage) = stage.as_document() else {
            let message = "Each element of the 'pipeline' array must be an object";
            return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
        };
        operator_of(stage)?;
    }
    Ok(())
}

/// What stages read of what a query knows. Behind one that makes documents of its own there is none to be read.
fn metadata(stages: &[Stage]) -> MetadataUse {
    let mut set = DependencySet::new();
    for stage in stages {
        stage.definition().dependencies(&mut set);
    }
    MetadataUse { score: false, ..set.metadata }
}

/// Parses one stage.
fn parse_stage(stage: &RawDocument, context: &PipelineContext) -> Result<Vec<Stage>> {
    let (operator, argument) = operator_of(stage)?;
    match operator.parse {
        Some(parse) => {
            let levels = levels_added(argument);
            // These name fields of the document that they make: what they are written in is that document.
            let is_document = matches!(operator.name, "$addFields" | "$project" | "$set" | "$unset");
            let levels = if is_document { levels.saturating_sub(1) } else { levels };
            Ok(parse(argument, context)?.into_iter().map(|stage| stage.adding(levels)).collect())
        }
        None => {
            let message = format!("The {} stage is not implemented", operator.name);
            Err(AggregationError::new(ErrorKind::NotImplemented, message))
        }
    }
}

/// What a stage, which is a document of one field, is called and given.
fn operator_of(stage: &RawDocument) -> Result<(&'static StageOperator, RawBsonRef<'_>)> {
    let mut elements = stage.iter();
    let (Some((name, argument)), None) = (elements.next().transpose()?, elements.next()) else {
        let message = "A pipeline stage specification object must contain exactly one field.";
        return Err(AggregationError::numbered(40323, message));
    };
    match registry::find(name.as_str()) {
        Some(operator) => Ok((operator, argument)),
        None => Err(AggregationError::numbered(40324, format!("Unrecognized pipeline stage name: '{name}'"))),
    }
}

fn name_of(stage: &Stage) -> Result<String> {
    let shown = stage.definition().to_bson()?;
    let name = shown.iter().next().transpose()?.map(|(name, _)| name.as_str().to_owned());
    Ok(name.unwrap_or_default())
}
