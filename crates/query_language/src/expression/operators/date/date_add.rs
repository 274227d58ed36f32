//! `$dateAdd` and `$dateSubtract`.

use super::unit_argument::{date, unit};
use crate::expression::calendar::zone_argument;
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::named("$dateAdd", "A date some units of time later.", FIELDS, REFUSALS, add),
    Operator::named("$dateSubtract", "A date some units of time earlier.", FIELDS, REFUSALS, subtract),
];

const FIELDS: &[NamedField] = &[
    NamedField::required("startDate", ErrorKind::Location(5166402)),
    NamedField::required("unit", ErrorKind::Location(5166402)),
    NamedField::required("amount", ErrorKind::Location(5166402)),
    NamedField::optional("timezone"),
];
const REFUSALS: NamedRefusals = NamedRefusals::requires(5166400, 5166401);

fn add<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    shift(arguments, context, Some)
}

fn subtract<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    shift(arguments, context, i64::checked_neg)
}

fn shift<'a>(
    arguments: &NamedArguments<'a>,
    context: &EvaluationContext<'a>,
    sign: fn(i64) -> Option<i64>,
) -> Result<Value<'a>> {
    let operator = arguments.operator;
    let start = date(operator, "startDate", &arguments.value(0, context)?, 5166403)?;
    let unit = unit(operator, &arguments.value(1, context)?)?;
    let amount = arguments.value(2, context)?;
    let zone = zone_argument(arguments.get(3, context)?.as_ref())?;
    let (Some(start), Some(unit), false, Some(zone)) = (start, unit, amount.is_nullish(), zone) else {
        return Ok(Value::NULL);
    };
    let Some(amount) = number::to_i64_exact(amount.or_null()) else {
        return Err(operator.error(ErrorKind::Location(5166405), "expects integer amount of time units"));
    };
    let Some(amount) = sign(amount) else {
        let text = format!("invalid 'amount' parameter value: {amount}");
        return Err(operator.error(ErrorKind::Location(6045000), text));
    };
    Ok(unit.add(start, amount, &zone)?.into())
}
