//! `$currentOp`: what the server is doing, a document for each operation.
//!
//! Only on the database `admin` as a whole (`{aggregate: 1}`).

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, IdleOperations, source_of};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

/// The options as they were given.
#[derive(Debug)]
struct CurrentOp(RawDocumentBuf);

/// There is one server, and nothing is left out of a command
/// that is not left out of the list itself.
const WITHOUT_EFFECT: &[&str] = &["localOps", "truncateOps", "targetAllNodes"];
const NOT_IMPLEMENTED: &[&str] = &["backtrace"];

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(options) = argument else {
        let message = format!("$currentOp options must be specified in an object, but found: {}", type_of(argument));
        return Err(AggregationError::new(ErrorKind::FailedToParse, message));
    };
    if context.namespace.database != "admin" || !context.namespace.is_whole_database() {
        let message = "$currentOp must be run against the 'admin' database with {aggregate: 1}";
        return Err(AggregationError::new(ErrorKind::InvalidNamespace, message));
    }
    for element in options {
        let (name, value) = element?;
        let RawBsonRef::Boolean(is_wanted) = value else {
            let found = type_of(value);
            let message =
                format!("The '{name}' parameter of the $currentOp stage must be a boolean value, but found: {found}");
            return Err(AggregationError::new(ErrorKind::FailedToParse, message));
        };
        match name.as_str() {
            "allUsers" | "idleConnections" | "idleSessions" | "idleCursors" => {}
            name if WITHOUT_EFFECT.contains(&name) => {}
            name if NOT_IMPLEMENTED.contains(&name) && !is_wanted => {}
            name if NOT_IMPLEMENTED.contains(&name) => {
                let message = format!("The option '{name}' of $currentOp is not implemented");
                return Err(AggregationError::new(ErrorKind::NotImplemented, message));
            }
            name => {
                let message = format!("Unrecognized option '{name}' in $currentOp stage.");
                return Err(AggregationError::new(ErrorKind::FailedToParse, message));
            }
        }
    }
    Ok(vec![Stage::other(CurrentOp(options.to_owned()))])
}

impl PipelineStage for CurrentOp {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let option =
            |name, default| document::get_field(&self.0, name).and_then(|value| value.as_bool()).unwrap_or(default);
        let wanted = IdleOperations {
            connections: option("idleConnections", false),
            sessions: option("idleSessions", true),
            cursors: option("idleCursors", false),
            all_users: option("allUsers", false),
        };
        Ok(source_of(run.host.current_operations(wanted)?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$currentOp"), self.0.clone()))
    }
}
