//! `$size`.

use document::{FieldPath, ValueView, elements_of_bytes};

use super::FilterNode;
use super::parse::{FieldOperand, bad_value};
use super::value_text;
use super::whole_number;
use crate::error::Result;

/// An array of exactly so many elements.
#[derive(Debug, Clone)]
pub struct SizeFilter {
    /// Where the array is.
    pub path: FieldPath,
    /// The number of elements.
    pub size: u64,
}

impl SizeFilter {
    #[inline]
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> bool {
        let Some(ValueView::Array(array)) = value else { return false };
        let limit = usize::try_from(self.size).unwrap_or(usize::MAX).saturating_add(1);
        elements_of_bytes(array).take(limit).count() as u64 == self.size
    }
}

/// `{path: {$size: number}}`.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let size = match whole_number::parse(operand.name, operand.value) {
        Ok(size) => size,
        Err(problem) => return bad_value(format!("Failed to parse $size. {problem}")),
    };
    match u64::try_from(size) {
        Ok(size) => Ok(FilterNode::Size(SizeFilter { path: operand.path.clone(), size })),
        Err(_) => {
            let element = value_text::element(operand.name, operand.value);
            bad_value(format!("Failed to parse $size. Expected a non-negative number in: {element}"))
        }
    }
}
