//! The grammar of `$bucketAuto`.

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};
use document::Number;
use query_language::expression::{Expression, show_value};

use super::BucketAuto;
use super::granularity::Granularity;
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::{Stage, stage_document};
use crate::stages::{group, type_of};

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let refuse = |number, message: String| AggregationError::numbered(number, message);
    let RawBsonRef::Document(document) = argument else {
        let found = type_of(argument);
        let message = format!("The argument to $bucketAuto must be an object, but found type: {found}.");
        return Err(refuse(40240, message));
    };
    let (mut by, mut buckets, mut granularity) = (None, None, None);
    let counted = RawDocumentBuf::from_iter([(cstr!("count"), stage_document(cstr!("$sum"), 1))]);
    let mut output = &*counted;
    for element in document {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("groupBy", value) => by = Some(group_by(value, context)?),
            ("buckets", value) => buckets = Some(number_of_buckets(value)?),
            ("output", RawBsonRef::Document(given)) => output = given,
            ("output", other) => {
                let found = type_of(other);
                let message = format!("The $bucketAuto 'output' field must be an object, but found type: {found}.");
                return Err(refuse(40244, message));
            }
            ("granularity", RawBsonRef::String(name)) => {
                let message = || refuse(40257, format!("Unknown rounding granularity '{name}'"));
                granularity = Some(Granularity::find(name).ok_or_else(message)?);
            }
            ("granularity", other) => {
                let found = type_of(other);
                let message = format!("The $bucketAuto 'granularity' field must be a string, but found type: {found}.");
                return Err(refuse(40261, message));
            }
            (other, _) => return Err(refuse(40245, format!("Unrecognized option to $bucketAuto: {other}."))),
        }
    }
    let (Some(by), Some(buckets)) = (by, buckets) else {
        let message = "$bucketAuto requires 'groupBy' and 'buckets' to be specified.";
        return Err(AggregationError::numbered(40246, message));
    };
    let fields = group::parse_fields(output, context)?;
    Ok(vec![Stage::other(BucketAuto { by: by.into(), buckets, granularity, fields })])
}

fn group_by(value: RawBsonRef<'_>, context: &PipelineContext) -> Result<Expression> {
    let is_expression = match value {
        RawBsonRef::String(text) => text.starts_with('$'),
        RawBsonRef::Document(_) => true,
        _ => false,
    };
    if !is_expression {
        let shown = show_value(value);
        let message = format!(
            "The $bucketAuto 'groupBy' field must be defined as a $-prefixed path or an expression object, but found: \
             {shown}."
        );
        return Err(AggregationError::numbered(40239, message));
    }
    Ok(Expression::parse(value, &context.expressions())?)
}

fn number_of_buckets(value: RawBsonRef<'_>) -> Result<u64> {
    let shown = show_value(value);
    let Some(number) = Number::from_bson(value) else {
        let found = type_of(value);
        let message = format!("The $bucketAuto 'buckets' field must be a numeric value, but found type: {found}.");
        return Err(AggregationError::numbered(40241, message));
    };
    let Some(number) = number.to_i64_exact().and_then(|number| i32::try_from(number).ok()) else {
        let message =
            format!("The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {shown}.");
        return Err(AggregationError::numbered(40242, message));
    };
    match u64::try_from(number) {
        Ok(number) if number > 0 => Ok(number),
        _ => {
            let message = format!("The $bucketAuto 'buckets' field must be greater than 0, but found: {shown}.");
            Err(AggregationError::numbered(40243, message))
        }
    }
}
