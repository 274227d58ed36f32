//! `$strLenBytes` and `$strLenCP`.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$strLenBytes", "The length of a string in UTF-8 bytes.", Arity::Exactly(1), bytes),
    Operator::eager("$strLenCP", "The length of a string in code points.", Arity::Exactly(1), code_points),
];

fn bytes<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    length(operator, arguments, 34473, str::len)
}

fn code_points<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    length(operator, arguments, 34471, |text| text.chars().count())
}

fn length<'a>(
    operator: &'static Operator,
    arguments: &[Value<'a>],
    kind: u32,
    measure: fn(&str) -> usize,
) -> Result<Value<'a>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    match value.as_str() {
        Some(text) => Ok((measure(text) as i32).into()),
        None => {
            let text = format!("requires a string argument, found: {}", value.type_name());
            Err(operator.error(ErrorKind::Location(kind), text))
        }
    }
}
