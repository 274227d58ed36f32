//! `$slice`: a run of an array's elements.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[Operator::eager(
    "$slice",
    "The first or last n elements of an array, or n from a position on.",
    Arity::Between(2, 3),
    slice,
)];

fn slice<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    if arguments.iter().any(Value::is_nullish) {
        return Ok(Value::NULL);
    }
    let (value, second, third) = match arguments {
        [value, second] => (&*value, &*second, None),
        [value, second, third] => (&*value, &*second, Some(&*third)),
        _ => return Err(operator.misplaced()),
    };
    let Some(array) = value.as_array() else {
        let found = value.type_name();
        return Err(numbered(28724, format!("First argument to $slice must be an array, but is of type: {found}")));
    };
    let second = integer(second, "Second", 28725, 28726)?;
    let length = array.into_iter().count();
    let (start, count) = match third {
        None if second >= 0 => (0, second as usize),
        None => (length.saturating_sub(second.unsigned_abs() as usize), length),
        Some(third) => {
            let count = integer(third, "Third", 28727, 28728)?;
            if count <= 0 {
                return Err(numbered(28729, format!("Third argument to $slice must be positive: {count}")));
            }
            let start = match usize::try_from(second) {
                Ok(start) => start,
                Err(_) => length.saturating_sub(second.unsigned_abs() as usize),
            };
            (start, count as usize)
        }
    };
    let mut run = BuiltArray::default();
    for element in array.into_iter().skip(start).take(count) {
        run.push(element?)?;
    }
    Ok(run.into_array().into())
}

fn integer(value: &Value<'_>, which: &str, not_numeric: u32, not_integral: u32) -> Result<i32> {
    let given = value.or_null();
    if !number::is_number(given) {
        let found = value.type_name();
        let message = format!("{which} argument to $slice must be a numeric value, but is of type: {found}");
        return Err(numbered(not_numeric, message));
    }
    number::to_i32_exact(given).ok_or_else(|| {
        let shown = show(given);
        let message = format!("{which} argument to $slice can't be represented as a 32-bit integer: {shown}");
        numbered(not_integral, message)
    })
}
