//! `$queryStats`: statistics of queries by their shapes, with names as they are or as a key makes them.

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
struct QueryStats {
    options: RawDocumentBuf,
    key: Option<Vec<u8>>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    check_whole_database("$queryStats", context)?;
    if context.namespace.database != "admin" {
        let message = "$queryStats must be run against the 'admin' database with {aggregate: 1}";
        return Err(AggregationError::new(ErrorKind::InvalidNamespace, message));
    }
    let RawBsonRef::Document(options) = argument else { return Err(wrong("", argument, "object")) };
    let mut key = None;
    for element in options {
        match element? {
            (name, RawBsonRef::Document(transform)) if name == "transformIdentifiers" => {
                let mut algorithm = None;
                for element in transform {
                    let (name, value) = element?;
                    match (name.as_str(), value) {
                        ("algorithm", RawBsonRef::String(name)) => algorithm = Some(name),
                        ("hmacKey", RawBsonRef::Binary(given)) if u8::from(given.subtype) == 8 => {
                            key = Some(given.bytes.to_vec());
                        }
                        ("algorithm", other) => return Err(wrong(".transformIdentifiers.algorithm", other, "string")),
                        ("hmacKey", other) => {
                            return Err(wrong(".transformIdentifiers.hmacKey", other, "binData of subtype 8"));
                        }
                        (other, _) => return Err(unknown(&format!("transformIdentifiers.{other}"))),
                    }
                }
                check(algorithm, key.as_ref())?;
            }
            (name, other) if name == "transformIdentifiers" => {
                return Err(wrong(".transformIdentifiers", other, "object"));
            }
            (name, _) => return Err(unknown(name.as_str())),
        }
    }
    Ok(vec![Stage::other(QueryStats { options: options.to_owned(), key })])
}

fn check(algorithm: Option<&str>, key: Option<&Vec<u8>>) -> Result<()> {
    let missing = |field: &str| {
        let message = format!("BSON field '$queryStats.transformIdentifiers.{field}' is missing but a required field");
        Err(AggregationError::numbered(40414, message))
    };
    match (algorithm, key) {
        (None, _) => missing("algorithm"),
        (_, None) => missing("hmacKey"),
        (Some("hmac-sha-256"), _) => Ok(()),
        (Some(other), _) => {
            let field = "$queryStats.transformIdentifiers.algorithm";
            let message = format!("Enumeration value '{other}' for field '{field}' is not a valid value.");
            Err(AggregationError::new(ErrorKind::BadValue, message))
        }
    }
}

fn wrong(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let found = type_of(value);
    let message = format!("BSON field '$queryStats{field}' is the wrong type '{found}', expected type '{expected}'");
    AggregationError::new(ErrorKind::TypeMismatch, message)
}

fn unknown(field: &str) -> AggregationError {
    AggregationError::numbered(40415, format!("BSON field '$queryStats.{field}' is an unknown field."))
}

impl PipelineStage for QueryStats {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        Ok(source_of(run.host.query_statistics(self.key.as_deref())?))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$queryStats"), self.options.clone()))
    }
}
