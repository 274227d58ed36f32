//! `$minN` and `$maxN`: the n least or greatest values, in that order; null and missing do not count.

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};

use super::{Accumulator, Input, partial_elements, value_bytes};
use crate::error::Result;
use crate::expression::Value;
use crate::expression::order::compare;

#[derive(Debug)]
struct ExtremeN {
    count: usize,
    descending: bool,
    /// At most `count` values, best first.
    best: Vec<RawBson>,
    bytes: usize,
}

pub(super) fn make_min(count: usize) -> Box<dyn Accumulator> {
    Box::new(ExtremeN { count, descending: false, best: Vec::new(), bytes: 0 })
}

pub(super) fn make_max(count: usize) -> Box<dyn Accumulator> {
    Box::new(ExtremeN { count, descending: true, best: Vec::new(), bytes: 0 })
}

impl Accumulator for ExtremeN {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        let value = input.into_value();
        if value.is_nullish() {
            return Ok(());
        }
        let position = self.best.partition_point(|known| {
            let ordering = compare(Some(known.as_raw_bson_ref()), value.get());
            if self.descending { ordering.is_ge() } else { ordering.is_le() }
        });
        if position < self.count
            && let Some(value) = value.into_raw_bson()
        {
            self.bytes += value_bytes(&value);
            self.best.insert(position, value);
        }
        if self.best.len() > self.count
            && let Some(dropped) = self.best.pop()
        {
            self.bytes -= value_bytes(&dropped);
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.best.iter().map(RawBson::as_raw_bson_ref).collect::<RawArrayBuf>().into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Array(self.best.iter().map(RawBson::as_raw_bson_ref).collect()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}
