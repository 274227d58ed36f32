//! `$subtract`: numbers, the milliseconds between dates, or a date some milliseconds earlier.

use bson::DateTime;
use document::Number;

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::eager(
    "$subtract",
    "The difference of two numbers, of two dates, or of a date and milliseconds.",
    Arity::Exactly(2),
    subtract,
)];

fn subtract<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else { return Err(operator.misplaced()) };
    let overflow = || QueryError::new(ErrorKind::Overflow, "date overflow in $subtract");
    match (left.or_null(), right.or_null()) {
        _ if left.is_nullish() || right.is_nullish() => Ok(Value::NULL),
        (RawBsonRef::DateTime(left), RawBsonRef::DateTime(right)) => {
            let difference = left.timestamp_millis().checked_sub(right.timestamp_millis());
            difference.map(Value::from).ok_or_else(overflow)
        }
        (RawBsonRef::DateTime(date), shift) if number::is_number(shift) => {
            let shift = Number::from_bson(shift).and_then(number::whole_milliseconds);
            let moved = shift.and_then(|shift| date.timestamp_millis().checked_sub(shift));
            moved.map(|moved| DateTime::from_millis(moved).into()).ok_or_else(overflow)
        }
        (first, second) => match (Number::from_bson(first), Number::from_bson(second)) {
            (Some(first), Some(second)) => Ok(first.subtract(second).into()),
            _ => {
                let message = format!("can't $subtract {} from {}", right.type_name(), left.type_name());
                Err(QueryError::new(ErrorKind::TypeMismatch, message))
            }
        },
    }
}
