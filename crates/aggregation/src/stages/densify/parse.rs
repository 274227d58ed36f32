//! The grammar of `$densify`.

use bson::raw::{RawArray, RawBsonRef, RawDocument};
use document::Number;
use query_language::ErrorKind;
use query_language::expression::{Expression, FieldPath, TimeUnit, show_value};

use super::step::{Step, position_of};
use super::{Bounds, Densify};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::Stage;
use crate::stages::position::Position;
use crate::stages::type_of;

fn refuse(message: impl Into<String>) -> AggregationError {
    AggregationError::new(ErrorKind::FailedToParse, message)
}

fn missing(field: &str) -> AggregationError {
    AggregationError::numbered(40414, format!("BSON field '$densify.{field}' is missing but a required field"))
}

fn unknown(field: &str) -> AggregationError {
    AggregationError::numbered(40415, format!("BSON field '$densify.{field}' is an unknown field."))
}

fn wrong_type(field: &str, value: RawBsonRef<'_>, expected: &str) -> AggregationError {
    let found = type_of(value);
    let message = format!("BSON field '$densify.{field}' is the wrong type '{found}', expected type '{expected}'");
    AggregationError::new(ErrorKind::TypeMismatch, message)
}

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message = format!("The $densify stage specification must be an object, found {}", type_of(argument));
        return Err(AggregationError::numbered(5733500, message));
    };
    let (mut field, mut partition_by, mut range) = (None, Vec::new(), None);
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("field", RawBsonRef::String(path)) => field = Some(path),
            ("field", other) => return Err(wrong_type("field", other, "string")),
            ("partitionByFields", RawBsonRef::Array(paths)) => partition_by = paths_of(paths)?,
            ("partitionByFields", other) => return Err(wrong_type("partitionByFields", other, "array")),
            ("range", RawBsonRef::Document(given)) => range = Some(given),
            ("range", other) => return Err(wrong_type("range", other, "object")),
            (other, _) => return Err(unknown(other)),
        }
    }
    let field = field_path(field.ok_or_else(|| missing("field"))?)?;
    let (step, unit_name, bounds) = parse_range(range.ok_or_else(|| missing("range"))?)?;
    if matches!(bounds, Bounds::Partition) && partition_by.is_empty() {
        return Err(refuse(
            "one may not specify the bounds as 'partition' without specifying a non-empty array of \
             partitionByFields. You may have meant to specify 'full' bounds.",
        ));
    }
    if let Some(path) = partition_by.iter().find(|path| path.overlaps(&field)) {
        let message = format!(
            "BSON field '$densify.partitionByFields' contains a field that is a prefix of the field to densify, or the \
             other way round: {}",
            path.as_str()
        );
        return Err(AggregationError::numbered(8993000, message));
    }
    let value = Expression::field_path(field.clone()).into();
    Ok(vec![Stage::other(Densify { field, value, partition_by, step, unit_name, bounds })])
}

fn field_path(path: &str) -> Result<FieldPath> {
    if path.starts_with('$') {
        return Err(AggregationError::numbered(16410, format!("FieldPath field names may not start with '$': {path}")));
    }
    Ok(FieldPath::parse(path)?)
}

fn paths_of(paths: &RawArray) -> Result<Vec<FieldPath>> {
    let mut found = Vec::new();
    for path in paths {
        match path? {
            RawBsonRef::String(path) => found.push(field_path(path)?),
            other => return Err(wrong_type("partitionByFields", other, "string")),
        }
    }
    Ok(found)
}

fn parse_range(range: &RawDocument) -> Result<(Step, Option<String>, Bounds)> {
    let (mut step, mut unit, mut bounds) = (None, None, None);
    for element in range {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("step", value) => {
                step = Some(Number::from_bson(value).ok_or_else(|| wrong_type("range.step", value, "number"))?);
            }
            ("unit", RawBsonRef::String(name)) => unit = Some((name, TimeUnit::parse(name)?)),
            ("unit", other) => return Err(wrong_type("range.unit", other, "string")),
            ("bounds", value) => bounds = Some(value),
            (other, _) => return Err(unknown(&format!("range.{other}"))),
        }
    }
    let step = step.ok_or_else(|| missing("range.step"))?;
    if step.sign() <= 0 || step.is_nan_or_infinite() {
        let message = "the step parameter in a range statement must be a strictly positive numeric value";
        return Err(AggregationError::numbered(5733401, message));
    }
    let unit_name = unit.map(|(name, _)| name.to_owned());
    let step = match unit {
        None => Step::Number(step),
        Some((_, unit)) => match step.to_i64_exact() {
            Some(amount) => Step::Time(amount, unit),
            None => {
                let message =
                    "The step parameter in a range statement must be a whole number when densifying a date range";
                return Err(AggregationError::numbered(6586400, message));
            }
        },
    };
    let bounds = parse_bounds(bounds.ok_or_else(|| missing("range.bounds"))?, step)?;
    Ok((step, unit_name, bounds))
}

fn parse_bounds(value: RawBsonRef<'_>, step: Step) -> Result<Bounds> {
    match value {
        RawBsonRef::String("full") => Ok(Bounds::Full),
        RawBsonRef::String("partition") => Ok(Bounds::Partition),
        RawBsonRef::String(other) => {
            let message = format!("Bounds string must either be 'full' or 'partition', but found: {other}");
            Err(AggregationError::numbered(5946802, message))
        }
        RawBsonRef::Array(array) => {
            let values = array.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
            let [lower, upper] = values.as_slice() else {
                let message = "a bounding array in a range statement must have exactly two elements";
                return Err(AggregationError::numbered(5733403, message));
            };
            let (lower, upper) = (bound(*lower, step)?, bound(*upper, step)?);
            if lower.compare(upper).is_gt() {
                let message = "the bounds in a range statement must be the string 'full', 'partition', or an \
                               ascending array of two numbers or two dates";
                return Err(AggregationError::numbered(5733402, message));
            }
            Ok(Bounds::Range(lower, upper))
        }
        other => Err(wrong_type("range.bounds", other, "string or array")),
    }
}

fn bound(value: RawBsonRef<'_>, step: Step) -> Result<Position> {
    let (number, text) = match (step, position_of(value)) {
        (Step::Number(_), Some(position @ Position::Number(_)))
        | (Step::Time(..), Some(position @ Position::Date(_))) => return Ok(position),
        (Step::Time(..), Some(Position::Number(_))) => (5733409, "Numeric bounds may not have unit parameter"),
        (Step::Number(_), Some(Position::Date(_))) => (5733410, "Date bounds must have a unit"),
        (_, None) => (5733406, "A bounding array must contain either both dates or both numeric types"),
    };
    Err(AggregationError::numbered(number, format!("{text}, but found: {}", show_value(value))))
}
