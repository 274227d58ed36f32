//! `$replaceRoot` and `$replaceWith`: each document replaced by the document that an expression gives.

use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocumentBuf, cstr};
use query_language::expression::{DependencySet, EvaluationContext, Expression, Metadata, Variables, show_value};

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

#[derive(Debug)]
struct ReplaceRoot(Expression);

pub(crate) fn parse_replace_root(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("expected an object as specification for $replaceRoot stage, got {}", type_of(argument));
        return Err(AggregationError::numbered(40229, message));
    };
    let mut new_root = None;
    for element in document {
        let (name, value) = element?;
        match name.as_str() {
            "newRoot" => new_root = Some(value),
            other => {
                let message =
                    format!("unrecognized option to $replaceRoot stage: {other}, only valid option is 'newRoot'.");
                return Err(AggregationError::numbered(40230, message));
            }
        }
    }
    match new_root {
        Some(expression) => parse_replace_with(expression, context),
        None => Err(AggregationError::numbered(40231, "no newRoot specified for the $replaceRoot stage")),
    }
}

pub(crate) fn parse_replace_with(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let expression = Expression::parse(argument, &context.expressions())?;
    Ok(vec![Stage::other(ReplaceRoot(expression))])
}

impl PipelineStage for ReplaceRoot {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Replacing { variables: Arc::clone(run.variables()), stage: self, source }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        self.0.dependencies(set);
        Needs::Nothing
    }

    fn is_one_to_one(&self) -> bool {
        true
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let inner = stage_document(cstr!("newRoot"), self.0.to_bson()?);
        Ok(stage_document(cstr!("$replaceRoot"), inner))
    }
}

struct Replacing {
    stage: Arc<ReplaceRoot>,
    source: BoxSource,
    variables: Arc<Variables>,
}

impl DocumentSource for Replacing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(document) = self.source.next()? else { return Ok(None) };
        let metadata = self.source.metadata();
        let context = EvaluationContext::new(&document, &self.variables).with_metadata(&metadata);
        let value = self.stage.0.evaluate(&context)?;
        if value.as_document().is_some() {
            value.before_copying()?;
            return Ok(match value.into_raw_bson() {
                Some(RawBson::Document(root)) => Some(root),
                _ => None,
            });
        }
        let shown = value.get().map_or("MISSING".to_owned(), show_value);
        let (found, input) = (value.type_name(), show_value(RawBsonRef::Document(&document)));
        let message = format!(
            "'newRoot' expression must evaluate to an object, but resulting value was: {shown}. \
             Type of resulting value: '{found}'. Input document: {input}"
        );
        Err(AggregationError::numbered(40228, message))
    }

    fn metadata(&self) -> Metadata {
        self.source.metadata()
    }
}
