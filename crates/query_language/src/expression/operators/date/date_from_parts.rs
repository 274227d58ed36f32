//! `$dateFromParts`: a date from calendar fields, which carry over when out of their range.

use crate::expression::calendar::civil::{first_iso_day, first_of_month};
use crate::expression::calendar::{from_local, zone_argument};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::named("$dateFromParts", "A date from calendar fields.", FIELDS, REFUSALS, evaluate)];

const FIELDS: &[NamedField] = &[
    NamedField::optional("year"),
    NamedField::optional("month"),
    NamedField::optional("day"),
    NamedField::optional("isoWeekYear"),
    NamedField::optional("isoWeek"),
    NamedField::optional("isoDayOfWeek"),
    NamedField::optional("hour"),
    NamedField::optional("minute"),
    NamedField::optional("second"),
    NamedField::optional("millisecond"),
    NamedField::optional("timezone"),
];
const REFUSALS: NamedRefusals = NamedRefusals::only_supports(40519, 40518);
const YEAR: usize = 0;
const ISO_YEAR: usize = 3;
const TIME: [usize; 4] = [6, 7, 8, 9];
const ZONE: usize = 10;

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let calendar = [YEAR, YEAR + 1, YEAR + 2];
    let iso = [ISO_YEAR, ISO_YEAR + 1, ISO_YEAR + 2];
    let is_iso = arguments.is_given(ISO_YEAR);
    if !is_iso && !arguments.is_given(YEAR) {
        return Err(numbered(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present"));
    }
    let mixed = |code| Err(numbered(code, "$dateFromParts does not allow mixing natural dates with ISO dates"));
    if arguments.is_given(YEAR) && iso.into_iter().any(|field| arguments.is_given(field)) {
        return mixed(40489);
    }
    if is_iso && calendar.into_iter().any(|field| arguments.is_given(field)) {
        return mixed(40525);
    }
    let mut date = [0; 3];
    for (value, field) in date.iter_mut().zip(if is_iso { iso } else { calendar }) {
        let Some(given) = part(arguments, field, 1, context)? else { return Ok(Value::NULL) };
        *value = given;
    }
    let mut time = [0; 4];
    for (value, field) in time.iter_mut().zip(TIME) {
        let Some(given) = part(arguments, field, 0, context)? else { return Ok(Value::NULL) };
        *value = given;
    }
    let Some(zone) = zone_argument(arguments.get(ZONE, context)?.as_ref())? else { return Ok(Value::NULL) };
    let [year, ..] = date;
    if !(1..=9999).contains(&year) {
        let field = if is_iso { "isoWeekYear" } else { "year" };
        let message = format!("'{field}' must evaluate to an integer in the range 1 to 9999, found {year}");
        return Err(numbered(if is_iso { 31095 } else { 40523 }, message));
    }
    let [year, month_or_week, day] = date;
    let first = match is_iso {
        true => first_iso_day(year) + (month_or_week - 1) * 7,
        false => first_of_month(year * 12 + month_or_week - 1),
    };
    let [hour, minute, second, millisecond] = time;
    // Hours and minutes fit 16 bits and seconds 32, so only the milliseconds can overflow the sum.
    let milliseconds = ((hour * 3600 + minute * 60 + second) * 1000).saturating_add(millisecond);
    Ok(from_local(first + day - 1, milliseconds, &zone)?.into())
}

/// One field as a number; `None` when null.
fn part<'a>(
    arguments: &NamedArguments<'a>,
    field: usize,
    default: i64,
    context: &EvaluationContext<'a>,
) -> Result<Option<i64>> {
    let Some(value) = arguments.get(field, context)? else { return Ok(Some(default)) };
    if value.is_nullish() {
        return Ok(None);
    }
    let name = FIELDS.get(field).map_or("", |field| field.name);
    let Some(number) = number::to_i64_exact(value.or_null()) else {
        let (found, shown) = (value.type_name(), show(value.or_null()));
        let message = format!("'{name}' must evaluate to an integer, found {found} with value {shown}");
        return Err(numbered(40515, message));
    };
    let in_range = match name {
        "year" | "isoWeekYear" => true,
        "second" | "millisecond" => i32::try_from(number).is_ok() || name == "millisecond",
        _ => i16::try_from(number).is_ok(),
    };
    if !in_range {
        let message =
            format!("'{name}' must evaluate to a value in the range [-32768, 32767]; value {number} is not in range");
        return Err(numbered(31034, message));
    }
    Ok(Some(number))
}
