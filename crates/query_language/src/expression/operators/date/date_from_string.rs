//! `$dateFromString`.

use bson::DateTime;

use crate::expression::calendar::{Zone, check_parse_format, parse_date_text, parse_with_format, zone_argument};
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
        check_parse_format(format)?;
    }
    if text.is_nullish() {
        return Ok(arguments.get(4, context)?.unwrap_or(Value::NULL));
    }
    let zone = zone_argument(zone_value.as_ref())?;
    let on_error = |message: String| match arguments.is_given(3) {
        true => arguments.value(3, context),
        false => Err(QueryError::new(ErrorKind::ConversionFailure, message)),
    };
    let Some(text) = text.as_str() else {
        let (found, shown) = (text.type_name(), show(text.or_null()));
        let name = arguments.operator.name;
        return on_error(format!("{name} requires that 'dateString' be a string, found: {found} with value {shown}"));
    };
    let Some(zone) = zone else { return Ok(Value::NULL) };
    let read = match format.as_ref().map(Value::as_str) {
        None => read(text, None, &zone),
        Some(None) => return Ok(Value::NULL),
        Some(format) => read(text, format, &zone),
    };
    read.map_or_else(on_error, |date| Ok(date.into()))
}

/// The date in a text; `Err` says what is wrong with it.
fn read(text: &str, format: Option<&str>, zone: &Zone) -> std::result::Result<DateTime, String> {
    let parsed = match format {
        Some(format) => parse_with_format(text, format),
        None => parse_date_text(text),
    };
    let date = parsed.map_err(|problem| problem.0)?;
    if date.has_zone() && !zone.is_utc() {
        return Err(format!(
            "you cannot pass in a date/time string with time zone information ('{text}') together with a timezone \
             argument"
        ));
    }
    date.resolve(zone).map_err(|error| error.message)
}
