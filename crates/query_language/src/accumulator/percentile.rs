//! `$percentile` and `$median`: the number below which a share of all numbers lies.
//!
//! The method `approximate` allows any number near enough; here it is one of the numbers themselves, the least that the share does not exceed.
//! All are kept, as doubles; other values than numbers do not count.

use std::cell::RefCell;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef};
use document::{Number, work};

use super::{Accumulator, Input, partial_elements};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::Value;

/// The only method there is.
pub(crate) const METHOD: &str = "approximate";

/// Shares that are asked for, and whether the answer is one number alone.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    pub(crate) shares: Vec<f64>,
    pub(crate) is_median: bool,
}

impl Shares {
    /// One half.
    pub(crate) fn median() -> Self {
        Self { shares: vec![0.5], is_median: true }
    }

    /// Those of an array.
    pub(crate) fn parse(value: RawBsonRef<'_>) -> Result<Self> {
        let refuse = |number, message: &str| {
            let shown = crate::filter::value_text::value(value);
            QueryError::new(ErrorKind::Location(number), format!("{message}, but found: {shown}"))
        };
        let RawBsonRef::Array(array) = value else {
            return Err(refuse(7750300, "The $percentile 'p' field must be an array of constant values"));
        };
        let mut shares = Vec::new();
        for element in array {
            let Some(share) = Number::from_bson(element?).map(Number::to_f64) else {
                return Err(refuse(7750302, "The $percentile 'p' field must be an array of numbers from [0.0, 1.0]"));
            };
            if !(0.0..=1.0).contains(&share) {
                return Err(refuse(7750303, "The $percentile 'p' field must be an array of numbers from [0.0, 1.0]"));
            }
            shares.push(share);
        }
        if shares.is_empty() {
            return Err(refuse(7750301, "The $percentile 'p' field cannot be an empty array"));
        }
        Ok(Self { shares, is_median: false })
    }

    /// Refuses another method than the one there is.
    pub(crate) fn check_method(method: RawBsonRef<'_>) -> Result<()> {
        match method {
            RawBsonRef::String(METHOD) => Ok(()),
            RawBsonRef::String(_) => {
                let message = "Currently only 'approximate' can be used as percentile 'method'.";
                Err(QueryError::new(ErrorKind::BadValue, message))
            }
            other => {
                let found = crate::expression::value::type_name(other.element_type());
                let message =
                    format!("BSON field '$percentile.method' is the wrong type '{found}', expected type 'string'");
                Err(QueryError::new(ErrorKind::TypeMismatch, message))
            }
        }
    }

    /// The answer for numbers.
    fn of(&self, numbers: &mut [f64]) -> Value<'static> {
        numbers.sort_unstable_by(f64::total_cmp);
        let number_at = |share: f64| {
            let place = ((share * numbers.len() as f64).ceil() as usize).saturating_sub(1);
            numbers.get(place).map_or(RawBson::Null, |number| RawBson::Double(*number))
        };
        match (self.is_median, self.shares.first()) {
            (true, Some(share)) => number_at(*share).into(),
            _ => {
                let all = self.shares.iter().map(|share| number_at(*share));
                RawBson::Array(all.collect::<RawArrayBuf>()).into()
            }
        }
    }
}

#[derive(Debug)]
struct Percentile {
    shares: Shares,
    /// Sorted when there is an answer; the order does not matter.
    numbers: RefCell<Vec<f64>>,
}

pub(crate) fn make(shares: &Shares) -> Box<dyn Accumulator> {
    Box::new(Percentile { shares: shares.clone(), numbers: RefCell::new(Vec::new()) })
}

impl Accumulator for Percentile {
    fn accumulate(&mut self, input: Input<'_>) -> Result<()> {
        if let Some(number) = Number::from_bson(input.into_value().or_null()).map(Number::to_f64)
            && !number.is_nan()
        {
            self.numbers.get_mut().push(number);
        }
        Ok(())
    }

    fn finish(&self) -> Result<Value<'static>> {
        let mut numbers = self.numbers.borrow_mut();
        work::done(numbers.len())?;
        Ok(self.shares.of(&mut numbers))
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.numbers.borrow().capacity() * size_of::<f64>()
    }

    fn to_partial(&self) -> Result<RawBson> {
        Ok(RawBson::Array(self.numbers.borrow().iter().copied().collect()))
    }

    fn merge(&mut self, partial: RawBsonRef<'_>) -> Result<()> {
        for number in partial_elements(partial).filter_map(|value| value.as_f64()) {
            work::step()?;
            self.numbers.get_mut().push(number);
        }
        Ok(())
    }
}
