//! The grammar of a window: `{documents: [lower, upper]}` or `{range: [lower, upper], unit}`.

use bson::raw::{RawBsonRef, RawDocument};
use document::Number;
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{TimeUnit, show_value};

use super::super::distance::Distance;
use super::super::window::{Bound, Window};
use super::refuse;
use crate::error::{AggregationError, Result};

pub(super) fn parse(window: &RawDocument, sort: Option<&SortPattern>) -> Result<Window> {
    let (mut documents, mut range, mut unit) = (None, None, None);
    for element in window {
        let (name, value) = element?;
        match (name.as_str(), value) {
            ("documents", value) => documents = Some(ends("documents", value)?),
            ("range", value) => range = Some(ends("range", value)?),
            ("unit", RawBsonRef::String(name)) => unit = Some((name, TimeUnit::parse(name)?)),
            ("unit", _) => return Err(refuse("'unit' must be a string")),
            (other, _) => {
                return Err(refuse(format!(
                    "'window' field can only contain 'documents' as the only \
                argument or 'range' with an optional 'unit' field, but found: {other}"
                )));
            }
        }
    }
    match (documents, range, unit) {
        (Some(_), Some(_), _) => Err(refuse("Window bounds can specify either 'documents' or 'range', not both.")),
        (Some(_), None, Some(_)) => Err(refuse("Window bounds can only specify 'unit' with range-based bounds.")),
        (Some(bounds), None, None) => by_documents(bounds, sort),
        (None, Some(bounds), unit) => by_values(bounds, unit, sort),
        (None, None, Some(_)) => Err(refuse("Window bounds can only specify 'unit' with range-based bounds.")),
        (None, None, None) => Ok(Window::All),
    }
}

/// Both ends of an array of two.
fn ends<'d>(name: &str, value: RawBsonRef<'d>) -> Result<[RawBsonRef<'d>; 2]> {
    let RawBsonRef::Array(array) = value else {
        return Err(refuse(format!("Window bounds must be a 2-element array: {name}: {}", show_value(value))));
    };
    let values = array.into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
    <[RawBsonRef<'d>; 2]>::try_from(values)
        .map_err(|_| refuse(format!("Window bounds must be a 2-element array: {name}: {}", show_value(value))))
}

fn named<T>(value: RawBsonRef<'_>) -> Result<Option<Bound<T>>> {
    match value {
        RawBsonRef::String("unbounded") => Ok(Some(Bound::Unbounded)),
        RawBsonRef::String("current") => Ok(Some(Bound::Current)),
        RawBsonRef::String(other) => {
            Err(refuse(format!("Window bounds must be 'unbounded', 'current', or a number, but found: {other}")))
        }
        _ => Ok(None),
    }
}

fn by_documents(bounds: [RawBsonRef<'_>; 2], sort: Option<&SortPattern>) -> Result<Window> {
    let bound = |value| {
        Ok(match named(value)? {
            Some(bound) => bound,
            None => match Number::from_bson(value).and_then(|number| number.to_i64_exact()) {
                Some(number) if i32::try_from(number).is_ok() => Bound::At(number),
                _ => {
                    let shown = show_value(value);
                    return Err(refuse(format!(
                        "Numeric document-based bounds must be an integer, but found: {shown}"
                    )));
                }
            },
        })
    };
    let [lower, upper] = [bound(bounds[0])?, bound(bounds[1])?];
    if let (Bound::Unbounded, Bound::Unbounded) = (lower, upper) {
        return Ok(Window::All);
    }
    if sort.is_none() {
        return Err(AggregationError::numbered(5339901, "Document-based bounds require a sortBy"));
    }
    let place = |bound| match bound {
        Bound::At(distance) => Some(distance),
        Bound::Current => Some(0),
        Bound::Unbounded => None,
    };
    if place(lower).zip(place(upper)).is_some_and(|(lower, upper)| lower > upper) {
        return Err(lower_above_upper());
    }
    Ok(Window::Documents(lower, upper))
}

fn lower_above_upper() -> AggregationError {
    AggregationError::numbered(5339900, "Lower bound must not exceed upper bound")
}

fn by_values(
    bounds: [RawBsonRef<'_>; 2],
    unit: Option<(&str, TimeUnit)>,
    sort: Option<&SortPattern>,
) -> Result<Window> {
    if !sort.is_some_and(|sort| matches!(sort.parts(), [part] if !part.descending)) {
        let message = "Range-based window require sortBy a single field, ascending";
        return Err(AggregationError::numbered(5339902, message));
    }
    let number = |value: RawBsonRef<'_>| Number::from_bson(value).filter(|number| !number.is_nan());
    let bound = |value| {
        Ok(match named(value)? {
            Some(bound) => bound,
            None => Bound::At(match (number(value), unit) {
                (Some(number), None) => Distance::Number(number),
                (Some(number), Some((_, unit))) => match number.to_i64_exact() {
                    Some(amount) => Distance::Time(amount, unit),
                    None => {
                        let shown = show_value(value);
                        let message = format!("With 'unit', range-based bounds must be an integer, but found: {shown}");
                        return Err(refuse(message));
                    }
                },
                (None, _) => {
                    let shown = show_value(value);
                    return Err(refuse(format!("Range-based bounds expression must be a number, but found: {shown}")));
                }
            }),
        })
    };
    let [lower, upper] = [bound(bounds[0])?, bound(bounds[1])?];
    let distance = |bound| match bound {
        Bound::At(Distance::Number(number)) => Some(number),
        Bound::At(Distance::Time(amount, _)) => Some(Number::Int64(amount)),
        Bound::Current => Some(Number::Int32(0)),
        Bound::Unbounded => None,
    };
    if distance(lower).zip(distance(upper)).is_some_and(|(lower, upper)| lower.compare(upper).is_gt()) {
        return Err(lower_above_upper());
    }
    Ok(Window::Values { lower, upper, unit_name: unit.map(|(name, _)| name.to_owned()) })
}
