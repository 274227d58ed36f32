//! The argument of `$merge`.

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBsonRef, RawDocument};
use bson::{RawBson, rawdoc};
use query_language::ErrorKind;
use query_language::expression::{Expression, FieldPath, Variables};
use query_language::update::{Multiplicity, Update, UpdateOptions, UpdateSource};

use super::{Merge, NEW};
use crate::context::{Namespace, PipelineContext};
use crate::error::{AggregationError, Result};
use crate::host::{MergeRules, WhenMatched, WhenNotMatched};
use crate::stage::Stage;
use crate::stages::type_of;

/// The fields, as they stand.
#[derive(Default)]
struct Specification<'d> {
    into: Option<RawBsonRef<'d>>,
    on: Option<RawBsonRef<'d>>,
    bindings: Option<&'d RawDocument>,
    when_matched: Option<RawBsonRef<'d>>,
    when_not_matched: Option<&'d str>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let specification = match argument {
        RawBsonRef::String(_) => Specification { into: Some(argument), ..Specification::default() },
        RawBsonRef::Document(document) => read(document)?,
        other => {
            let message = format!("$merge only supports a string or object argument, but found {}", type_of(other));
            return Err(AggregationError::numbered(51182, message));
        }
    };
    let Some(into) = specification.into else {
        return Err(AggregationError::numbered(40414, "BSON field '$merge.into' is missing but a required field"));
    };
    let target = target(into, context)?;
    let on = fields(specification.on)?;
    let mode = specification.when_matched.unwrap_or(RawBsonRef::String("merge"));
    let not_matched = specification.when_not_matched.unwrap_or("insert");
    let (when_not_matched, not_matched) = when_not_matched(not_matched)?;
    let (bindings, variables) = bindings(specification.bindings, context)?;
    let when_matched = when_matched(mode, specification.bindings.is_some(), variables)?;
    check_combination(&when_matched, when_not_matched, mode.as_str(), not_matched)?;
    Ok(vec![Stage::other(Merge {
        rules: MergeRules { target, on, when_matched, when_not_matched },
        when_matched: RawBson::from(mode),
        when_not_matched: not_matched,
        bindings,
        declared: specification.bindings.map(ToOwned::to_owned),
    })])
}

fn read(document: &RawDocument) -> Result<Specification<'_>> {
    let mut specification = Specification::default();
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("into", RawBsonRef::String(_) | RawBsonRef::Document(_)) => specification.into = Some(value),
            ("into", other) => {
                let message =
                    format!("$merge 'into' field must be either a string or an object, but found {}", type_of(other));
                return Err(AggregationError::numbered(51178, message));
            }
            ("on", _) => specification.on = Some(value),
            ("let", RawBsonRef::Document(bindings)) => specification.bindings = Some(bindings),
            ("whenMatched", RawBsonRef::String(_) | RawBsonRef::Array(_)) => specification.when_matched = Some(value),
            ("whenMatched", other) => {
                let message = format!(
                    "$merge 'whenMatched' field must be either a string or an array, but found {}",
                    type_of(other)
                );
                return Err(AggregationError::numbered(51191, message));
            }
            ("whenNotMatched", RawBsonRef::String(mode)) => specification.when_not_matched = Some(mode),
            (name @ ("let" | "whenNotMatched"), other) => {
                let expected = if name == "let" { "object" } else { "string" };
                return Err(wrong_type(name, other, expected));
            }
            (other, _) => {
                let message = format!("BSON field '$merge.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    Ok(specification)
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let found = type_of(value);
    let message = format!("BSON field '$merge.{field}' is the wrong type '{found}', expected type '{expected}'");
    AggregationError::new(ErrorKind::TypeMismatch, message)
}

fn target(into: RawBsonRef<'_>, context: &PipelineContext) -> Result<Namespace> {
    let document = match into {
        RawBsonRef::Document(document) => document,
        other => {
            return Ok(Namespace::new(context.namespace.database.clone(), other.as_str().unwrap_or_default()));
        }
    };
    let (mut database, mut collection) = (context.namespace.database.as_str(), None);
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("db", RawBsonRef::String(name)) => database = name,
            ("coll", RawBsonRef::String(name)) => collection = Some(name),
            (name @ ("db" | "coll"), other) => return Err(wrong_type(&format!("into.{name}"), other, "string")),
            (other, _) => {
                let message = format!("BSON field '$merge.into.{other}' is an unknown field.");
                return Err(AggregationError::numbered(40415, message));
            }
        }
    }
    match collection {
        Some(collection) => Ok(Namespace::new(database, collection)),
        None => {
            let message = "BSON field '$merge.into.coll' is missing but a required field";
            Err(AggregationError::numbered(40414, message))
        }
    }
}

