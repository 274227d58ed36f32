//! `$exists`.

use super::FilterNode;
use super::parse::FieldOperand;
use crate::expression::value::is_truthy;
use document::FieldPath;

/// The path leads to a value, null included.
#[derive(Debug, Clone)]
pub struct ExistsFilter {
    /// The path.
    pub path: FieldPath,
}

/// `{path: {$exists: truth}}`; any value serves as a truth.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> FilterNode {
    let exists = FilterNode::Exists(ExistsFilter { path: operand.path.clone() });
    if is_truthy(operand.value) { exists } else { FilterNode::Not(Box::new(exists)) }
}
