//! `$min` and `$max` in BSON order; null and missing do not count, and null is the result when nothing does.

use std::cmp::Ordering;

use bson::raw::{RawBson, RawBsonRef};
use document::Number;

use super::{Accumulator, Input, optional_to_partial, partial_elements, value_bytes};
use crate::error::Result;
use crate::expression::Value;
use crate::expression::order::compare;
use crate::rows::Slot;

#[derive(Debug, Clone)]
pub(super) struct Extreme {
    best: Option<RawBson>,
    /// How a value compares with the best one to replace it.
    replaces: Ordering,
}

impl Extreme {
    pub(super) fn least() -> Self {
        Extreme { best: None, replaces: Ordering::Less }
    }

    pub(super) fn greatest() -> Self {
        Extreme { best: None, replaces: Ordering::Greater }
    }
}

pub(super) fn make_min() -> Box<dyn Accumulator> {
    Box::new(Extreme::least())
}

pub(super) fn make_max() -> Box<dyn Accumulator> {
    Box::new(Extreme::greatest())
}

impl Accumulator for Extreme {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let value = input.into_value();
        if value.is_nullish() {
            return Ok(());
        }
        let best = self.best.as_ref().map(RawBson::as_raw_bson_ref);
        if best.is_none() || compare(value.get(), best) == self.replaces {
            self.best = value.into_raw_bson();
        }
        Ok(())
    }

    #[inline]
    fn accumulate_slot(&mut self, slot: Slot, bytes: &[u8]) -> Result<()> {
        let best = self.best.as_ref().and_then(|best| Number::from_bson(best.as_raw_bson_ref()));
        if let (Some(number), Some(best)) = (slot.number(), best) {
            if number.compare(best) == self.replaces {
                self.best = Some(number.to_bson());
            }
            return Ok(());
        }
        let value = slot.value(bytes);
        crate::growth::before_copying(value, 1)?;
        self.accumulate(Input::Value(value.into()))
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.best.clone().map_or(Value::NULL, Value::Owned))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.best.as_ref().map_or(0, value_bytes)
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(optional_to_partial(self.best.as_ref()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}
