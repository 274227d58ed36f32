//! `$dateDiff`: how many boundaries of a unit lie between two dates.

use super::unit_argument::{date, first_day, unit};
use crate::expression::calendar::zone_argument;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::named("$dateDiff", "The boundaries of a unit between two dates.", FIELDS, REFUSALS, evaluate)];

const FIELDS: &[NamedField] = &[
    NamedField::required("startDate", ErrorKind::Location(5166303)),
    NamedField::required("endDate", ErrorKind::Location(5166304)),
    NamedField::required("unit", ErrorKind::Location(5166305)),
    NamedField::optional("timezone"),
    NamedField::optional("startOfWeek"),
];
const REFUSALS: NamedRefusals = NamedRefusals::only_supports(5166301, 5166302);

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let operator = arguments.operator;
    let start = date(operator, "startDate", &arguments.value(0, context)?, 5166307)?;
    let end = date(operator, "endDate", &arguments.value(1, context)?, 5166307)?;
    let unit = unit(operator, &arguments.value(2, context)?)?;
    let zone = zone_argument(arguments.get(3, context)?.as_ref())?;
    let first_day = first_day(operator, arguments.get(4, context)?.as_ref(), unit)?;
    match (start, end, unit, zone, first_day) {
        (Some(start), Some(end), Some(unit), Some(zone), Some(first_day)) => {
            Ok(unit.difference(start, end, &zone, first_day)?.into())
        }
        _ => Ok(Value::NULL),
    }
}
