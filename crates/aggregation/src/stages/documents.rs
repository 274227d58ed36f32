//! `$documents`: the documents that an expression gives, in place of a collection's.
//!
//! Only the first stage, of a pipeline without a collection: an aggregate of the database, or a pipeline of `$lookup` or `$unionWith`.

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBsonRef, RawDocumentBuf, cstr};
use document::work;
use query_language::ErrorKind;
use query_language::expression::{DependencySet, EvaluationContext, Expression, show_value};

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

/// Where the first member of an array begins.
const LENGTH_BYTES: usize = 4;

#[derive(Debug)]
struct Documents(Expression);

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    if !context.namespace.is_whole_database() {
        let message = "'$documents' can only be run with database aggregates ({aggregate: 1}), or in a pipeline of \
                       $lookup or $unionWith without a collection";
        return Err(AggregationError::new(ErrorKind::InvalidNamespace, message));
    }
    Ok(vec![Stage::other(Documents(Expression::parse(argument, &context.expressions())?))])
}

/// Whether a pipeline begins with this stage, and so needs no collection.
pub(super) fn is_first_of(pipeline: RawBsonRef<'_>) -> bool {
    let first = pipeline.as_array().and_then(|stages| document::array_elements(stages).next());
    let stage = first.and_then(|stage| document::elements(stage.value().as_document()?).next());
    stage.is_some_and(|stage| stage.name() == "$documents")
}

impl PipelineStage for Documents {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let nothing = RawDocumentBuf::new();
        let value = self.0.evaluate(&EvaluationContext::new(&nothing, run.variables()))?;
        let Some(RawBsonRef::Array(documents)) = value.get() else {
            let found = value.type_name();
            let message = format!("an array is expected for $documents, but found type: {found}");
            return Err(AggregationError::numbered(5858203, message));
        };
        query_language::before_allocating_if_large(documents.as_bytes().len())?;
        Ok(Box::new(Given { documents: documents.to_owned(), passed: LENGTH_BYTES }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$documents"), self.0.to_bson()?))
    }
}

/// The members of an array, one by one.
struct Given {
    documents: RawArrayBuf,
    /// Bytes before the next.
    passed: usize,
}

impl DocumentSource for Given {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let bytes = self.documents.as_bytes().get(self.passed..).unwrap_or_default();
        let Some((element, rest)) = document::split_element(bytes) else { return Ok(None) };
        self.passed += bytes.len() - rest.len();
        let RawBsonRef::Document(document) = element.value() else {
            let (shown, found) = (show_value(element.value()), type_of(element.value()));
            let message = format!(
                "'newRoot' expression must evaluate to an object, but resulting value was: {shown}. Type of resulting \
                 value: '{found}'."
            );
            return Err(AggregationError::numbered(40228, message));
        };
        work::done(work::of_bytes(document.as_bytes().len()))?;
        query_language::before_allocating_if_large(document.as_bytes().len())?;
        Ok(Some(document.to_owned()))
    }
}
