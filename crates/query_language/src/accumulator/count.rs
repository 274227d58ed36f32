//! `$count`: how many documents there are, an int while it fits.

use bson::raw::{RawBson, RawBsonRef};
use document::Number;

use super::{Accumulator, Input};
use crate::error::Result;
use crate::expression::Value;
use crate::rows::Slot;

#[derive(Debug, Clone, Default)]
pub(super) struct Count(i64);

pub(super) fn make() -> Box<dyn Accumulator> {
    Box::new(Count::default())
}

impl Accumulator for Count {
    fn accumulate(&mut self, _: Input<'_>) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    #[inline]
    fn accumulate_slot(&mut self, _: Slot, _: &[u8]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(Number::from_i64_narrowed(self.0).into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Int64(self.0))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        self.0 += partial.as_i64().unwrap_or(0);
        Ok(())
    }
}
