//! Dotted field paths of expressions: validation and evaluation.
//!
//! Unlike a filter's path, an expression's never reads a component as an array position: over an array it collects
//! the values of the documents in it, one level deep.

use bson::raw::{RawArray, RawArrayBuf, RawBsonRef, RawDocument};
use document::{array_elements, get_field, work};

use super::value::Value;
use crate::error::{ErrorKind, QueryError, Result};
use crate::growth::BuiltArray;
use crate::rows::Row;

/// Components a path may have, as MongoDB limits nesting.
const COMPONENTS_MAX: usize = 200;

/// A validated dotted path: no component is empty, holds a null byte, or begins with `$`, unless it is a field of a DBRef.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPath(document::FieldPath);

impl FieldPath {
    /// Validates a path without its leading `$`.
    pub fn parse(text: &str) -> Result<Self> {
        if text.is_empty() {
            let message = "FieldPath cannot be constructed with empty string";
            return Err(QueryError::new(ErrorKind::Location(40352), message));
        }
        if text.ends_with('.') {
            return Err(QueryError::new(ErrorKind::Location(40353), "FieldPath must not end with a '.'."));
        }
        text.split('.').try_for_each(check_component)?;
        let path = document::FieldPath::new(text);
        if path.len() > COMPONENTS_MAX {
            return Err(QueryError::new(ErrorKind::Overflow, "FieldPath is too long"));
        }
        Ok(Self(path))
    }

    /// The dotted text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// The path as other parts of the query language use it.
    pub fn as_path(&self) -> &document::FieldPath {
        &self.0
    }

    /// Whether one of two paths leads to the other: they are the same, or one is a field of the other.
    pub fn overlaps(&self, other: &FieldPath) -> bool {
        self.0.is_prefix_of(&other.0) || other.0.is_prefix_of(&self.0)
    }

    /// The value at this path of a document.
    ///
    /// # Errors
    /// There is no memory for what is collected along arrays.
    #[inline]
    pub fn evaluate<'a>(&self, document: &'a RawDocument) -> Result<Value<'a>> {
        self.evaluate_from(document, 0)
    }

    /// The value at this path of any value: arrays are mapped over, scalars have no fields.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn evaluate_value<'a>(&self, value: RawBsonRef<'a>) -> Result<Value<'a>> {
        match value {
            RawBsonRef::Document(document) => self.evaluate_from(document, 0),
            RawBsonRef::Array(array) => Ok(self.collect_from(array, 0)?.into()),
            _ => Ok(Value::Missing),
        }
    }

    /// The value at this path of a row.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub(crate) fn evaluate_in_row<'a>(&self, row: Row<'a>) -> Result<Value<'a>> {
        let value = row.value(self.0.first());
        if self.0.len() == 1 {
            return Ok(value.into());
        }
        match value {
            Some(RawBsonRef::Document(inner)) => self.evaluate_from(inner, 1),
            Some(RawBsonRef::Array(array)) => Ok(self.collect_from(array, 1)?.into()),
            _ => Ok(Value::Missing),
        }
    }

    fn evaluate_from<'a>(&self, mut document: &'a RawDocument, first: usize) -> Result<Value<'a>> {
        for position in first..self.0.len() {
            work::note_search(document.as_bytes());
            let Some(value) = get_field(document, self.0.name(position)) else { return Ok(Value::Missing) };
            if position + 1 == self.0.len() {
                return Ok(Value::Borrowed(value));
            }
            match value {
                RawBsonRef::Document(inner) => document = inner,
                RawBsonRef::Array(array) => return Ok(self.collect_from(array, position + 1)?.into()),
                _ => return Ok(Value::Missing),
            }
        }
        Ok(Value::Missing)
    }

    fn collect_from(&self, array: &RawArray, position: usize) -> Result<RawArrayBuf> {
        let mut collected = BuiltArray::default();
        work::count(work::of_elements(array.as_bytes().len()));
        for element in array_elements(array) {
            if let RawBsonRef::Document(document) = element.value()
                && let Some(value) = self.evaluate_from(document, position)?.get()
            {
                collected.push(value)?;
            }
        }
        Ok(collected.into_array())
    }
}

/// Refuses a path component that is empty, begins with `$` or holds a null byte; fields of DBRefs are allowed.
pub(crate) fn check_component(name: &str) -> Result<()> {
    if matches!(name, "$ref" | "$id" | "$db") { Ok(()) } else { check_field_name(name) }
}

/// Refuses an output field name that is empty, begins with `$` or holds a null byte.
pub(crate) fn check_field_name(name: &str) -> Result<()> {
    if name.is_empty() {
        return Err(QueryError::new(ErrorKind::Location(15998), "FieldPath field names may not be empty strings."));
    }
    if name.starts_with('$') {
        let message = "FieldPath field names may not start with '$'. Consider using $getField or $setField.";
        return Err(QueryError::new(ErrorKind::Location(16410), message));
    }
    if name.contains('\0') {
        let message = "FieldPath field names may not contain '\\0'.";
        return Err(QueryError::new(ErrorKind::Location(16411), message));
    }
    Ok(())
}
