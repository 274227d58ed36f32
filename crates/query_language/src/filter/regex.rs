//! `$regex` with `$options`, and regular expressions as values.

use bson::RawBsonRef;
use document::{FieldPath, ValueView};

use super::FilterNode;
use super::evaluate::Outcome;
use super::parse::{FieldOperand, bad_value};
use crate::error::{ErrorKind, QueryError, Result};
use crate::regular_expression::{self, PatternError, PatternTranslation, RegularExpression};

/// A string (or symbol) that a regular expression finds something in, or the same regular expression as a value.
#[derive(Debug, Clone)]
pub struct RegexFilter {
    /// Where the string is.
    pub path: FieldPath,
    pattern: String,
    options: String,
    compiled: RegularExpression,
}

impl RegexFilter {
    /// Compiles a pattern with options among `imsxu`.
    pub fn new(path: FieldPath, pattern: &str, options: &str) -> Result<Self> {
        let compiled = RegularExpression::new(pattern, options, PatternTranslation::MachineCode).map_err(refusal)?;
        Ok(Self { path, pattern: pattern.to_owned(), options: options.to_owned(), compiled })
    }

    /// The pattern as given.
    pub fn pattern(&self) -> &str {
        &self.pattern
    }

    /// The options as given.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// The text that every matching string begins with, if the pattern is anchored and begins literally; and whether
    /// beginning with it is all there is to match. For index bounds.
    pub fn prefix(&self) -> Option<(String, bool)> {
        regular_expression::prefix(&self.pattern, &self.options)
    }

    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> Outcome {
        match value {
            Some(ValueView::String(text) | ValueView::Symbol(text)) => {
                self.compiled.is_match_in(text).map_err(|error| Box::new(error.into_query_error("$regex")))
            }
            Some(ValueView::RegularExpression { pattern, options }) => {
                Ok(pattern == self.pattern.as_bytes() && options == self.options.as_bytes())
            }
            _ => Ok(false),
        }
    }
}

fn refusal(error: PatternError) -> QueryError {
    let numbered = |number, message| QueryError::new(ErrorKind::Location(number), message);
    let bad_value = |message| QueryError::new(ErrorKind::BadValue, message);
    match error {
        PatternError::TooLong => bad_value("Regular expression is too long"),
        PatternError::NullByte => bad_value("Regular expression cannot contain an embedded null byte"),
        PatternError::Option(letter) => numbered(51108, format!("invalid flag in regex options: {letter}")),
        PatternError::Invalid(reason) => numbered(51091, format!("Regular expression is invalid: {reason}")),
    }
}

/// `{path: {$regex: pattern, $options: letters}}`, called for the `$regex` of the two.
pub(crate) fn parse(operand: &FieldOperand<'_>) -> Result<FilterNode> {
    let options = match operand.siblings.get("$options")? {
        None => None,
        Some(RawBsonRef::String(options)) if options.contains('\0') => {
            return bad_value("Regular expression options string cannot contain an embedded null byte");
        }
        Some(RawBsonRef::String(options)) => Some(options),
        Some(_) => return bad_value("$options has to be a string"),
    };
    let (pattern, options) = match operand.value {
        RawBsonRef::String(pattern) => (pattern, options.unwrap_or("")),
        RawBsonRef::RegularExpression(regex) => {
            let own = regex.options.as_str();
            match options {
                Some(_) if !own.is_empty() => return both_options(operand),
                given => (regex.pattern.as_str(), given.unwrap_or(own)),
            }
        }
        _ => return bad_value("$regex has to be a string"),
    };
    RegexFilter::new(operand.path.clone(), pattern, options).map(FilterNode::Regex)
}

/// The code tells which of the two came second.
fn both_options<T>(operand: &FieldOperand<'_>) -> Result<T> {
    let names = operand.siblings.iter_elements().flatten();
    let options_last =
        names.map(|element| element.key().as_str()).filter(|name| matches!(*name, "$regex" | "$options"));
    let code = if options_last.last() == Some("$options") { 51075 } else { 51074 };
    Err(QueryError::new(ErrorKind::Location(code), "options set in both $regex and $options"))
}

/// `$options` is read with its `$regex`; alone it is an error.
pub(crate) fn check_options(operand: &FieldOperand<'_>) -> Result<()> {
    match operand.siblings.get("$regex")? {
        Some(_) => Ok(()),
        None => bad_value("$options needs a $regex"),
    }
}
