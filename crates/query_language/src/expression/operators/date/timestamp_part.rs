//! `$tsSecond` and `$tsIncrement`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$tsIncrement", "The ordinal of a timestamp within its second.", Arity::Exactly(1), increment),
    Operator::eager("$tsSecond", "The seconds of a timestamp.", Arity::Exactly(1), second),
];

fn increment<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    part(operator, arguments, 5687302, |time| time.increment)
}

fn second<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    part(operator, arguments, 5687301, |time| time.time)
}

fn part<'a>(
    operator: &'static Operator,
    arguments: &[Value<'a>],
    kind: u32,
    of_timestamp: fn(bson::Timestamp) -> u32,
) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    match value.get() {
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined) => Ok(Value::NULL),
        Some(RawBsonRef::Timestamp(time)) => Ok(i64::from(of_timestamp(time)).into()),
        Some(_) => {
            let message = format!("Argument to {} must be a timestamp, but is {}", operator.name, value.type_name());
            Err(numbered(kind, message))
        }
    }
}
