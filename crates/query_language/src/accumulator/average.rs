//! `$avg`: the mean of the numbers; null when there is none.

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};
use document::Number;

use super::{Accumulator, Input, partial_elements};
use crate::error::Result;
use crate::expression::Value;
use crate::expression::summation::Summation;
use crate::rows::Slot;

#[derive(Debug, Clone, Default)]
pub(super) struct Average {
    sum: Summation,
    count: u64,
}

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(Average::default())
}

impl Accumulator for Average {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(number) = Number::from_bson(input.into_value().or_null()) {
            self.sum.add(number);
            self.count += 1;
        }
        Ok(())
    }

    #[inline]
    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        if let Some(number) = slot.number() {
            self.sum.add(number);
            self.count += 1;
            return Ok(());
        }
        self.accumulate(Input::Value(slot.value(bytes).into()))
    }

    fn finish(&self) -> Result<Value<'static>> {
        match self.count {
            0 => Ok(Value::NULL),
            count => Ok(self.sum.mean(count).into()),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.sum.bytes_elsewhere()
    }

    fn to_partial(&self) -> Result<RawBson> {
        let mut partial = RawArrayBuf::new();
        partial.push(self.count as i64);
        partial.push(self.sum.to_partial());
        Ok(RawBson::Array(partial))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        for part in partial_elements(partial) {
            match part {
                RawBsonRef::Int64(count) => self.count += count as u64,
                RawBsonRef::Array(sum) => self.sum.merge(sum),
                _ => {}
            }
        }
        Ok(())
    }
}
