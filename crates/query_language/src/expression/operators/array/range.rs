//! `$range`: the integers from a start to before an end.

use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::eager("$range", "The integers from a start to before an end, by a step.", Arity::Between(2, 3), range)];

/// Bytes that the result may take, MongoDB's limit for one stage's memory.
const RESULT_BYTES_MAX: i64 = 100 * 1024 * 1024;
/// Bytes of one element: type, key of up to eight digits, four bytes of value.
const ELEMENT_BYTES: i64 = 14;

fn range<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [start, end, rest @ ..] = &*arguments else { return Err(operator.misplaced()) };
    let start = i64::from(bound(start, "starting", 34443, 34444)?);
    let end = i64::from(bound(end, "ending", 34445, 34446)?);
    let step = rest.first().map(|step| bound(step, "step", 34447, 34448)).transpose()?.map_or(1, i64::from);
    if step == 0 {
        return Err(numbered(34449, "$range requires a non-zero step value"));
    }
    let count =
        if step > 0 { (end - start + step - 1).div_euclid(step) } else { (start - end - step - 1).div_euclid(-step) };
    if count.saturating_mul(ELEMENT_BYTES) > RESULT_BYTES_MAX {
        let message = format!("$range would use too much memory and cannot spill: {count} elements");
        return Err(QueryError::new(ErrorKind::ExceededMemoryLimit, message));
    }
    crate::before_allocating_if_large(usize::try_from(count.max(0) * ELEMENT_BYTES).unwrap_or(usize::MAX))?;
    let mut array = RawArrayBuf::new();
    for position in 0..count.max(0) {
        work::step()?;
        array.push((start + position * step) as i32);
    }
    Ok(array.into())
}

fn bound(value: &Value<'_>, which: &str, not_numeric: u32, not_integral: u32) -> Result<i32> {
    let given = value.or_null();
    let what = if which == "step" { "step value" } else { "value" };
    let which = if which == "step" { "a numeric".to_owned() } else { format!("a numeric {which}") };
    if !number::is_number(given) {
        let found = value.type_name();
        let message = format!("$range requires {which} {what}, found value of type: {found}");
        return Err(numbered(not_numeric, message));
    }
    number::to_i32_exact(given).ok_or_else(|| {
        let which = which.replacen(" numeric", "", 1);
        let shown = show(given);
        let message =
            format!("$range requires {which} {what} that can be represented as a 32-bit integer, found value: {shown}");
        numbered(not_integral, message)
    })
}
