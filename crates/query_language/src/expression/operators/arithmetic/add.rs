//! `$add`: the sum of numbers, or a date and milliseconds.

use bson::DateTime;
use document::Number;

use crate::expression::operators::prelude::*;
use crate::expression::summation::Summation;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$add", "The sum of numbers; with one date among them, a date.", Arity::Any, add)];

fn add<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut sum = Summation::new();
    let mut date: Option<DateTime> = None;
    for argument in arguments.iter() {
        match argument.get() {
            None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => return Ok(Value::NULL),
            Some(RawBsonRef::DateTime(_)) if date.is_some() => {
                return Err(numbered(16612, "only one date allowed in an $add expression"));
            }
            Some(RawBsonRef::DateTime(value)) => date = Some(value),
            Some(value) => match Number::from_bson(value) {
                Some(number) => sum.add(number),
                None => {
                    let text = format!("only supports numeric or date types, not {}", argument.type_name());
                    return Err(operator.error(ErrorKind::TypeMismatch, text));
                }
            },
        }
    }
    match date {
        None => Ok(sum.total().into()),
        Some(date) => shift_date(date, sum.total()),
    }
}

/// A date moved by a number of milliseconds.
fn shift_date<'a>(date: DateTime, milliseconds: Number) -> Result<Value<'a>> {
    let whole = number::whole_milliseconds(milliseconds);
    let moved = whole.and_then(|shift| date.timestamp_millis().checked_add(shift));
    match moved {
        Some(moved) => Ok(DateTime::from_millis(moved).into()),
        None => Err(QueryError::new(ErrorKind::Overflow, "date overflow in $add")),
    }
}
