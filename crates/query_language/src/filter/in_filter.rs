//! `$in` and `$nin`.

use std::cmp::Ordering;

use bson::RawBsonRef;
use document::{FieldPath, ValueView, compare_views, work};

use super::FilterNode;
use super::evaluate::Outcome;
use super::literal::Literal;
use super::parse::{FieldOperand, bad_value, is_operator_document};
use super::regex::RegexFilter;
use crate::error::Result;

/// Equality with any of several constants, or a match of any of several regular expressions.
#[derive(Debug, Clone)]
pub struct InFilter {
    /// What is compared.
    pub path: FieldPath,
    values: Vec<Literal>,
    regexes: Vec<RegexFilter>,
    accepts_missing: bool,
}

impl InFilter {
    /// Sorts the values and drops equal ones.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn new(path: FieldPath, mut values: Vec<Literal>, regexes: Vec<RegexFilter>) -> Result<Self> {
        work::sort_by(&mut values, |left, right| compare_views(left.view(), right.view()))?;
        values.dedup_by(|left, right| compare_views(left.view(), right.view()) == Ordering::Equal);
        let accepts_missing = values.iter().any(|value| matches!(value.view(), ValueView::Null));
        Ok(Self { path, values, regexes, accepts_missing })
    }

    /// The constants, in BSON order, without duplicates.
    pub fn values(&self) -> &[Literal] {
        &self.values
    }

    /// The regular expressions.
    pub fn regexes(&self) -> &[RegexFilter] {
        &self.regexes
    }

    /// Whether a missing field satisfies it: null is among the constants.
    pub fn accepts_missing(&self) -> bool {
        self.accepts_missing
    }

    #[inline]
    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> Outcome {
        let value = match value {
            None => return Ok(self.accepts_missing),
            Some(value) => value,
        };
        if self.values.binary_search_by(|literal| compare_views(literal.view(), value)).is_ok() {
            return Ok(true);
        }
        for regex in &self.regexes {
            if regex.accepts(Some(value))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(crate) fn into_parts(self) -> (FieldPath, Vec<Literal>, Vec<RegexFilter>) {
        (self.path, self.values, self.regexes)
    }
}

/// `{path: {$in: [...]}}`; also the positive part of `$nin`.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let name = operand.name;
    let RawBsonRef::Array(entries) = operand.value else { return bad_value(format!("{name} needs an array")) };
    let (mut values, mut regexes) = (Vec::new(), Vec::new());
    for entry in entries {
        work::step()?;
        match entry? {
            RawBsonRef::Document(document) if is_operator_document(document) => {
                return bad_value(format!("cannot nest $ under {name}"));
            }
            RawBsonRef::Undefined => return bad_value("InMatchExpression equality cannot be undefined"),
            RawBsonRef::RegularExpression(regex) => {
                let (pattern, options) = (regex.pattern.as_str(), regex.options.as_str());
                regexes.push(RegexFilter::new(operand.path.clone(), pattern, options)?);
            }
            value => values.push(Literal::new(value)),
        }
    }
    Ok(FilterNode::In(InFilter::new(operand.path.clone(), values, regexes)?))
}
