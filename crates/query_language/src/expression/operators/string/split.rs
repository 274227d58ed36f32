//! `$split`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$split", "The parts of a string between separators.", Arity::Exactly(2), split)];

fn split<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [text, separator] = &*arguments else { return Err(operator.misplaced()) };
    if text.is_nullish() || separator.is_nullish() {
        return Ok(Value::NULL);
    }
    let not_a_string = |kind, which: &str, value: &Value<'_>| {
        let found = value.type_name();
        let text = format!("requires an expression that evaluates to a string as a {which} argument, found: {found}");
        operator.error(ErrorKind::Location(kind), text)
    };
    let subject = text.as_str().ok_or_else(|| not_a_string(40085, "first", text))?;
    let separator = separator.as_str().ok_or_else(|| not_a_string(40086, "second", separator))?;
    if separator.is_empty() {
        return Err(numbered(40087, "$split requires a non-empty separator"));
    }
    Ok(array_of(subject.split(separator).map(RawBsonRef::String))?.into())
}
