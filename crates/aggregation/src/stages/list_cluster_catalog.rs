//! `$listClusterCatalog`: the collections and views of the database, or on `admin` of all databases.
//!
//! Source: the manual's page on it. There are no shards here: lists of them are empty, and what is about the balancing
//! of a sharded collection is about none.

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
struct ListClusterCatalog {
    options: RawDocumentBuf,
    shows_shards: bool,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    check_whole_database("$listClusterCatalog", context)?;
    let wrong = |field: &str, value: RawBsonRef<'_>, expected: &str| {
        let found = type_of(value);
        let message =
            format!("BSON field '$listClusterCatalog{field}' is the wrong type '{found}', expected type '{expected}'");
        AggregationError::new(ErrorKind::TypeMismatch, message)
    };
    let RawBsonRef::Document(options) = argument else { return Err(wrong("", argument, "object")) };
    let mut shows_shards = false;
    for element in options {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("shards", RawBsonRef::Boolean(wanted)) => shows_shards = wanted,
            // Of sharded collections.
            ("balancingConfiguration", RawBsonRef::Boolean(_)) => {}
            ("shards", other) => return Err(wrong(".shards", other, "bool")),
            ("balancingConfiguration", other) => return Err(wrong(".balancingConfiguration", other, "bool")),
            (other, _) => {
                let message = format!("BSON field '$listClusterCatalog.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    Ok(vec![Stage::other(ListClusterCatalog { options: options.to_owned(), shows_shards })])
}

impl PipelineStage for ListClusterCatalog {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let database = &run.pipeline.namespace.database;
        let wanted = (database != "admin").then_some(database.as_str());
        Ok(source_of(run.host.cluster_catalog(wanted, self.shows_shards)?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$listClusterCatalog"), self.options.clone()))
    }
}
