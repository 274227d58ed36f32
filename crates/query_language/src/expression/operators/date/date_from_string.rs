//! `$dateFromString`.

use crate::expression::calendar::{check_format, parse_date_text, parse_with_format, zone_argument};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::named("$dateFromString", "A date read from text.", FIELDS, REFUSALS, evaluate)];

const FIELDS: &[NamedField] = &[
    NamedField::required("dateString", ErrorKind::Location(40542)),
    NamedField::optional("format"),
    NamedField::optional("timezone"),
    NamedField::optional("onError"),
    NamedField::optional("onNull"),
];
const REFUSALS: NamedRefusals = NamedRefusals::only_supports(40540, 40541);

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let text = arguments.value(0, context)?;
    let format = arguments.get(1, context)?;
    let zone_value = arguments.get(2, context)?;
    if let Some(format) = &format
        && !format.is_nullish()
    {
        let Some(format) = format.as_str() else {
            let (found, shown) = (format.type_name(), show(format.or_null()));
            let text = format!("requires that 'format' be a string, found: {found} with value {shown}");
            return Err(arguments.operator.error(ErrorKind::Location(40684), text));
        };
        check_format(format)?;
    }
    if text.is_nullish() {
        return Ok(arguments.get(4, context)?.unwrap_or(Value::NULL));
    }
    let zone = zone_argument(zone_value.as_ref())?;
    let (Some(zone), false) = (zone, format.as_ref().is_some_and(Value::is_nullish)) else { return Ok(Value::NULL) };
    let parsed = match text.as_str() {
        None => {
            let shown = show(text.or_null());
            let found = text.type_name();
            Err(format!("$dateFromString requires that 'dateString' be a string, found: {found} with value {shown}"))
        }
        Some(text) => match format.as_ref().and_then(Value::as_str) {
            Some(format) => parse_with_format(text, format),
            None => parse_date_text(text),
        }
        .map_err(|problem| format!("Error parsing date string '{text}'; 0: {problem}")),
    };
    let resolved = parsed.and_then(|date| {
        if date.has_zone() && zone_value.is_some() {
            let shown = text.as_str().unwrap_or_default();
            return Err(format!(
                "you cannot pass in a date/time string with time zone information ('{shown}') together with a \
                 timezone argument"
            ));
        }
        date.resolve(&zone).map_err(|error| error.message)
    });
    match (resolved, arguments.is_given(3)) {
        (Ok(date), _) => Ok(date.into()),
        (Err(_), true) => arguments.value(3, context),
        (Err(message), false) => Err(QueryError::new(ErrorKind::ConversionFailure, message)),
    }
}
