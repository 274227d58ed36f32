//! `$year`, `$month`, `$dayOfMonth`, `$hour`, `$minute`, `$second`, `$millisecond`, `$dayOfYear`, `$dayOfWeek`, `$week`
//! and their ISO 8601 kin: one field of a date, as an expression, a list of one, or `{date, timezone}`.

use crate::expression::calendar::civil::weekday;
use crate::expression::calendar::{LocalTime, to_date, zone_argument};
use crate::expression::operators::prelude::*;

pub(super) const OPERATORS: &[Operator] = &[
    Operator::special("$dayOfMonth", "The day of the month of a date.", parse),
    Operator::special("$dayOfWeek", "The day of the week of a date, 1 for Sunday.", parse),
    Operator::special("$dayOfYear", "The day of the year of a date.", parse),
    Operator::special("$hour", "The hour of a date.", parse),
    Operator::special("$isoDayOfWeek", "The day of the week of a date, 1 for Monday.", parse),
    Operator::special("$isoWeek", "The ISO 8601 week of a date.", parse),
    Operator::special("$isoWeekYear", "The ISO 8601 year of a date.", parse),
    Operator::special("$millisecond", "The milliseconds of a date.", parse),
    Operator::special("$minute", "The minute of a date.", parse),
    Operator::special("$month", "The month of a date.", parse),
    Operator::special("$second", "The second of a date.", parse),
    Operator::special("$week", "The week of the year of a date, from 0, beginning on Sunday.", parse),
    Operator::special("$year", "The year of a date.", parse),
];

#[derive(Debug)]
struct DatePart {
    name: &'static str,
    date: Node,
    zone: Option<Node>,
}

fn parse(operator: &'static Operator, argument: RawBsonRef<'_>, context: &ParseContext) -> Result<Node> {
    let name = operator.name;
    let part = match argument {
        RawBsonRef::Document(document) if !begins_with_operator(document)? => parse_named(name, document, context)?,
        RawBsonRef::Array(array) => {
            let items = array.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
            let [date] = items.as_slice() else {
                let given = items.len();
                let message = format!("{name} accepts exactly one argument if given an array, but was given {given}");
                return Err(numbered(40536, message));
            };
            DatePart { name, date: parse_node(*date, context)?, zone: None }
        }
        date => DatePart { name, date: parse_node(date, context)?, zone: None },
    };
    Ok(Node::Special(Box::new(part)))
}

fn begins_with_operator(document: &RawDocument) -> Result<bool> {
    Ok(document.iter().next().transpose()?.is_some_and(|(name, _)| name.as_str().starts_with('$')))
}

fn parse_named(name: &'static str, document: &RawDocument, context: &ParseContext) -> Result<DatePart> {
    let (mut date, mut zone) = (None, None);
    for element in document {
        let (field, value) = element?;
        match field.as_str() {
            "date" => date = Some(parse_node(value, context)?),
            "timezone" => zone = Some(parse_node(value, context)?),
            other => return Err(numbered(40535, format!("unrecognized option to {name}: \"{other}\""))),
        }
    }
    let Some(date) = date else {
        let shown = show(RawBsonRef::Document(document));
        return Err(numbered(40539, format!("missing 'date' argument to {name}, provided: {name}: {shown}")));
    };
    Ok(DatePart { name, date, zone })
}

impl SpecialNode for DatePart {
    fn evaluate<'a>(&'a self, context: &EvaluationContext<'a>) -> Result<Value<'a>> {
        let zone = self.zone.as_ref().map(|zone| zone.evaluate(context)).transpose()?;
        let Some(date) = to_date(&self.date.evaluate(context)?)? else { return Ok(Value::NULL) };
        let Some(zone) = zone_argument(zone.as_ref())? else { return Ok(Value::NULL) };
        Ok(part(self.name, &LocalTime::new(date, &zone)))
    }

    fn visit_children(&self, visit: &mut dyn FnMut(&Node)) {
        visit(&self.date);
        self.zone.iter().for_each(visit);
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(bson::raw::cstr!("date"), self.date.to_bson()?);
        if let Some(zone) = &self.zone {
            inner.append(bson::raw::cstr!("timezone"), zone.to_bson()?);
        }
        single_field(self.name, RawBson::Document(inner))
    }
}

fn part(name: &str, date: &LocalTime) -> Value<'static> {
    let value = match name {
        "$dayOfMonth" => date.date().day,
        "$dayOfWeek" => date.day_of_week(),
        "$dayOfYear" => date.day_of_year(),
        "$hour" => date.hour(),
        "$isoDayOfWeek" => weekday(date.days),
        "$isoWeek" => date.week_date().week,
        "$isoWeekYear" => return date.week_date().year.into(),
        "$millisecond" => date.millisecond(),
        "$minute" => date.minute(),
        "$month" => date.date().month,
        "$second" => date.second(),
        "$week" => date.week_of_year(),
        _ => date.date().year,
    };
    // The years of BSON dates fit 32 bits.
    (value as i32).into()
}
