//! `$eq`, `$ne`, `$lt`, `$lte`, `$gt`, `$gte`.
//!
//! Only values of the same canonical type compare: numbers with numbers, strings with strings, and so on. Null also
//! equals a missing or undefined value; MinKey and MaxKey compare with everything; NaN equals NaN and is neither less
//! nor greater than anything.

use std::cmp::Ordering;

use bson::RawBsonRef;
use document::{CanonicalType, FieldPath, Number, ValueView, canonical_type_of, compare_views};

use super::FilterNode;
use super::literal::Literal;
use super::parse::{FieldOperand, bad_value};
use crate::error::Result;

/// Which comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ComparisonOperator {
    /// `$eq`.
    Eq,
    /// `$lt`.
    Lt,
    /// `$lte`.
    Lte,
    /// `$gt`.
    Gt,
    /// `$gte`.
    Gte,
}

impl ComparisonOperator {
    /// The operator's name, `$eq` and so on.
    pub fn name(self) -> &'static str {
        match self {
            ComparisonOperator::Eq => "$eq",
            ComparisonOperator::Lt => "$lt",
            ComparisonOperator::Lte => "$lte",
            ComparisonOperator::Gt => "$gt",
            ComparisonOperator::Gte => "$gte",
        }
    }

    #[inline]
    fn accepts(self, ordering: Ordering) -> bool {
        match self {
            ComparisonOperator::Eq => ordering == Ordering::Equal,
            ComparisonOperator::Lt => ordering == Ordering::Less,
            ComparisonOperator::Lte => ordering != Ordering::Greater,
            ComparisonOperator::Gt => ordering == Ordering::Greater,
            ComparisonOperator::Gte => ordering != Ordering::Less,
        }
    }

    fn includes_equal(self) -> bool {
        self.accepts(Ordering::Equal)
    }
}

/// A comparison with a constant.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// What is compared.
    pub path: FieldPath,
    /// How.
    pub operator: ComparisonOperator,
    value: Literal,
    canonical_type: CanonicalType,
    /// The constant when it is an int32 or int64, the common case.
    integer: Option<i64>,
    accepts_missing: bool,
    is_nan: bool,
}

impl Comparison {
    /// A comparison of what is at `path` with `value`.
    pub fn new(path: FieldPath, operator: ComparisonOperator, value: Literal) -> Self {
        let accepts_missing = match value.view() {
            ValueView::Null => operator.includes_equal(),
            ValueView::MinKey => operator.accepts(Ordering::Greater),
            ValueView::MaxKey => operator.accepts(Ordering::Less),
            _ => false,
        };
        let (canonical_type, is_nan) = (canonical_type_of(value.element_type()), is_nan(value.view()));
        let integer = Number::from_view(value.view()).and_then(Number::integer);
        Self { path, operator, value, canonical_type, integer, accepts_missing, is_nan }
    }

    /// The constant.
    pub fn value(&self) -> &Literal {
        &self.value
    }

    /// Whether a missing field satisfies the comparison.
    pub fn accepts_missing(&self) -> bool {
        self.accepts_missing
    }

    /// Whether one value satisfies the comparison.
    #[inline]
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> bool {
        let Some(value) = value else { return self.accepts_missing };
        match (value, self.integer) {
            (ValueView::Int32(number), Some(constant)) => self.operator.accepts(i64::from(number).cmp(&constant)),
            (ValueView::Int64(number), Some(constant)) => self.operator.accepts(number.cmp(&constant)),
            _ => self.accepts_any(value),
        }
    }

    fn accepts_any(&self, value: ValueView<'_>) -> bool {
        if canonical_type_of(value.element_type()) != self.canonical_type {
            return self.accepts_other_type(value);
        }
        let ordering = compare_views(value, self.value.view());
        match ordering {
            Ordering::Equal => self.operator.includes_equal(),
            _ => self.operator.accepts(ordering) && !self.is_nan && !is_nan(value),
        }
    }

    fn accepts_other_type(&self, value: ValueView<'_>) -> bool {
        match (self.value.view(), value) {
            (ValueView::MinKey, _) => self.operator.accepts(Ordering::Greater),
            (ValueView::MaxKey, _) => self.operator.accepts(Ordering::Less),
            _ => false,
        }
    }
}

#[inline]
fn is_nan(value: ValueView<'_>) -> bool {
    Number::from_view(value).is_some_and(Number::is_nan)
}

/// `{path: value}`.
pub(crate) fn equality(path: FieldPath, value: RawBsonRef<'_>) -> Result<FilterNode> {
    node(path, ComparisonOperator::Eq, value)
}

/// `{path: {$gt: value}}` and the like.
pub(crate) fn parse(operand: &FieldOperand<'_>, operator: ComparisonOperator) -> Result<FilterNode> {
    if matches!(operand.value, RawBsonRef::RegularExpression(_)) && operator != ComparisonOperator::Eq {
        let path = operand.path.as_str();
        return bad_value(format!("Can't have RegEx as arg to predicate over field '{path}'."));
    }
    node(operand.path.clone(), operator, operand.value)
}

/// `{path: {$ne: value}}`.
pub(crate) fn parse_ne(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    if matches!(operand.value, RawBsonRef::RegularExpression(_)) {
        return bad_value("Can't have regex as arg to $ne.");
    }
    let equal = node(operand.path.clone(), ComparisonOperator::Eq, operand.value)?;
    Ok(FilterNode::Not(Box::new(equal)))
}

fn node(path: FieldPath, operator: ComparisonOperator, value: RawBsonRef<'_>) -> Result<FilterNode> {
    if matches!(value, RawBsonRef::Undefined) {
        return bad_value("cannot compare to undefined");
    }
    Ok(FilterNode::Comparison(Comparison::new(path, operator, Literal::new(value))))
}
