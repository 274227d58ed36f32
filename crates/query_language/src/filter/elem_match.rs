//! `$elemMatch`, for documents in an array and for the elements themselves.

use bson::RawBsonRef;
use bson::spec::ElementType;
use document::{FieldPath, ValueView, elements_of_bytes};

use super::FilterNode;
use super::evaluate::{MatchDetails, Outcome, Subject, evaluate};
use super::parse::{FieldOperand, Parser, Place, bad_value, first_name, is_element_operator_document};
use crate::error::Result;
use crate::watch;

/// An array with a document (or an array, read as one) that satisfies a filter.
#[derive(Debug, Clone)]
pub struct ElemMatchObject {
    /// Where the array is.
    pub path: FieldPath,
    /// What the element must satisfy; its paths start at the element.
    pub filter: Box<FilterNode>,
}

impl ElemMatchObject {
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>, details: &mut MatchDetails) -> Outcome {
        let Some(ValueView::Array(array)) = value else { return Ok(false) };
        for (position, element) in elements_of_bytes(array).enumerate() {
            watch::step()?;
            if !matches!(element.element_type, ElementType::EmbeddedDocument | ElementType::Array) {
                continue;
            }
            let subject = Subject::Document(element.value_bytes());
            if evaluate(&self.filter, subject, &mut MatchDetails::default())? {
                details.record(position);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// An array with an element that satisfies predicates.
#[derive(Debug, Clone)]
pub struct ElemMatchValue {
    /// Where the array is.
    pub path: FieldPath,
    /// What the element must satisfy; the paths of its leaves are empty.
    pub predicate: Box<FilterNode>,
}

impl ElemMatchValue {
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>, details: &mut MatchDetails) -> Outcome {
        let Some(ValueView::Array(array)) = value else { return Ok(false) };
        for (position, element) in elements_of_bytes(array).enumerate() {
            watch::step()?;
            if evaluate(&self.predicate, Subject::Element(element.view()), &mut MatchDetails::default())? {
                details.record(position);
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// `{path: {$elemMatch: condition}}`.
pub(crate) fn parse(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let RawBsonRef::Document(condition) = operand.value else { return bad_value("$elemMatch needs an Object") };
    let path = operand.path.clone();
    let is_logical = matches!(first_name(condition), Some("$and" | "$or" | "$nor" | "$where"));
    if is_element_operator_document(condition) && !is_logical {
        let predicate = Box::new(parser.below(&path, || parser.value_predicate(condition))?);
        Ok(FilterNode::ElemMatchValue(ElemMatchValue { path, predicate }))
    } else {
        let filter = Box::new(parser.below(&path, || parser.document(condition, Place::Element))?);
        Ok(FilterNode::ElemMatchObject(ElemMatchObject { path, filter }))
    }
}
