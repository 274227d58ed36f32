//! `$dateToParts`: the calendar fields of a date as a document.

use bson::raw::cstr;

use crate::expression::calendar::{in_zone, to_date, zone_argument};
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
    let date = in_zone(date, &zone)?;
    let mut parts = RawDocumentBuf::new();
    if iso {
        let week_date = date.date().iso_week_date();
        parts.append(cstr!("isoWeekYear"), i32::from(week_date.year()));
        parts.append(cstr!("isoWeek"), i32::from(week_date.week()));
        parts.append(cstr!("isoDayOfWeek"), i32::from(week_date.weekday().to_monday_one_offset()));
    } else {
        parts.append(cstr!("year"), i32::from(date.year()));
        parts.append(cstr!("month"), i32::from(date.month()));
        parts.append(cstr!("day"), i32::from(date.day()));
    }
    parts.append(cstr!("hour"), i32::from(date.hour()));
    parts.append(cstr!("minute"), i32::from(date.minute()));
    parts.append(cstr!("second"), i32::from(date.second()));
    parts.append(cstr!("millisecond"), i32::from(date.millisecond()));
    Ok(parts.into())
}
