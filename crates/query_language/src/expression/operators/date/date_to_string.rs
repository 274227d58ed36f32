//! `$dateToString`.

use crate::expression::calendar::{ISO_FORMAT_LOCAL, ISO_FORMAT_UTC, LocalTime, format_date, to_date, zone_argument};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::named("$dateToString", "A date as text in a format.", FIELDS, REFUSALS, evaluate)];

const FIELDS: &[NamedField] = &[
    NamedField::required("date", ErrorKind::Location(18628)),
    NamedField::optional("format"),
    NamedField::optional("timezone"),
    NamedField::optional("onNull"),
];
const REFUSALS: NamedRefusals = NamedRefusals::only_supports(18629, 18534);

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let date = arguments.value(0, context)?;
    let format = arguments.get(1, context)?;
    let zone_value = arguments.get(2, context)?;
    if let Some(format) = &format
        && !format.is_nullish()
        && format.as_str().is_none()
    {
        let (found, shown) = (format.type_name(), show(format.or_null()));
        let text = format!("requires that 'format' be a string, found: {found} with value {shown}");
        return Err(arguments.operator.error(ErrorKind::Location(18533), text));
    }
    let Some(date) = to_date(&date)? else {
        return Ok(arguments.get(3, context)?.unwrap_or(Value::NULL));
    };
    let Some(zone) = zone_argument(zone_value.as_ref())? else { return Ok(Value::NULL) };
    let format = match &format {
        None if zone.is_utc() => ISO_FORMAT_UTC,
        None => ISO_FORMAT_LOCAL,
        Some(format) => match format.as_str() {
            Some(format) => format,
            None => return Ok(Value::NULL),
        },
    };
    Ok(format_date(format, &LocalTime::new(date, &zone))?.into())
}
