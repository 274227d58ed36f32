//! What of a filter on measurements can be asked of their buckets: so that those without a match are not opened.
//!
//! The filter on buckets lets through every bucket that has a match, and some that have none: the filter itself is asked
//! of the measurements. What names the series is the same in all of a bucket; of times, numbers and dates `control` has
//! the smallest and the largest, also of those in documents; and `_id` begins with the time, so that the index on it has a range.

use bson::oid::ObjectId;
use bson::raw::{CString, RawArrayBuf, RawBson, RawBsonRef, cstr};
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use document::{Element, array_elements, compare_values, elements};

use crate::Fields;
use crate::bucket_id::id_seconds;
use crate::extents::{Kind, kind};

/// Documents in one another; a filter has no more levels.
const LEVELS_MAX: usize = 100;

/// The filter for buckets that span so many seconds at most; `None` where buckets tell nothing.
pub fn bucket_filter(filter: &RawDocument, fields: &Fields, span_seconds: i64) -> Option<RawDocumentBuf> {
    let translator = Translator { fields, span_seconds };
    all_of(translator.conditions(filter, 0))
}

fn all_of(mut conditions: Vec<RawDocumentBuf>) -> Option<RawDocumentBuf> {
    match conditions.len() {
        0 | 1 => conditions.pop(),
        _ => Some(listed(cstr!("$and"), conditions)),
    }
}

fn listed(operator: &bson::raw::CStr, conditions: Vec<RawDocumentBuf>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    document.append(operator, conditions.into_iter().map(RawBson::Document).collect::<RawArrayBuf>());
    document
}

/// What a field is compared with: from, to.
type Range<'a> = (Option<RawBsonRef<'a>>, Option<RawBsonRef<'a>>);

struct Translator<'a> {
    fields: &'a Fields,
    span_seconds: i64,
}

impl Translator<'_> {
    /// Conditions that all must hold.
    fn conditions(&self, filter: &RawDocument, level: usize) -> Vec<RawDocumentBuf> {
        let mut found = Vec::new();
        if level > LEVELS_MAX {
            return found;
        }
        for element in elements(filter) {
            match (element.name(), element.value()) {
                ("$and", RawBsonRef::Array(branches)) => {
                    for branch in array_elements(branches) {
                        found.extend(
                            branch
                                .value()
                                .as_document()
                                .map(|branch| self.conditions(branch, level + 1))
                                .into_iter()
                                .flatten(),
                        );
                    }
                }
                ("$or", RawBsonRef::Array(branches)) => {
                    let branch = |branch: Element<'_>| {
                        branch.value().as_document().and_then(|branch| all_of(self.conditions(branch, level + 1)))
                    };
                    let all: Option<Vec<RawDocumentBuf>> = array_elements(branches).map(branch).collect();
                    found.extend(all.filter(|all| !all.is_empty()).map(|all| listed(cstr!("$or"), all)));
                }
                (operator, _) if operator.starts_with('$') => {}
                (path, _) => self.add_field(path, element, &mut found),
            }
        }
        found
    }

    fn add_field(&self, path: &str, element: Element<'_>, found: &mut Vec<RawDocumentBuf>) {
        if path == self.fields.time {
            return add_time(&self.fields.time, self.span_seconds, element.value(), found);
        }
        if let Some(path) = self.fields.in_bucket(path) {
            found.extend(renamed(&path, element.value()));
        } else {
            add_number(path, element.value(), found);
        }
    }
}

fn renamed(path: &str, value: RawBsonRef<'_>) -> Option<RawDocumentBuf> {
    let mut document = RawDocumentBuf::new();
    document.append(CString::try_from(path).ok()?, RawBson::from(value));
    Some(document)
}

/// What a condition compares a field with: equality, ranges and lists of values of one kind.
fn range_of<'a>(condition: RawBsonRef<'a>, wanted: Option<Kind>) -> Range<'a> {
    let is_wanted = |value: RawBsonRef<'a>| kind(value).filter(|kind| wanted.is_none_or(|wanted| wanted == *kind));
    let Some(operators) = condition.as_document() else {
        let value = Some(condition).filter(|value| is_wanted(*value).is_some());
        return (value, value);
    };
    let (mut from, mut to): Range<'a> = (None, None);
    for element in elements(operators) {
        let value = Some(element.value()).filter(|value| is_wanted(*value).is_some());
        match element.name() {
            "$eq" => (from, to) = (value.or(from), value.or(to)),
            "$gt" | "$gte" => from = value.or(from),
            "$lt" | "$lte" => to = value.or(to),
            "$in" => {
                let Some(list) = element.value().as_array() else { continue };
                let mut values: Vec<RawBsonRef<'a>> = array_elements(list).map(|item| item.value()).collect();
                if values.iter().all(|value| is_wanted(*value).is_some()) {
                    values.sort_by(|left, right| compare_values(*left, *right));
                    (from, to) = (values.first().copied().or(from), values.last().copied().or(to));
                }
            }
            _ => {}
        }
    }
    (from, to)
}

fn add_time(field: &str, span_seconds: i64, condition: RawBsonRef<'_>, found: &mut Vec<RawDocumentBuf>) {
    let (from, to) = range_of(condition, Some(Kind::Date));
    let id = |millis: i64, rest: u8| {
        let mut bytes = [rest; 12];
        bytes[..4].copy_from_slice(&id_seconds(millis).to_be_bytes());
        ObjectId::from_bytes(bytes)
    };
    if let Some(RawBsonRef::DateTime(from)) = from {
        found.extend(renamed(&format!("control.max.{field}"), RawBsonRef::Document(&rawdoc! { "$gte": from })));
        let earliest = from.timestamp_millis().saturating_sub(self::millis(span_seconds));
        found.push(rawdoc! { "_id": { "$gte": id(earliest, 0) } });
    }
    if let Some(RawBsonRef::DateTime(to)) = to {
        found.extend(renamed(&format!("control.min.{field}"), RawBsonRef::Document(&rawdoc! { "$lte": to })));
        found.push(rawdoc! { "_id": { "$lte": id(to.timestamp_millis(), u8::MAX) } });
    }
}

fn millis(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000)
}

/// Of a field that may have other values, too: then `control` says nothing of it.
fn add_number(field: &str, condition: RawBsonRef<'_>, found: &mut Vec<RawDocumentBuf>) {
    let (from, to) = range_of(condition, None);
    for (bound, bounds, operator) in [(from, "max", cstr!("$gte")), (to, "min", cstr!("$lte"))] {
        let Some(bound) = bound else { continue };
        let path = format!("control.{bounds}.{field}");
        let mut compared = RawDocumentBuf::new();
        compared.append(operator, RawBson::from(bound));
        let unknown = renamed(&path, RawBsonRef::Document(&rawdoc! { "$exists": false }));
        let beyond = renamed(&path, RawBsonRef::Document(&compared));
        found.extend(unknown.zip(beyond).map(|(unknown, beyond)| listed(cstr!("$or"), vec![unknown, beyond])));
    }
}
