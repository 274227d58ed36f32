//! `$bucket`: `$group` by the range that a value lies in, then `$sort` by the ranges' lower bounds.

use bson::raw::{CStr, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::canonical_type;
use query_language::expression::order::compare;
use query_language::expression::{Expression, show_value};

use super::{group, sort};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::{Stage, stage_document};

#[derive(Default)]
struct Specification<'d> {
    group_by: Option<RawBsonRef<'d>>,
    boundaries: Vec<RawBson>,
    default: Option<RawBson>,
    output: Option<&'d RawDocument>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message =
            format!("Argument to $bucket stage must be an object, but found type: {}.", super::type_of(argument));
        return Err(AggregationError::numbered(40201, message));
    };
    let specification = read(document, context)?;
    let Some(group_by) = specification.group_by else { return Err(incomplete()) };
    if specification.boundaries.is_empty() {
        return Err(incomplete());
    }
    check_boundaries(&specification)?;
    let mut grouping = RawDocumentBuf::new();
    grouping.append(cstr!("_id"), bucket_of(group_by, &specification)?);
    match specification.output {
        Some(output) => {
            for element in output {
                let (name, accumulator) = element?;
                grouping.append(name, accumulator);
            }
        }
        None => grouping.append(cstr!("count"), stage_document(cstr!("$sum"), 1)),
    }
    let mut stages = group::parse(RawBsonRef::Document(&grouping), context)?;
    stages.extend(sort::parse(RawBsonRef::Document(&stage_document(cstr!("_id"), 1)), context)?);
    Ok(stages)
}

fn incomplete() -> AggregationError {
    AggregationError::numbered(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.")
}

fn read<'d>(document: &'d RawDocument, context: &PipelineContext) -> Result<Specification<'d>> {
    let mut specification = Specification::default();
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("groupBy", RawBsonRef::String(_) | RawBsonRef::Document(_)) => specification.group_by = Some(value),
            ("groupBy", _) => {
                let shown = show_value(value);
                let message = format!(
                    "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, \
                     but found: {shown}."
                );
                return Err(AggregationError::numbered(40202, message));
            }
            ("boundaries", RawBsonRef::Array(array)) => {
                for boundary in array {
                    specification.boundaries.push(constant(boundary?, "boundaries", 40191, context)?);
                }
            }
            ("boundaries", other) => {
                let found = super::type_of(other);
                let message = format!("The $bucket 'boundaries' field must be an array, but found type: {found}.");
                return Err(AggregationError::numbered(40200, message));
            }
            ("default", value) => specification.default = Some(constant(value, "default", 40195, context)?),
            ("output", RawBsonRef::Document(output)) => specification.output = Some(output),
            ("output", other) => {
                let found = super::type_of(other);
                let message = format!("The $bucket 'output' field must be an object, but found type: {found}.");
                return Err(AggregationError::numbered(40196, message));
            }
            (other, _) => {
                let message = format!("Unrecognized option to $bucket: {other}.");
                return Err(AggregationError::numbered(40197, message));
            }
        }
    }
    Ok(specification)
}

fn constant(value: RawBsonRef<'_>, field: &str, number: u32, context: &PipelineContext) -> Result<RawBson> {
    let expression = Expression::parse(value, &context.expressions())?;
    match expression.as_constant() {
        Some(constant) => Ok(constant.or_null().into()),
        None => {
            let message =
                format!("The $bucket '{field}' field must be a constant value, but found: {}.", show_value(value));
            Err(AggregationError::numbered(number, message))
        }
    }
}

/// Boundaries are at least two, of one type, ascending; the default lies outside them.
fn check_boundaries(specification: &Specification<'_>) -> Result<()> {
    let count = specification.boundaries.len();
    if count < 2 {
        let message =
            format!("The $bucket 'boundaries' field must have at least 2 values, but found {count} value(s).");
        return Err(AggregationError::numbered(40192, message));
    }
    for (position, pair) in specification.boundaries.windows(2).enumerate() {
        let [lower, upper] = pair else { continue };
        let (lower, upper) = (lower.as_raw_bson_ref(), upper.as_raw_bson_ref());
        if canonical_type(lower) != canonical_type(upper) {
            let message = format!(
                "All values in the 'boundaries' option to $bucket must have the same type. \
                 Found conflicting types {} and {}.",
                super::type_of(lower),
                super::type_of(upper)
            );
            return Err(AggregationError::numbered(40193, message));
        }
        if !compare(Some(lower), Some(upper)).is_lt() {
            let message = format!(
                "The 'boundaries' option to $bucket must be sorted, but elements {position} and {} are not in ascending \
                 order ({} is not less than {}).",
                position + 1,
                show_value(lower),
                show_value(upper)
            );
            return Err(AggregationError::numbered(40194, message));
        }
    }
    let (Some(default), Some(first), Some(last)) =
        (&specification.default, specification.boundaries.first(), specification.boundaries.last())
    else {
        return Ok(());
    };
    let default = Some(default.as_raw_bson_ref());
    let inside = compare(default, Some(first.as_raw_bson_ref())).is_ge()
        && compare(default, Some(last.as_raw_bson_ref())).is_lt();
    if inside {
        let message = "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to \
                       the highest boundary.";
        return Err(AggregationError::numbered(40199, message));
    }
    Ok(())
}

/// `{$let: {vars: {value}, in: {$switch: {branches: [{case: lowest <= value < highest, then: by halves}], default}}}}`: the
/// value is computed once, and compared with as many boundaries as they can be halved.
fn bucket_of(group_by: RawBsonRef<'_>, specification: &Specification<'_>) -> Result<RawDocumentBuf> {
    let [lowers @ .., highest] = &specification.boundaries[..] else { return Err(incomplete()) };
    let Some(lowest) = lowers.first() else { return Err(incomplete()) };
    let mut inside = RawArrayBuf::new();
    inside.push(comparison(cstr!("$gte"), lowest));
    inside.push(comparison(cstr!("$lt"), highest));
    let mut branch = stage_document(cstr!("case"), stage_document(cstr!("$and"), inside));
    branch.append(cstr!("then"), range_of(lowers));
    let mut branches = RawArrayBuf::new();
    branches.push(branch);
    let mut switch = stage_document(cstr!("branches"), branches);
    if let Some(default) = &specification.default {
        switch.append(cstr!("default"), literal(default));
    }
    let mut bound = stage_document(cstr!("vars"), stage_document(cstr!("value"), group_by));
    bound.append(cstr!("in"), stage_document(cstr!("$switch"), switch));
    Ok(stage_document(cstr!("$let"), bound))
}

/// The greatest of the lower bounds that is not above the value, which is not below the first.
fn range_of(lowers: &[RawBson]) -> RawDocumentBuf {
    let (below, above) = lowers.split_at(lowers.len() / 2);
    let (Some(middle), false) = (above.first(), below.is_empty()) else {
        return lowers.first().map_or_else(RawDocumentBuf::new, literal);
    };
    let mut choice = RawArrayBuf::new();
    choice.push(comparison(cstr!("$lt"), middle));
    choice.push(range_of(below));
    choice.push(range_of(above));
    stage_document(cstr!("$cond"), choice)
}

fn comparison(operator: &CStr, bound: &RawBson) -> RawDocumentBuf {
    let mut operands = RawArrayBuf::new();
    operands.push("$$value");
    operands.push(literal(bound));
    stage_document(operator, operands)
}

fn literal(value: &RawBson) -> RawDocumentBuf {
    stage_document(cstr!("$const"), value.clone())
}
