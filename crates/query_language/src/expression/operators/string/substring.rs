//! `$substrBytes` (also `$substr`) and `$substrCP`.

use document::Number;

use crate::expression::operators::prelude::*;
use crate::expression::text::coerce_to_string;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::eager("$substr", "Another name of $substrBytes.", Arity::Exactly(3), of_bytes),
    Operator::eager("$substrBytes", "A run of a string's UTF-8 bytes.", Arity::Exactly(3), of_bytes),
    Operator::eager("$substrCP", "A run of a string's code points.", Arity::Exactly(3), of_code_points),
];

fn of_bytes<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value, start, length] = &*arguments else { return Err(operator.misplaced()) };
    let text = coerce_to_string(value)?;
    let start = byte_position(start, "starting index", 16034)?;
    let length = byte_position(length, "length", 16035)?;
    let Ok(start) = usize::try_from(start) else {
        let message = format!("$substrBytes:  starting index must be non-negative (got: {start})");
        return Err(numbered(50752, message));
    };
    if start >= text.len() {
        return Ok(Value::from(String::new()));
    }
    if !text.is_char_boundary(start) {
        let message = "$substrBytes:  Invalid range, starting index is a UTF-8 continuation byte.";
        return Err(numbered(28656, message));
    }
    let end = usize::try_from(length).map_or(text.len(), |length| start.saturating_add(length).min(text.len()));
    match text.get(start..end) {
        Some(run) => {
            check_growth(run.len(), run.len())?;
            Ok(run.to_owned().into())
        }
        None => {
            let message = "$substrBytes:  Invalid range, ending index is in the middle of a UTF-8 character.";
            Err(numbered(28657, message))
        }
    }
}

fn byte_position(value: &Value<'_>, what: &str, kind: u32) -> Result<i64> {
    let number = Number::from_bson(value.or_null());
    number.map(|number| number.to_i64_truncated().unwrap_or(i64::MAX)).ok_or_else(|| {
        let found = value.type_name();
        numbered(kind, format!("$substrBytes:  {what} must be a numeric type (is BSON type {found})"))
    })
}

fn of_code_points<'a>(operator: &'static Operator, arguments: &mut [Value<'a>]) -> Result<Value<'a>> {
    let [value, start, length] = &*arguments else { return Err(operator.misplaced()) };
    let text = coerce_to_string(value)?;
    let start = code_point_position(start, "starting index", 34450, 34451)?;
    let length = code_point_position(length, "length", 34452, 34453)?;
    let Ok(start) = usize::try_from(start) else {
        return Err(numbered(34455, "$substrCP: the starting index must be nonnegative integer."));
    };
    let Ok(length) = usize::try_from(length) else {
        return Err(numbered(34454, "$substrCP: length must be a nonnegative integer."));
    };
    let place = |rest: &str, count: usize| rest.char_indices().nth(count).map_or(rest.len(), |(place, _)| place);
    let rest = text.get(place(&text, start)..).unwrap_or_default();
    let run = rest.get(..place(rest, length)).unwrap_or_default();
    check_growth(run.len(), run.len())?;
    Ok(run.to_owned().into())
}

fn code_point_position(value: &Value<'_>, what: &str, not_numeric: u32, not_integral: u32) -> Result<i32> {
    let given = value.or_null();
    if !number::is_number(given) {
        let found = value.type_name();
        let message = format!("$substrCP: {what} must be a numeric type (is BSON type {found})");
        return Err(numbered(not_numeric, message));
    }
    number::to_i32_exact(given).ok_or_else(|| {
        let shown = show(given);
        let message = format!("$substrCP: {what} cannot be represented as a 32-bit integral value: {shown}");
        numbered(not_integral, message)
    })
}
