//! `$stdDevPop` and `$stdDevSamp`: by Welford's method, in doubles; other values than numbers do not count.

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};
use document::Number;

use super::{Accumulator, Input, partial_elements};
use crate::error::Result;
use crate::expression::Value;

#[derive(Debug, Default)]
struct StandardDeviation {
    sample: bool,
    count: i64,
    mean: f64,
    /// The sum of the squared distances from the mean.
    squares: f64,
}

pub(super) fn make_population() -> Box<dyn Accumulator> {
    Box::new(StandardDeviation::default())
}

pub(super) fn make_sample() -> Box<dyn Accumulator> {
    Box::new(StandardDeviation { sample: true, ..StandardDeviation::default() })
}

impl Accumulator for StandardDeviation {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(number) = Number::from_bson(input.into_value().or_null()) {
            let value = number.to_f64();
            self.count += 1;
            let distance = value - self.mean;
            self.mean += distance / self.count as f64;
            self.squares += distance * (value - self.mean);
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        let divisor = self.count - i64::from(self.sample);
        match divisor {
            ..=0 => Ok(Value::NULL),
            divisor => Ok((self.squares / divisor as f64).sqrt().into()),
        }
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }

    fn to_partial(&self) -> Result<RawBson> {
        let mut partial = RawArrayBuf::new();
        partial.push(self.count);
        partial.push(self.mean);
        partial.push(self.squares);
        Ok(RawBson::Array(partial))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        let parts: Vec<_> = partial_elements(partial).collect();
        let [RawBsonRef::Int64(count), RawBsonRef::Double(mean), RawBsonRef::Double(squares)] = parts.as_slice() else {
            return Ok(());
        };
        if *count == 0 {
            return Ok(());
        }
        let (ours, theirs, all) = (self.count as f64, *count as f64, (self.count + count) as f64);
        let distance = mean - self.mean;
        self.mean += distance * theirs / all;
        self.squares += squares + distance * distance * ours * theirs / all;
        self.count += count;
        Ok(())
    }
}
