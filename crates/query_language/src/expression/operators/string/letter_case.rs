//! `$toLower`, `$toUpper`, `$strcasecmp`: of ASCII letters only.

use crate::expression::operators::prelude::*;
use crate::expression::text::coerce_to_string;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager(
        "$strcasecmp",
        "-1, 0 or 1: two strings compared without regard to case.",
        Arity::Exactly(2),
        compare_strings,
    ),
    Operator::eager("$toLower", "A string in lower case.", Arity::Exactly(1), to_lower),
    Operator::eager("$toUpper", "A string in upper case.", Arity::Exactly(1), to_upper),
];

fn to_lower<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    let text = coerce_to_string(value)?;
    check_growth(text.len(), text.len())?;
    Ok(text.to_ascii_lowercase().into())
}

fn to_upper<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value] = &*arguments else { return Err(operator.misplaced()) };
    let text = coerce_to_string(value)?;
    check_growth(text.len(), text.len())?;
    Ok(text.to_ascii_uppercase().into())
}

fn compare_strings<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [left, right] = &*arguments else { return Err(operator.misplaced()) };
    let (left, right) = (coerce_to_string(left)?, coerce_to_string(right)?);
    let upper = left.bytes().map(|byte| byte.to_ascii_uppercase());
    Ok((upper.cmp(right.bytes().map(|byte| byte.to_ascii_uppercase())) as i32).into())
}
