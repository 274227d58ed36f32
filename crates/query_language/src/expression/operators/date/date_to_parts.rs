//! `$dateToParts`: the calendar fields of a date as a document.

use bson::raw::cstr;

use crate::expression::calendar::{LocalTime, to_date, zone_argument};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] =
    &[Operator::named("$dateToParts", "The calendar fields of a date.", FIELDS, REFUSALS, evaluate)];

const FIELDS: &[NamedField] = &[
    NamedField::required("date", ErrorKind::Location(40522)),
    NamedField::optional("timezone"),
    NamedField::optional("iso8601"),
];
const REFUSALS: NamedRefusals = NamedRefusals::only_supports(40524, 40520);

fn evaluate<'a>(arguments: &NamedArguments<'a>, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
    let date = to_date(&arguments.value(0, context)?)?;
    let zone = zone_argument(arguments.get(1, context)?.as_ref())?;
    let iso = match arguments.get(2, context)? {
        None => Some(false),
        Some(iso) if iso.is_nullish() => None,
        Some(iso) => match iso.get() {
            Some(RawBsonRef::Boolean(iso)) => Some(iso),
            _ => {
                let found = iso.type_name();
                return Err(numbered(40521, format!("iso8601 must evaluate to a bool, found {found}")));
            }
        },
    };
    let (Some(date), Some(zone), Some(iso)) = (date, zone, iso) else { return Ok(Value::NULL) };
    let date = LocalTime::new(date, &zone);
    let mut parts = RawDocumentBuf::new();
    // Every part of a BSON date fits 32 bits.
    if iso {
        let week_date = date.week_date();
        parts.append(cstr!("isoWeekYear"), week_date.year as i32);
        parts.append(cstr!("isoWeek"), week_date.week as i32);
        parts.append(cstr!("isoDayOfWeek"), week_date.weekday as i32);
    } else {
        let civil = date.date();
        parts.append(cstr!("year"), civil.year as i32);
        parts.append(cstr!("month"), civil.month as i32);
        parts.append(cstr!("day"), civil.day as i32);
    }
    parts.append(cstr!("hour"), date.hour() as i32);
    parts.append(cstr!("minute"), date.minute() as i32);
    parts.append(cstr!("second"), date.second() as i32);
    parts.append(cstr!("millisecond"), date.millisecond() as i32);
    Ok(parts.into())
}
