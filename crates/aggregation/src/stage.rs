//! What a stage is: a parsed definition that turns a source into another.

use std::fmt;
use std::sync::Arc;

use bson::raw::{CStr, RawBson, RawDocumentBuf};
use query_language::expression::DependencySet;

use crate::context::RunContext;
use crate::error::Result;
use crate::host::BoxSource;
use crate::stages::limit::Limit;
use crate::stages::match_stage::Match;
use crate::stages::skip::Skip;
use crate::stages::sort::Sort;

/// A stage's definition. It is immutable and shared; the state of a run is in the source that `open` makes.
pub(crate) trait PipelineStage: fmt::Debug + Send + Sync {
    /// The stage's output over a source.
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource>;

    /// Adds what the stage reads of its input, and says what of the input later stages can still see.
    fn dependencies(&self, set: &mut DependencySet) -> Needs;

    /// Whether a filter on `paths` gives the same before this stage as after it.
    fn lets_filter_pass(&self, _paths: &[String]) -> bool {
        false
    }

    /// The stage as the client could have written it, for explain.
    fn to_bson(&self) -> Result<RawDocumentBuf>;

    /// Where the stage may stand.
    fn placement(&self) -> Placement {
        Placement::Anywhere
    }
}

/// What is needed of a stage's input besides what the stage itself reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// What later stages need.
    WhatFollows,
    /// Nothing: the output is made only of what the stage reads.
    Nothing,
}

/// Where a stage may stand in a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placement {
    Anywhere,
    /// It makes its own documents, so it is first and nothing is read from the collection.
    First,
    /// It writes, so nothing follows it, and it is not in a sub-pipeline.
    Last,
}

/// A stage of a pipeline. Those that the optimiser looks into are told apart.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    Match(Arc<Match>),
    Sort(Arc<Sort>),
    Limit(Arc<Limit>),
    Skip(Arc<Skip>),
    Other {
        definition: Arc<dyn PipelineStage>,
        /// Levels that its documents may nest deeper than what it reads.
        levels: usize,
    },
}

impl Stage {
    pub(crate) fn other(stage: impl PipelineStage + 'static) -> Self {
        Stage::Other { definition: Arc::new(stage), levels: 0 }
    }

    /// The same, known to make documents that nest so much deeper than what it reads.
    pub(crate) fn adding(self, levels: usize) -> Self {
        match self {
            Stage::Other { definition, .. } => Stage::Other { definition, levels },
            passes_on => passes_on,
        }
    }

    /// Levels that its documents may nest deeper than what it reads.
    pub(crate) fn levels_added(&self) -> usize {
        match self {
            Stage::Other { levels, .. } => *levels,
            _ => 0,
        }
    }

    pub(crate) fn definition(&self) -> Arc<dyn PipelineStage> {
        match self {
            Stage::Match(stage) => Arc::clone(stage) as Arc<dyn PipelineStage>,
            Stage::Sort(stage) => Arc::clone(stage) as Arc<dyn PipelineStage>,
            Stage::Limit(stage) => Arc::clone(stage) as Arc<dyn PipelineStage>,
            Stage::Skip(stage) => Arc::clone(stage) as Arc<dyn PipelineStage>,
            Stage::Other { definition, .. } => Arc::clone(definition),
        }
    }
}

/// What a chain of stages reads of its input; everything when no stage makes its output anew.
pub(crate) fn chain_dependencies(stages: &[Stage]) -> DependencySet {
    let mut set = DependencySet::new();
    for stage in stages {
        if stage.definition().dependencies(&mut set) == Needs::Nothing {
            return set;
        }
    }
    set.whole_document = true;
    set
}

/// `{name: value}`, the form of a stage in explain.
pub(crate) fn stage_document(name: &CStr, value: impl Into<RawBson>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    let value: RawBson = value.into();
    document.append(name, value);
    document
}
