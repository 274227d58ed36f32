//! `$addToSet`: every distinct value that is not missing, in the order of first appearance. `$setUnion`: the same of the
//! elements of arrays.

use std::collections::HashSet;

use bson::raw::{RawBson, RawBsonRef};

use super::concat_arrays::each_element;
use super::{Accumulator, Input, partial_elements, value_bytes};
use crate::error::Result;
use crate::expression::Value;
use crate::expression::order::ValueKey;
use crate::growth::BuiltArray;

#[derive(Debug, Default)]
struct AddToSet {
    seen: HashSet<ValueKey>,
    values: BuiltArray,
    bytes: usize,
}

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(AddToSet::default())
}

#[derive(Debug, Default)]
struct SetUnion(AddToSet);

pub(super) fn make_union() -> Box<dyn Accumulator> {
    Box::new(SetUnion::default())
}

impl Accumulator for SetUnion {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let value = input.into_value();
        each_element("$setUnion", &value, |element| self.0.accumulate(Input::Value(element.into())))
    }

    fn finish(&self) -> Result<Value<'static>> {
        self.0.finish()
    }

    fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }

    fn to_partial(&self) -> Result<RawBson> {
        self.0.to_partial()
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        self.0.merge(partial)
    }
}

impl Accumulator for AddToSet {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let Some(value) = input.into_value().into_raw_bson() else { return Ok(()) };
        let bytes = value_bytes(&value);
        let key = ValueKey(Some(value));
        if !self.seen.contains(&key) {
            self.bytes += bytes;
            self.values.push(key.get().unwrap_or(RawBsonRef::Null))?;
            self.seen.insert(key);
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.values.as_array().to_owned().into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes + self.values.as_array().as_bytes().len()
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Array(self.values.as_array().to_owned()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}
