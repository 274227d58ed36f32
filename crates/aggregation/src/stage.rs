//! What a stage is: a parsed definition that turns a source into another.

use std::fmt;
use std::sync::Arc;

use bson::raw::{CStr, RawBson, RawDocument, RawDocumentBuf};
use query_language::expression::{DependencySet, FieldPath};
use query_language::projection::FieldChanges;
use query_language::rows::RowNames;

use crate::context::RunContext;
use crate::error::Result;
use crate::host::BoxSource;
use crate::row_stage::{AreRead, FieldNames, RowConsumer, RowStep};
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

    /// If one document for each value of a field gives the same as all documents: which field, and which document.
    fn one_of_each(&self) -> Option<OneOfEach> {
        None
    }

    /// Whether it gives one document for each, in the order in which they come, whatever comes before or behind.
    fn is_one_to_one(&self) -> bool {
        false
    }

    /// What it does to the fields of documents, if it changes fields and nothing else.
    fn field_changes(&self) -> Option<&FieldChanges> {
        None
    }

    /// A filter on its input that loses nothing of what `filter` lets through of its output; for stages whose documents
    /// are made of others.
    fn filter_before(&self, _filter: &RawDocument) -> Option<RawDocumentBuf> {
        None
    }

    /// The same for who reads no more of its documents than these fields.
    fn giving_only(&self, _fields: &[&str]) -> Option<Stage> {
        None
    }

    /// The first documents behind a filter in the order of a sort, without reading all, if its input comes in the order
    /// of another sort: that one, and a stage in place of itself, the filter and the sort.
    fn first_in_order(&self, _filter: Option<&Arc<Match>>, _sort: &Sort) -> Option<(Sort, Stage)> {
        None
    }

    /// Whether it passes rows on, one for each or none, and does nothing else.
    fn passes_rows(&self) -> bool {
        false
    }

    /// What it reads of rows to pass these fields on; `None`: it has no form for rows.
    fn row_needs(&self, _wanted: &FieldNames) -> Option<FieldNames> {
        None
    }

    /// What it does with rows of these columns, to pass those fields on.
    fn row_step(&self, _columns: &RowNames, _wanted: &FieldNames) -> Option<RowStep> {
        None
    }

    /// How it unwinds an array, if it does that and nothing else.
    fn unwinds(&self) -> Option<&Unwinds> {
        None
    }

    /// The same with an array that it makes unwound at once.
    fn unwinding(&self, _unwinds: &Unwinds) -> Option<Stage> {
        None
    }

    /// What it reads of rows if it gathers them; `None`: it does not.
    fn row_fields(&self) -> Option<FieldNames> {
        None
    }

    /// It as what gathers rows of these columns. Unless their fields are `read` in any case, how many there are may be known without.
    fn row_consumer(
        self: Arc<Self>,
        _columns: &RowNames,
        _read: AreRead,
        _run: &RunContext,
    ) -> Option<Box<dyn RowConsumer>> {
        None
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

/// A stage's wish for fewer documents: one for each value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OneOfEach {
    /// The field; a document without it counts as one with null.
    pub path: String,
    /// Which document.
    pub which: Which,
}

/// One of the documents with some value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// It does not matter.
    Any,
    /// The first in the order in which they come.
    First,
    /// The last.
    Last,
}

/// How an array is unwound.
#[derive(Debug, Clone)]
pub(crate) struct Unwinds {
    pub(crate) path: FieldPath,
    /// The field for the positions of elements.
    pub(crate) index_path: Option<FieldPath>,
    /// Whether documents without elements are kept.
    pub(crate) keep_empty: bool,
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
