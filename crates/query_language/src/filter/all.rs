//! `$all`: as many conditions on the same path as it has entries.

use bson::RawBsonRef;

use super::FilterNode;
use super::comparison;
use super::elem_match;
use super::parse::{FieldOperand, Parser, bad_value, first_name, is_operator_document};
use super::regex::RegexFilter;
use crate::error::Result;

/// `{path: {$all: [...]}}`: constants and regular expressions, or `$elemMatch` conditions throughout.
pub(crate) fn parse(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let RawBsonRef::Array(entries) = operand.value else { return bad_value("$all needs an array") };
    let mut children = Vec::new();
    let mut of_elem_match = None;
    for entry in entries {
        parser.note_condition(operand.path)?;
        let entry = entry?;
        let elem_match = elem_match_condition(entry);
        let first_kind = *of_elem_match.get_or_insert(elem_match.is_some());
        if first_kind && elem_match.is_none() {
            return bad_value("$all/$elemMatch has to be consistent");
        }
        children.push(match (entry, elem_match) {
            (RawBsonRef::Document(holder), Some(condition)) if first_kind => {
                let inner = FieldOperand { name: "$elemMatch", value: condition, siblings: holder, ..*operand };
                elem_match::parse(parser, &inner)?
            }
            (RawBsonRef::Document(document), _) if is_operator_document(document) => {
                return bad_value("no $ expressions in $all");
            }
            (RawBsonRef::RegularExpression(regex), _) => FilterNode::Regex(RegexFilter::new(
                operand.path.clone(),
                regex.pattern.as_str(),
                regex.options.as_str(),
            )?),
            (value, _) => comparison::equality(operand.path.clone(), value)?,
        });
    }
    if children.is_empty() { Ok(FilterNode::AlwaysFalse) } else { Ok(FilterNode::And(children)) }
}

/// The condition of an entry `{$elemMatch: condition}`.
fn elem_match_condition(entry: RawBsonRef<'_>) -> Option<RawBsonRef<'_>> {
    let document = entry.as_document()?;
    if first_name(document) != Some("$elemMatch") {
        return None;
    }
    document.iter().next()?.ok().map(|(_, condition)| condition)
}
