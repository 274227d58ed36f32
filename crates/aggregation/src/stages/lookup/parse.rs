//! The grammar of `$lookup`.

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument, RawDocumentBuf};
use query_language::ErrorKind;
use query_language::expression::{Expression, FieldPath, Variables, show_value};

use super::{Equality, Lookup};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::pipeline::Pipeline;
use crate::stage::Stage;
use crate::stages::{documents, type_of};

/// The fields as given.
#[derive(Default)]
struct Specification<'d> {
    from: Option<&'d str>,
    output: Option<&'d str>,
    local: Option<&'d str>,
    foreign: Option<&'d str>,
    bindings: Option<&'d RawDocument>,
    pipeline: Option<RawBsonRef<'d>>,
}

fn refuse(message: impl Into<String>) -> AggregationError {
    AggregationError::new(ErrorKind::FailedToParse, message)
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("the $lookup stage specification must be an object, but found {}", type_of(argument));
        return Err(refuse(message));
    };
    let specification = read(document)?;
    if specification.from.is_none() && !specification.pipeline.is_some_and(documents::is_first_of) {
        let shown = show_value(argument);
        return Err(refuse(format!("missing 'from' option to $lookup stage specification: {shown}")));
    }
    let Some(output) = specification.output else { return Err(refuse("must specify 'as' field for a $lookup")) };
    let equality = match (specification.local, specification.foreign) {
        (Some(local), Some(foreign)) => {
            Some(Equality { local: FieldPath::parse(local)?, foreign: FieldPath::parse(foreign)? })
        }
        (None, None) if specification.pipeline.is_some() => None,
        (None, None) => {
            let message = "$lookup requires either 'pipeline' or both 'localField' and 'foreignField' to be specified";
            return Err(refuse(message));
        }
        _ => {
            let message = "$lookup requires both or neither of 'localField' and 'foreignField' to be specified";
            return Err(refuse(message));
        }
    };
    if specification.bindings.is_some() && specification.pipeline.is_none() {
        return Err(refuse("$lookup with a 'let' argument must also specify 'pipeline'"));
    }
    let from = context.namespace.beside(specification.from);
    let (bindings, variables) = parse_bindings(specification.bindings, context)?;
    let inner = PipelineContext { namespace: from.clone(), ..context.with_variables(Arc::new(variables)) };
    let empty = RawArrayBuf::new();
    let source = specification.pipeline.unwrap_or(RawBsonRef::Array(&empty));
    let pipeline = Pipeline::parse_nested(source, &inner)?;
    let stages = source.as_array().into_iter().flatten();
    let stages = stages.filter_map(|stage| stage.ok()?.as_document().map(RawDocument::to_owned));
    let stages: Vec<RawDocumentBuf> = stages.collect();
    let output = FieldPath::parse(output)?;
    Ok(vec![Stage::other(Lookup { from, output, equality, bindings, stages, pipeline })])
}

fn read(document: &RawDocument) -> Result<Specification<'_>> {
    let mut specification = Specification::default();
    for element in document {
        let (name, value) = element?;
        let slot = match name.as_str() {
            "from" => &mut specification.from,
            "as" => &mut specification.output,
            "localField" => &mut specification.local,
            "foreignField" => &mut specification.foreign,
            "let" => {
                let RawBsonRef::Document(bindings) = value else { return Err(wrong_type("let", value, "an object")) };
                specification.bindings = Some(bindings);
                continue;
            }
            "pipeline" => {
                specification.pipeline = Some(value);
                continue;
            }
            other => return Err(refuse(format!("unknown argument to $lookup: {other}"))),
        };
        match value {
            RawBsonRef::String(text) => *slot = Some(text),
            RawBsonRef::Document(_) if name == "from" => {
                let message = "A $lookup from another database is not implemented";
                return Err(AggregationError::new(ErrorKind::NotImplemented, message));
            }
            other => return Err(wrong_type(name.as_str(), other, "a string")),
        }
    }
    Ok(specification)
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let (shown, found) = (show_value(value), type_of(value));
    refuse(format!("$lookup argument '{field}: {shown}' must be {expected}, is type {found}"))
}

/// The variables of `let`, and those of the command with these added, missing as yet.
fn parse_bindings(
    bindings: Option<&RawDocument>,
    context: &PipelineContext,
) -> Result<(Vec<(String, Expression)>, Variables)> {
    let expressions = context.expressions();
    let mut parsed = Vec::new();
    let mut variables = context.variables.as_ref().clone();
    for element in bindings.into_iter().flatten() {
        let (name, value) = element?;
        parsed.push((name.as_str().to_owned(), Expression::parse(value, &expressions)?));
        variables.define(name.as_str(), None)?;
    }
    Ok((parsed, variables))
}
