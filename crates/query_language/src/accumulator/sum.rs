//! `$sum`: the numbers added up, in the widest type seen; other values do not count.

use bson::raw::{RawBson, RawBsonRef};
use document::Number;

use super::{Accumulator, Input};
use crate::error::Result;
use crate::expression::Value;
use crate::expression::summation::Summation;
use crate::rows::Slot;

#[derive(Debug, Clone, Default)]
pub(super) struct Sum(Summation);

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(Sum::default())
}

impl Accumulator for Sum {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(number) = Number::from_bson(input.into_value().or_null()) {
            self.0.add(number);
        }
        Ok(())
    }

    #[inline]
    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        if let Some(number) = slot.number() {
            self.0.add(number);
            return Ok(());
        }
        self.accumulate(Input::Value(slot.value(bytes).into()))
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.0.total().into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.bytes_elsewhere()
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Array(self.0.to_partial()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        if let Some(partial) = partial.as_array() {
            self.0.merge(partial);
        }
        Ok(())
    }
}
