//! `$concatArrays`: the elements of every array, one array after the other.
//!
//! Source: the manual's page on the accumulator: a missing value adds nothing, and anything else must be an array.

use bson::raw::{RawBson, RawBsonRef};
use document::{array_elements, work};

use super::{Accumulator, Input, partial_elements};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::{Value, show_value};
use crate::growth::BuiltArray;

#[derive(Debug, Default)]
struct ConcatArrays(BuiltArray);

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(ConcatArrays::default())
}

/// The elements of an array; none of what is missing.
///
/// # Errors
/// `TypeMismatch` for what is no array; those of `take`.
pub(super) fn each_element(
    name: &str,
    value: &Value<'_>,
    mut take: impl FnMut(RawBsonRef<'_>) -> Result<()>,
) -> Result<()> {
    let Some(given) = value.get() else { return Ok(()) };
    let RawBsonRef::Array(array) = given else {
        let message =
            format!("{name} requires array inputs, but input {} is of type {}", show_value(given), value.type_name());
        return Err(QueryError::new(ErrorKind::TypeMismatch, message));
    };
    for element in array_elements(array) {
        work::step()?;
        take(element.value())?;
    }
    Ok(())
}

impl Accumulator for ConcatArrays {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        each_element("$concatArrays", &input.into_value(), |element| self.0.push(element))
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.0.as_array().to_owned().into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_array().as_bytes().len()
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Array(self.0.as_array().to_owned()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.0.push(value))
    }
}
