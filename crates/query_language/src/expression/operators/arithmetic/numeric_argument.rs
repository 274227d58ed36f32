//! The one argument of operators over a single number.

use document::Number;

use crate::expression::operators::prelude::*;

/// The number, `None` for null and missing, an error for any other type.
pub(super) fn single_number(operator: &Operator, arguments: &[Value<'_>]) -> Result<Option<Number>> {
    let [value] = arguments else { return Err(operator.misplaced()) };
    if value.is_nullish() {
        return Ok(None);
    }
    match Number::from_bson(value.or_null()) {
        Some(number) => Ok(Some(number)),
        None => {
            let found = value.type_name();
            Err(operator.error(ErrorKind::Location(28765), format!("only supports numeric types, not {found}")))
        }
    }
}

/// A number as error messages show it.
pub(super) fn show_number(number: Number) -> String {
    match number {
        Number::Double(value) => value.to_string(),
        Number::Int32(value) => value.to_string(),
        Number::Int64(value) => value.to_string(),
        Number::Decimal128(value) => value.to_string(),
    }
}
