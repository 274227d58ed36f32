//! `$bitAnd`, `$bitOr`, `$bitXor`, `$bitNot` over ints and longs.

use document::Number;

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$bitAnd", "The bitwise and of integers.", Arity::Any, and),
    Operator::eager("$bitNot", "The bitwise complement of an integer.", Arity::Exactly(1), not),
    Operator::eager("$bitOr", "The bitwise or of integers.", Arity::Any, or),
    Operator::eager("$bitXor", "The bitwise exclusive or of integers.", Arity::Any, xor),
];

fn and<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    combine(operator, arguments, -1, |left, right| left & right)
}

fn or<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    combine(operator, arguments, 0, |left, right| left | right)
}

fn xor<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    combine(operator, arguments, 0, |left, right| left ^ right)
}

fn not<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    match value.get() {
        _ if value.is_nullish() => Ok(Value::NULL),
        Some(RawBsonRef::Int32(value)) => Ok((!value).into()),
        Some(RawBsonRef::Int64(value)) => Ok((!value).into()),
        _ => Err(not_an_integer(operator, value)),
    }
}

/// An int when all are, otherwise a long: ints are sign-extended, so the low half is right either way.
fn combine<'a>(
    operator: &'static Operator,
    arguments: &[Value<'a>],
    identity: i64,
    operation: fn(i64, i64) -> i64,
) -> Result<Value<'a>> {
    let (mut bits, mut all_int) = (identity, true);
    for argument in arguments {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let number = Number::from_bson(argument.or_null());
        let Some(integer) = number.and_then(Number::integer) else { return Err(not_an_integer(operator, argument)) };
        all_int &= matches!(number, Some(Number::Int32(_)));
        bits = operation(bits, integer);
    }
    Ok(if all_int { (bits as i32).into() } else { bits.into() })
}

fn not_an_integer(operator: &Operator, value: &Value<'_>) -> QueryError {
    operator.error(ErrorKind::TypeMismatch, format!("only supports int and long, not: {}.", value.type_name()))
}
