//! `$concat`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$concat", "Strings joined end to end.", Arity::Any, concat)];

fn concat<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let mut joined = String::new();
    for argument in arguments.iter() {
        if argument.is_nullish() {
            return Ok(Value::NULL);
        }
        let Some(text) = argument.as_str() else {
            let text = format!("only supports strings, not {}", argument.type_name());
            return Err(operator.error(ErrorKind::Location(16702), text));
        };
        check_growth(joined.len() + text.len(), text.len())?;
        joined.push_str(text);
    }
    Ok(joined.into())
}
