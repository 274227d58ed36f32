//! `$out`: replaces a collection by the documents, all at once at the end.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use query_language::ErrorKind;
use query_language::expression::DependencySet;

use super::type_of;
use crate::context::{Namespace, PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct Out {
    target: Namespace,
    /// What it is as a time-series collection; `None`: as the collection is that it replaces.
    time_series: Option<RawDocumentBuf>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let mut time_series = None;
    let target = match argument {
        RawBsonRef::String(collection) => Namespace::new(context.namespace.database.clone(), collection),
        RawBsonRef::Document(document) => {
            let (mut database, mut collection) = (None, None);
            for element in document {
                let (name, value) = element?;
                match (name.as_str(), value) {
                    ("db", RawBsonRef::String(name)) => database = Some(name),
                    ("coll", RawBsonRef::String(name)) => collection = Some(name),
                    ("timeseries", RawBsonRef::Document(options)) => time_series = Some(options.to_owned()),
                    ("timeseries", RawBsonRef::Null | RawBsonRef::Undefined) => {}
                    (name @ ("db" | "coll" | "timeseries"), other) => {
                        let (found, wanted) = (type_of(other), if name == "timeseries" { "object" } else { "string" });
                        let message =
                            format!("BSON field '$out.{name}' is the wrong type '{found}', expected type '{wanted}'");
                        return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
                    }
                    (other, _) => {
                        let message = format!("BSON field '$out.{other}' is an unknown field.");
                        return Err(AggregationError::numbered(40415, message));
                    }
                }
            }
            match (database, collection) {
                (Some(database), Some(collection)) => Namespace::new(database, collection),
                (missing, _) => {
                    let field = if missing.is_none() { "db" } else { "coll" };
                    let message = format!("BSON field '$out.{field}' is missing but a required field");
                    return Err(AggregationError::numbered(40414, message));
                }
            }
        }
        other => {
            let message = format!("$out only supports a string or object argument, but found {}", type_of(other));
            return Err(AggregationError::numbered(16990, message));
        }
    };
    Ok(vec![Stage::other(Out { target, time_series })])
}

impl PipelineStage for Out {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(Box::new(Writing { stage: self, source, run: run.clone() }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.whole_document = true;
        Needs::WhatFollows
    }

    fn placement(&self) -> Placement {
        Placement::Last
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("db"), self.target.database.as_str());
        inner.append(cstr!("coll"), self.target.collection.as_str());
        if let Some(time_series) = &self.time_series {
            inner.append(cstr!("timeseries"), time_series.clone());
        }
        Ok(stage_document(cstr!("$out"), inner))
    }
}

struct Writing {
    stage: Arc<Out>,
    source: BoxSource,
    run: RunContext,
}

impl DocumentSource for Writing {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Out { target, time_series } = &*self.stage;
        let mut writer = self.run.host.replace_collection(target, time_series.as_deref())?;
        while let Some(document) = self.source.next()? {
            writer.write(&document)?;
        }
        writer.finish()?;
        Ok(None)
    }
}
