//! `$dateTrunc`: the start of the unit, or of the bin of several units, that a date lies in.

use super::unit_argument::{date, first_day, unit};
use crate::expression::calendar::zone_argument;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::named("$dateTrunc", "The start of the unit of time that a date lies in.", FIELDS, REFUSALS, evaluate)];

const FIELDS: &[NamedField] = &[
    NamedField::required("date", ErrorKind::Location(5439009)),
    NamedField::required("unit", ErrorKind::Location(5439010)),
    NamedField::optional("binSize"),
    NamedField::optional("timezone"),
    NamedField::optional("startOfWeek"),
];
const REFUSALS: NamedRefusals = NamedRefusals::only_supports(5439007, 5439008);

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let operator = arguments.operator;
    let date = date(operator, "date", &arguments.value(0, context)?, 5166307)?;
    let unit = unit(operator, &arguments.value(1, context)?)?;
    let size = match arguments.get(2, context)? {
        None => Some(1),
        Some(size) if size.is_nullish() => None,
        Some(size) => Some(bin_size(operator, &size)?),
    };
    let zone = zone_argument(arguments.get(3, context)?.as_ref())?;
    let first_day = first_day(operator, arguments.get(4, context)?.as_ref(), unit)?;
    match (date, unit, size, zone, first_day) {
        (Some(date), Some(unit), Some(size), Some(zone), Some(first_day)) => {
            Ok(unit.truncate(date, size, &zone, first_day)?.into())
        }
        _ => Ok(Value::NULL),
    }
}

fn bin_size(operator: &Operator, value: &Value<'_>) -> Result<i64> {
    match number::to_i64_exact(value.or_null()) {
        Some(size) if size > 0 => Ok(size),
        Some(size) => {
            let text = format!("requires 'binSize' to be greater than 0, but got value {size}");
            Err(operator.error(ErrorKind::Location(5439018), text))
        }
        None => {
            let (shown, found) = (show(value.or_null()), value.type_name());
            let text = format!("requires 'binSize' to be a 64-bit integer, but got value '{shown}' of type {found}");
            Err(operator.error(ErrorKind::Location(5439017), text))
        }
    }
}
