//! `$project`, and the source that applies a projection, which `$addFields` and `$unset` share.

use std::borrow::Cow;
use std::sync::Arc;

use bson::raw::{CStr, RawBsonRef, RawDocumentBuf, cstr};
use query_language::expression::{DependencySet, Metadata, Variables};
use query_language::filter::MatchDetails;
use query_language::projection::{FieldChanges, Projection, ProjectionKind};
use query_language::rows::{RowNames, RowProjection};

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::cursor::check_built;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::row_stage::{FieldNames, RowStep};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// A projection under the name of the stage it came from.
#[derive(Debug)]
pub(crate) struct Project {
    name: &'static CStr,
    projection: Arc<Projection>,
    changes: FieldChanges,
}

impl Project {
    pub(crate) fn new(name: &'static CStr, projection: Projection) -> Self {
        Self { name, changes: projection.field_changes(), projection: Arc::new(projection) }
    }
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(specification) = argument else {
        let message = "$project specification must be an object";
        return Err(AggregationError::numbered(15969, message));
    };
    if specification.is_empty() {
        let message = "Invalid $project :: caused by :: projection specification must have at least one field";
        return Err(AggregationError::numbered(51272, message));
    }
    let projection = Projection::parse(specification, ProjectionKind::Aggregate, &context.expressions())
        .map_err(|error| AggregationError::from(error).within("$project"))?;
    Ok(vec![Stage::other(Project::new(cstr!("$project"), projection))])
}

/// Parses the stages that add computed fields; `name` is the one the client used.
pub(crate) fn parse_adding(
    name: &'static CStr,
    argument: RawBsonRef<'_>,
    context: &PipelineContext,
) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(specification) = argument else {
        let message = format!("{name} specification stage must be an object, got {}", type_of(argument));
        return Err(AggregationError::numbered(40272, message));
    };
    let projection = Projection::parse(specification, ProjectionKind::AddFields, &context.expressions())
        .map_err(|error| AggregationError::from(error).within(name.as_str()))?;
    Ok(vec![Stage::other(Project::new(name, projection))])
}

/// The field that a path begins with.
pub(crate) fn first_component(path: &str) -> &str {
    path.split_once('.').map_or(path, |(first, _)| first)
}

impl PipelineStage for Project {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Projecting { variables: Arc::clone(run.variables()), stage: self, source }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        let own = self.projection.dependencies();
        set.paths.extend(own.paths);
        set.variables.extend(own.variables);
        set.volatile |= own.volatile;
        set.metadata = set.metadata | own.metadata;
        match self.projection.is_inclusion() {
            true => {
                set.whole_document |= own.whole_document;
                Needs::Nothing
            }
            false => Needs::WhatFollows,
        }
    }

    fn field_changes(&self) -> Option<&FieldChanges> {
        Some(&self.changes)
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn passes_rows(&self) -> bool {
        true
    }

    fn row_needs(&self, wanted: &FieldNames) -> Option<FieldNames> {
        self.projection.row_needs(wanted)
    }

    fn row_step(&self, columns: &RowNames, wanted: &FieldNames) -> Option<RowStep> {
        let output = wanted.iter().map(|name| name.as_str().into()).collect();
        RowProjection::compile(&self.projection, columns, &output).map(RowStep::Projection)
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(self.name, self.projection.source().to_owned()))
    }
}

struct Projecting {
    stage: Arc<Project>,
    source: BoxSource,
    variables: Arc<Variables>,
}

impl DocumentSource for Projecting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        // What is lent is lent by the source, which then cannot tell what it knows.
        let (next, metadata) = match self.stage.projection.metadata().is_any() {
            true => (self.source.next()?.map(Cow::Owned), Some(self.source.metadata())),
            false => (self.source.lend()?, None),
        };
        match next {
            Some(document) => {
                let details = metadata.map(|metadata| MatchDetails::new().with_metadata(metadata));
                let projected = self.stage.projection.apply(&document, details.as_ref(), &self.variables)?;
                check_built(&projected)?;
                Ok(Some(projected))
            }
            None => Ok(None),
        }
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