/// The fields that two documents must agree in to be the same.
fn fields(on: Option<RawBsonRef<'_>>) -> Result<Vec<FieldPath>> {
    let names: Vec<&str> = match on {
        None => vec!["_id"],
        Some(RawBsonRef::String(name)) => vec![name],
        Some(RawBsonRef::Array(names)) => {
            let names = names.into_iter().map(|name| match name? {
                RawBsonRef::String(name) => Ok(name),
                other => {
                    let message = format!("$merge 'on' array elements must be strings, but found {}", type_of(other));
                    Err(AggregationError::numbered(51134, message))
                }
            });
            names.collect::<Result<_>>()?
        }
        Some(other) => {
            let message = format!(
                "$merge 'on' field must be either a string or an array of strings, but found {}",
                type_of(other)
            );
            return Err(AggregationError::numbered(51186, message));
        }
    };
    if names.is_empty() {
        let message = "If explicitly specifying $merge 'on', must include at least one field";
        return Err(AggregationError::numbered(51187, message));
    }
    let mut fields: Vec<FieldPath> = Vec::with_capacity(names.len());
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            let message = format!("Found a duplicate field '{name}' in $merge 'on'");
            return Err(AggregationError::numbered(31465, message));
        }
        fields.push(FieldPath::parse(name)?);
    }
    Ok(fields)
}

/// The variables of `let` but `new`, which is always there; and the command's with all of these, missing as yet.
fn bindings(
    bindings: Option<&RawDocument>,
    context: &PipelineContext,
) -> Result<(Vec<(String, Expression)>, Variables)> {
    let expressions = context.expressions();
    let mut parsed = Vec::new();
    let mut variables = context.variables.as_ref().clone();
    variables.define(NEW, None)?;
    for element in bindings.into_iter().flatten() {
        let (name, value) = element?;
        if name.as_str() == NEW {
            if value != RawBsonRef::String("$$ROOT") {
                let message = "'let' may not define a value for the reserved 'new' variable other than '$$ROOT'";
                return Err(AggregationError::numbered(51273, message));
            }
            continue;
        }
        parsed.push((name.as_str().to_owned(), Expression::parse(value, &expressions)?));
        variables.define(name.as_str(), None)?;
    }
    Ok((parsed, variables))
}

fn when_matched(mode: RawBsonRef<'_>, has_bindings: bool, variables: Variables) -> Result<WhenMatched> {
    let options = UpdateOptions { multiplicity: Multiplicity::One, variables: Arc::new(variables) };
    let pipeline = |stages: &bson::raw::RawArray| {
        let update = Update::parse(UpdateSource::Pipeline(stages), &[], &options)?;
        Ok(WhenMatched::Update(Arc::new(update)))
    };
    let name = match mode {
        RawBsonRef::Array(stages) => return pipeline(stages),
        other => other.as_str().unwrap_or_default(),
    };
    if has_bindings {
        let message = format!("Cannot use 'let' variables with 'whenMatched: {name}' mode");
        return Err(AggregationError::numbered(51199, message));
    }
    let built_in = |stage| pipeline(&RawArrayBuf::from_iter([stage]));
    match name {
        "replace" => built_in(rawdoc! { "$replaceWith": format!("$${NEW}") }),
        "merge" => built_in(rawdoc! { "$replaceWith": { "$mergeObjects": ["$$ROOT", format!("$${NEW}")] } }),
        "keepExisting" => Ok(WhenMatched::Keep),
        "fail" => Ok(WhenMatched::Fail),
        other => {
            let message = format!("Enumeration value '{other}' for field '$merge.whenMatched' is not a valid value.");
            Err(AggregationError::new(ErrorKind::BadValue, message))
        }
    }
}

fn when_not_matched(mode: &str) -> Result<(WhenNotMatched, &'static str)> {
    match mode {
        "insert" => Ok((WhenNotMatched::Insert, "insert")),
        "discard" => Ok((WhenNotMatched::Discard, "discard")),
        "fail" => Ok((WhenNotMatched::Fail, "fail")),
        other => {
            let message =
                format!("Enumeration value '{other}' for field '$merge.whenNotMatched' is not a valid value.");
            Err(AggregationError::new(ErrorKind::BadValue, message))
        }
    }
}

/// What changes no document that there is has to insert those that there are not.
fn check_combination(
    matched: &WhenMatched,
    not_matched: WhenNotMatched,
    matched_name: Option<&str>,
    not_matched_name: &str,
) -> Result<()> {
    if matches!(matched, WhenMatched::Update(_)) || not_matched == WhenNotMatched::Insert {
        return Ok(());
    }
    let matched = matched_name.unwrap_or("pipeline");
    let message = format!(
        "Combination of $merge modes 'whenMatched: {matched}' and 'whenNotMatched: {not_matched_name}' is not supported"
    );
    Err(AggregationError::numbered(51181, message))
}
