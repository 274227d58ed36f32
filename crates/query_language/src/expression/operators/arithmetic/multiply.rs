//! `$multiply`.

use document::Number;

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$multiply", "The product of numbers.", Arity::Any, multiply)];

fn multiply<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut product = Number::Int32(1);
    for argument in arguments.iter() {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(number) = Number::from_bson(argument.or_null()) else {
            let text = format!("only supports numeric types, not {}", argument.type_name());
            return Err(operator.error(ErrorKind::TypeMismatch, text));
        };
        product = product.multiply(number);
    }
    Ok(product.into())
}
