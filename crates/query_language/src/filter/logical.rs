//! `$and`, `$or`, `$nor`, `$not`, `$alwaysTrue` and `$alwaysFalse`.

use bson::RawBsonRef;

use super::FilterNode;
use super::parse::{FieldOperand, Parser, Place, bad_value};
use super::regex::RegexFilter;
use super::whole_number;
use crate::error::{ErrorKind, QueryError, Result};

/// The filters in the array of `$and`, `$or` or `$nor`.
pub(crate) fn parse_list(
    parser: &Parser<'_>,
    name: &str,
    value: RawBsonRef<'_>,
    place: Place,
) -> Result<Vec<FilterNode>> {
    let RawBsonRef::Array(entries) = value else { return bad_value(format!("{name} must be an array")) };
    let mut children = Vec::new();
    for entry in entries {
        let RawBsonRef::Document(filter) = entry? else {
            return bad_value("$or/$and/$nor entries need to be full objects");
        };
        children.push(parser.inside(|| parser.document(filter, place))?);
    }
    if children.is_empty() {
        return bad_value("$and/$or/$nor must be a nonempty array");
    }
    Ok(children)
}

/// `{path: {$not: regular expression or operators}}`.
pub(crate) fn parse_not(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let child = match operand.value {
        RawBsonRef::RegularExpression(regex) => {
            FilterNode::Regex(RegexFilter::new(operand.path.clone(), regex.pattern.as_str(), regex.options.as_str())?)
        }
        RawBsonRef::Document(operators) if operators.is_empty() => return bad_value("$not cannot be empty"),
        RawBsonRef::Document(operators) => {
            parser.inside(|| parser.operators(operand.path, operators, operand.place))?
        }
        _ => return bad_value("$not needs a regex or a document"),
    };
    Ok(FilterNode::Not(Box::new(child)))
}

/// `{$alwaysTrue: 1}` and `{$alwaysFalse: 1}`.
pub(crate) fn parse_always(name: &str, value: RawBsonRef<'_>, node: FilterNode) -> Result<FilterNode> {
    match whole_number::parse(name, value) {
        Ok(1) => Ok(node),
        _ => Err(QueryError::new(ErrorKind::FailedToParse, format!("{name} must be an integer value of 1"))),
    }
}
