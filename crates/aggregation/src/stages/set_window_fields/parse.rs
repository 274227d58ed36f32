//! The grammar of `$setWindowFields`.

mod functions;
mod window;

use bson::raw::{RawBsonRef, RawDocument};
use document::work;
use query_language::ErrorKind;
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{Expression, FieldPath};

use super::functions::Function;
use super::{Output, SetWindowFields};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::Stage;
use crate::stages::type_of;

fn refuse(message: impl Into<String>) -> AggregationError {
    AggregationError::new(ErrorKind::FailedToParse, message)
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let found = type_of(value);
    let message =
        format!("BSON field '$setWindowFields.{field}' is the wrong type '{found}', expected type '{expected}'");
    AggregationError::new(ErrorKind::TypeMismatch, message)
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message =
            format!("the $setWindowFields stage specification must be an object, found {}", type_of(argument));
        return Err(refuse(message));
    };
    let (mut partition_by, mut sort, mut output) = (None, None, None);
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("partitionBy", value) => partition_by = Some(Expression::parse(value, &context.expressions())?),
            ("sortBy", RawBsonRef::Document(pattern)) => sort = Some(SortPattern::parse(pattern)?),
            ("output", RawBsonRef::Document(fields)) => output = Some(fields),
            (name @ ("sortBy" | "output"), other) => return Err(wrong_type(name, other, "object")),
            (other, _) => {
                let message = format!("BSON field '$setWindowFields.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    let Some(output) = output else {
        let message = "BSON field '$setWindowFields.output' is missing but a required field";
        return Err(AggregationError::numbered(40414, message));
    };
    let outputs = outputs(output, sort.as_ref(), context)?;
    // A constant makes no partitions.
    let partition_by = partition_by.filter(|by| by.as_constant().is_none()).map(Into::into);
    Ok(vec![Stage::other(SetWindowFields { partition_by, sort, outputs })])
}

fn outputs(fields: &RawDocument, sort: Option<&SortPattern>, context: &PipelineContext) -> Result<Vec<Output>> {
    let mut outputs: Vec<Output> = Vec::new();
    for element in fields {
        let (name, value) = element?;
        let RawBsonRef::Document(specification) = value else {
            let message = format!("The field '{name}' must be an object");
            return Err(refuse(message));
        };
        let path = FieldPath::parse(name.as_str())?;
        work::done(outputs.len())?;
        if let Some(other) = outputs.iter().find(|output| output.path.overlaps(&path)) {
            let message = format!(
                "specification contains two conflicting paths. Cannot specify both '{path}' and '{other}'",
                path = path.as_str(),
                other = other.path.as_str()
            );
            return Err(AggregationError::numbered(40176, message));
        }
        outputs.push(Output { function: function(specification, sort, context)?, path });
    }
    Ok(outputs)
}

/// `{$function: argument, window: {...}}`.
fn function(document: &RawDocument, sort: Option<&SortPattern>, context: &PipelineContext) -> Result<Function> {
    let (mut named, mut window) = (None, None);
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("window", RawBsonRef::Document(given)) => window = Some(given),
            ("window", _) => return Err(refuse("'window' field must be an object")),
            (name, value) if name.starts_with('$') => {
                if named.replace((name, value)).is_some() {
                    let text = "Cannot specify two functions in window function spec";
                    return Err(refuse(text));
                }
            }
            (other, _) => {
                let message = format!("Window function found an unknown argument: {other}");
                return Err(refuse(message));
            }
        }
    }
    let Some((name, argument)) = named else {
        let message = "Expected a $-prefixed window function";
        return Err(refuse(message));
    };
    functions::parse(&functions::Call { name, argument, window, sort, context })
}
