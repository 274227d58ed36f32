//! `$push`: every value that is not missing, in order.

use bson::raw::{RawBson, RawBsonRef};

use super::{Accumulator, Input, partial_elements};
use crate::error::Result;
use crate::expression::Value;
use crate::growth::BuiltArray;

#[derive(Debug)]
struct Push(BuiltArray);

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(Push(BuiltArray::default()))
}

impl Accumulator for Push {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(value) = input.into_value().get() {
            self.0.push(value)?;
        }
        Ok(())
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
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}
