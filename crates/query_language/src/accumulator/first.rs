//! `$first` and `$last`: the value of the first or last document, null when it is missing there.

use bson::raw::{RawBson, RawBsonRef};

use super::{Accumulator, Input, optional_to_partial, partial_elements, value_bytes};
use crate::error::Result;
use crate::expression::Value;
use crate::rows::Slot;

#[derive(Debug, Clone, Default)]
pub(super) struct First(Option<RawBson>);

#[derive(Debug, Clone, Default)]
pub(super) struct Last(Option<RawBson>);

pub(super) fn make_first() -> Box<dyn Accumulator> {
    Box::new(First::default())
}

pub(super) fn make_last() -> Box<dyn Accumulator> {
    Box::new(Last::default())
}

fn present(input: Input<'_>) -> RawBson {
    input.into_value().into_raw_bson().unwrap_or(RawBson::Null)
}

impl Accumulator for First {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if self.0.is_none() {
            self.0 = Some(present(input));
        }
        Ok(())
    }

    #[inline]
    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        if self.0.is_none() {
            let value = slot.value(bytes);
            crate::growth::before_copying(value, 1)?;
            self.accumulate(Input::Value(value.into()))?;
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.0.clone().map_or(Value::NULL, Value::Owned))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, value_bytes)
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(optional_to_partial(self.0.as_ref()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}

impl Accumulator for Last {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        self.0 = Some(present(input));
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.0.clone().map_or(Value::NULL, Value::Owned))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.0.as_ref().map_or(0, value_bytes)
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(optional_to_partial(self.0.as_ref()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}
