//! The registry of query operators: which there are, where they may stand, and what parses them.
//!
//! Operators that MongoDB has and we refuse are listed too, so that the refusal can name them.

use bson::RawBsonRef;

use super::comparison::ComparisonOperator;
use super::parse::{FieldOperand, Parser, Place, bad_value};
use super::{FilterNode, GeoRelation, all, bits, comparison, elem_match, exists, expr, geo, in_filter, json_schema};
use super::{logical, mod_filter, near, regex, sample_rate, size, text_filter, type_filter, where_filter};
use crate::error::Result;

/// How far an operator is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// It works as MongoDB's.
    Full,
    /// It is refused by name with `NotImplemented`.
    Refused,
}

/// Every query operator by name, for documentation.
pub const OPERATORS: &[(&str, Support)] = &[
    ("$all", Support::Full),
    ("$alwaysFalse", Support::Full),
    ("$alwaysTrue", Support::Full),
    ("$and", Support::Full),
    ("$bitsAllClear", Support::Full),
    ("$bitsAllSet", Support::Full),
    ("$bitsAnyClear", Support::Full),
    ("$bitsAnySet", Support::Full),
    ("$comment", Support::Full),
    ("$elemMatch", Support::Full),
    ("$eq", Support::Full),
    ("$exists", Support::Full),
    ("$expr", Support::Full),
    ("$geoIntersects", Support::Full),
    ("$geoNear", Support::Full),
    ("$geoWithin", Support::Full),
    ("$gt", Support::Full),
    ("$gte", Support::Full),
    ("$in", Support::Full),
    ("$jsonSchema", Support::Full),
    ("$lt", Support::Full),
    ("$lte", Support::Full),
    ("$maxDistance", Support::Full),
    ("$minDistance", Support::Full),
    ("$mod", Support::Full),
    ("$ne", Support::Full),
    ("$near", Support::Full),
    ("$nearSphere", Support::Full),
    ("$nin", Support::Full),
    ("$nor", Support::Full),
    ("$not", Support::Full),
    ("$options", Support::Full),
    ("$or", Support::Full),
    ("$regex", Support::Full),
    ("$sampleRate", Support::Full),
    ("$size", Support::Full),
    ("$text", Support::Full),
    ("$type", Support::Full),
    ("$where", Support::Full),
    ("$within", Support::Full),
];

/// Parses an operator in the place of a field name; `None` when it restricts nothing (`$comment`).
pub(crate) fn parse_top_level(
    parser: &Parser<'_>,
    name: &str,
    value: RawBsonRef<'_>,
    place: Place,
) -> Result<Option<FilterNode>> {
    let node = match name {
        "$and" => FilterNode::And(logical::parse_list(parser, name, value, place)?),
        "$or" => FilterNode::Or(logical::parse_list(parser, name, value, place)?),
        "$nor" => FilterNode::Nor(logical::parse_list(parser, name, value, place)?),
        "$alwaysTrue" => logical::parse_always(name, value, FilterNode::And(Vec::new()))?,
        "$alwaysFalse" => logical::parse_always(name, value, FilterNode::AlwaysFalse)?,
        "$comment" => return Ok(None),
        "$sampleRate" => sample_rate::parse(parser, value)?,
        "$expr" | "$text" | "$where" if place == Place::Element => {
            return bad_value(format!("{name} can only be applied to the top-level document"));
        }
        "$expr" => expr::parse(parser, value)?,
        "$where" => where_filter::parse(parser, value)?,
        "$jsonSchema" => json_schema::parse::parse(parser, value)?,
        "$text" => text_filter::parse(parser, value)?,
        // A DBRef in a condition on documents in an array: these are its fields.
        "$ref" | "$id" | "$db" => comparison::equality(document::FieldPath::new(name), value)?,
        _ => {
            let hint = "If you have a field name that starts with a '$' symbol, consider using $getField or $setField.";
            return bad_value(format!("unknown top level operator: {name}. {hint}"));
        }
    };
    Ok(Some(node))
}

/// Parses an operator of a field; `None` when another operator of the same document takes care of it (`$options`).
pub(crate) fn parse_field_operator(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<Option<FilterNode>> {
    let node = match operand.name {
        "$eq" => comparison::parse(operand, ComparisonOperator::Eq)?,
        "$lt" => comparison::parse(operand, ComparisonOperator::Lt)?,
        "$lte" => comparison::parse(operand, ComparisonOperator::Lte)?,
        "$gt" => comparison::parse(operand, ComparisonOperator::Gt)?,
        "$gte" => comparison::parse(operand, ComparisonOperator::Gte)?,
        "$ne" => comparison::parse_ne(operand)?,
        "$in" => in_filter::parse(operand)?,
        "$nin" => FilterNode::Not(Box::new(in_filter::parse(operand)?)),
        "$not" => logical::parse_not(parser, operand)?,
        "$exists" => exists::parse(operand),
        "$type" => type_filter::parse(operand)?,
        "$size" => size::parse(operand)?,
        "$all" => all::parse(parser, operand)?,
        "$elemMatch" => elem_match::parse(parser, operand)?,
        "$mod" => mod_filter::parse(operand)?,
        "$regex" => regex::parse(operand)?,
        "$options" => return regex::check_options(operand).map(|()| None),
        "$bitsAllSet" | "$bitsAnySet" | "$bitsAllClear" | "$bitsAnyClear" => bits::parse(operand)?,
        "$geoWithin" | "$within" => geo::parse(operand, GeoRelation::Within)?,
        "$geoIntersects" => geo::parse(operand, GeoRelation::Intersects)?,
        "$near" | "$nearSphere" | "$geoNear" => near::parse(parser, operand)?,
        "$minDistance" | "$maxDistance" => return near::check_limit(operand).map(|()| None),
        "$expr" | "$jsonSchema" | "$text" | "$where" => {
            return bad_value(format!("{} can only be applied to the top-level document", operand.name));
        }
        name => return bad_value(format!("unknown operator: {name}")),
    };
    Ok(Some(node))
}
