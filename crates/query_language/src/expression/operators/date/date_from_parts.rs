//! `$dateFromParts`: a date from calendar fields, which carry over when out of their range.

use bson::DateTime;
use jiff::civil::{self, ISOWeekDate, Weekday};
use jiff::{SignedDuration, Span};

use crate::expression::calendar::{from_civil, out_of_range, zone_argument};
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
    if is_iso && calendar.into_iter().any(|field| arguments.is_given(field)) {
        return Err(numbered(40489, "$dateFromParts does not allow mixing natural dates with ISO dates"));
    }
    if !is_iso && iso.into_iter().any(|field| arguments.is_given(field)) {
        return Err(numbered(40525, "$dateFromParts does not allow mixing natural dates with ISO dates"));
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
    let day = if is_iso { iso_day(date) } else { calendar_day(date) }.map_err(out_of_range)?;
    let [hour, minute, second, millisecond] = time;
    // Hours and minutes fit 16 bits and seconds 32, so only the milliseconds can overflow the sum.
    let milliseconds = (hour * 3600 + minute * 60 + second) * 1000;
    let carried = SignedDuration::from_millis(milliseconds)
        .checked_add(SignedDuration::from_millis(millisecond))
        .unwrap_or(SignedDuration::MAX);
    let carried = day.at(0, 0, 0, 0).checked_add(carried).map_err(out_of_range)?;
    let date: DateTime = from_civil(carried, &zone)?;
    Ok(date.into())
}

fn calendar_day([year, month, day]: [i64; 3]) -> std::result::Result<civil::Date, jiff::Error> {
    let first = civil::Date::new(year as i16, 1, 1)?;
    first.checked_add(Span::new().try_months(month - 1)?)?.checked_add(Span::new().try_days(day - 1)?)
}

fn iso_day([year, week, day]: [i64; 3]) -> std::result::Result<civil::Date, jiff::Error> {
    let first = ISOWeekDate::new(year as i16, 1, Weekday::Monday)?.date();
    first.checked_add(Span::new().try_weeks(week - 1)?)?.checked_add(Span::new().try_days(day - 1)?)
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
