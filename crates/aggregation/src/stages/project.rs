//! `$project`, and the source that applies a projection, which `$addFields` and `$unset` share.

use std::collections::HashSet;
use std::sync::Arc;

use bson::raw::{CStr, RawBsonRef, RawDocumentBuf, cstr};
use query_language::expression::{DependencySet, Variables};
use query_language::projection::{Projection, ProjectionKind};

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::cursor::check_built;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// A projection under the name of the stage it came from.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) name: &'static CStr,
    pub(crate) projection: Projection,
    /// The first components of the paths that change; `None` when fields not named change too.
    pub(crate) changed_fields: Option<HashSet<String>>,
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
    Ok(vec![Stage::other(Project { name: cstr!("$project"), projection, changed_fields: None })])
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
    let names = specification.iter().flatten().map(|(name, _)| first_component(name.as_str()).to_owned());
    let changed_fields = Some(names.collect());
    Ok(vec![Stage::other(Project { name, projection, changed_fields })])
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
        match self.projection.is_inclusion() {
            true => {
                set.whole_document |= own.whole_document;
                Needs::Nothing
            }
            false => Needs::WhatFollows,
        }
    }

    fn lets_filter_pass(&self, paths: &[String]) -> bool {
        let Some(changed) = &self.changed_fields else { return false };
        !paths.iter().any(|path| changed.contains(first_component(path)))
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
        match self.source.next()? {
            Some(document) => {
                let projected = self.stage.projection.apply(&document, None, &self.variables)?;
                check_built(&projected)?;
                Ok(Some(projected))
            }
            None => Ok(None),
        }
    }
}
