//! `$fill`: values in the place of those that are null or missing. It is sugar for `$setWindowFields` and `$addFields`.

use bson::raw::{CStr, RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use query_language::ErrorKind;

use super::{add_fields, set_window_fields, type_of};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::{Stage, stage_document};

#[derive(Default)]
struct Specification<'d> {
    partition_by: Option<RawBsonRef<'d>>,
    partition_by_fields: Option<RawDocumentBuf>,
    sort: Option<&'d RawDocument>,
    output: Option<&'d RawDocument>,
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let found = type_of(value);
    let message = format!("BSON field '$fill.{field}' is the wrong type '{found}', expected type '{expected}'");
    AggregationError::new(ErrorKind::TypeMismatch, message)
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("The $fill stage specification must be an object, found {}", type_of(argument));
        return Err(AggregationError::new(ErrorKind::FailedToParse, message));
    };
    let specification = read(document)?;
    if specification.partition_by.is_some() && specification.partition_by_fields.is_some() {
        let message = "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'";
        return Err(AggregationError::numbered(6050204, message));
    }
    let Some(output) = specification.output else {
        let message = "BSON field '$fill.output' is missing but a required field";
        return Err(AggregationError::numbered(40414, message));
    };
    let (windows, values) = outputs(output)?;
    let mut stages = Vec::new();
    if !windows.is_empty() {
        let mut window_fields = RawDocumentBuf::new();
        if let Some(partition_by) = specification.partition_by {
            window_fields.append(cstr!("partitionBy"), partition_by);
        } else if let Some(fields) = specification.partition_by_fields.filter(|fields| !fields.is_empty()) {
            window_fields.append(cstr!("partitionBy"), fields);
        }
        if let Some(sort) = specification.sort {
            window_fields.append(cstr!("sortBy"), sort);
        }
        window_fields.append(cstr!("output"), windows);
        stages.extend(set_window_fields::parse(RawBsonRef::Document(&window_fields), context)?);
    }
    if !values.is_empty() {
        stages.extend(add_fields::parse_add_fields(RawBsonRef::Document(&values), context)?);
    }
    Ok(stages)
}

fn read(document: &RawDocument) -> Result<Specification<'_>> {
    let mut specification = Specification::default();
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("partitionBy", RawBsonRef::String(_) | RawBsonRef::Document(_)) => {
                specification.partition_by = Some(value)
            }
            ("partitionBy", other) => return Err(wrong_type("partitionBy", other, "string or object")),
            ("partitionByFields", RawBsonRef::Array(paths)) => {
                let mut fields = RawDocumentBuf::new();
                for (number, path) in paths.into_iter().enumerate() {
                    match path? {
                        RawBsonRef::String(path) if !path.starts_with('$') => {
                            let name = number.to_string();
                            fields.append(<&CStr>::try_from(name.as_str())?, format!("${path}"));
                        }
                        RawBsonRef::String(path) => {
                            let message = format!("FieldPath field names may not start with '$': {path}");
                            return Err(AggregationError::numbered(16410, message));
                        }
                        other => return Err(wrong_type("partitionByFields", other, "string")),
                    }
                }
                specification.partition_by_fields = Some(fields);
            }
            ("partitionByFields", other) => return Err(wrong_type("partitionByFields", other, "array")),
            ("sortBy", RawBsonRef::Document(sort)) => specification.sort = Some(sort),
            ("output", RawBsonRef::Document(output)) => specification.output = Some(output),
            (name @ ("sortBy" | "output"), other) => return Err(wrong_type(name, other, "object")),
            (other, _) => {
                let message = format!("BSON field '$fill.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    Ok(specification)
}

/// What `$setWindowFields` computes, and what `$addFields` does.
fn outputs(output: &RawDocument) -> Result<(RawDocumentBuf, RawDocumentBuf)> {
    let (mut windows, mut values) = (RawDocumentBuf::new(), RawDocumentBuf::new());
    for element in output {
        let (name, value) = element?;
        let RawBsonRef::Document(how) = value else { return Err(wrong_type("output", value, "object")) };
        let mut fields = how.iter();
        let (Some(how), None) = (fields.next().transpose()?, fields.next()) else {
            let message = "Each fill output specification must have exactly one field, either 'value' or 'method'";
            return Err(AggregationError::numbered(6050200, message));
        };
        let path = format!("${name}");
        match (how.0.as_str(), how.1) {
            ("value", value) => {
                let mut arguments = RawArrayBuf::new();
                arguments.push(path.as_str());
                arguments.push(value);
                values.append(name, stage_document(cstr!("$ifNull"), arguments));
            }
            ("method", RawBsonRef::String("locf")) => windows.append(name, stage_document(cstr!("$locf"), path)),
            ("method", RawBsonRef::String("linear")) => {
                windows.append(name, stage_document(cstr!("$linearFill"), path))
            }
            ("method", _) => {
                let message = "Method must be either locf or linear";
                return Err(AggregationError::numbered(6050202, message));
            }
            (other, _) => {
                let message = format!("BSON field '$fill.output.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    Ok((windows, values))
}
