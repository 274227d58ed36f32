//! `$firstN` and `$lastN`: the values of the first or last n documents, null where missing.

use std::collections::VecDeque;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};

use super::{Accumulator, Input, partial_elements, value_bytes};
use crate::error::Result;
use crate::expression::Value;

#[derive(Debug)]
struct EndN {
    count: usize,
    keep_first: bool,
    values: VecDeque<RawBson>,
    bytes: usize,
}

pub(super) fn make_first(count: usize) -> Box<dyn Accumulator> {
    Box::new(EndN { count, keep_first: true, values: VecDeque::new(), bytes: 0 })
}

pub(super) fn make_last(count: usize) -> Box<dyn Accumulator> {
    Box::new(EndN { count, keep_first: false, values: VecDeque::new(), bytes: 0 })
}

impl Accumulator for EndN {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if self.values.len() == self.count {
            if self.keep_first {
                return Ok(());
            }
            if let Some(dropped) = self.values.pop_front() {
                self.bytes -= value_bytes(&dropped);
            }
        }
        let value = input.into_value().into_raw_bson().unwrap_or(RawBson::Null);
        self.bytes += value_bytes(&value);
        self.values.push_back(value);
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        Ok(self.values.iter().map(RawBson::as_raw_bson_ref).collect::<RawArrayBuf>().into())
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Array(self.values.iter().map(RawBson::as_raw_bson_ref).collect()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        partial_elements(partial).try_for_each(|value| self.accumulate(Input::Value(value.into())))
    }
}
