//! The optional start and end arguments of `$indexOfArray`, `$indexOfBytes` and `$indexOfCP`.

use super::prelude::*;

/// A start or end position: an integer that is not negative. `which` is "starting" or "ending".
pub(super) fn index_bound(operator: &Operator, value: &Value<'_>, which: &str) -> Result<usize> {
    let given = value.or_null();
    let Some(position) = number::to_i32_exact(given) else {
        let (found, shown) = (value.type_name(), show(given));
        let text = format!("requires an integral {which} index, found a value of type: {found}, with value: {shown}");
        return Err(operator.error(ErrorKind::Location(40096), text));
    };
    usize::try_from(position).map_err(|_| {
        let text = format!("requires a nonnegative {which} index, found: {position}");
        operator.error(ErrorKind::Location(40097), text)
    })
}
