//! `$querySettings`: what has been said of shapes of queries by `setQuerySettings`.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use super::{check_whole_database, type_of};
use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, source_of};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct QuerySettings {
    options: RawDocumentBuf,
    shows_shape: bool,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    check_whole_database("$querySettings", context)?;
    let wrong = |field: &str, value: RawBsonRef<'_>, expected: &str| {
        let found = type_of(value);
        let message =
            format!("BSON field '$querySettings{field}' is the wrong type '{found}', expected type '{expected}'");
        AggregationError::new(ErrorKind::TypeMismatch, message)
    };
    let RawBsonRef::Document(options) = argument else { return Err(wrong("", argument, "object")) };
    let mut shows_shape = false;
    for element in options {
        match element? {
            (name, RawBsonRef::Boolean(wanted)) if name == "showDebugQueryShape" => shows_shape = wanted,
            (name, other) if name == "showDebugQueryShape" => return Err(wrong(".showDebugQueryShape", other, "bool")),
            (name, _) => {
                let message = format!("BSON field '$querySettings.{}' is an unknown field.", name.as_str());
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    Ok(vec![Stage::other(QuerySettings { options: options.to_owned(), shows_shape })])
}

impl PipelineStage for QuerySettings {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(source_of(run.host.query_settings(self.shows_shape)?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$querySettings"), self.options.clone()))
    }
}
