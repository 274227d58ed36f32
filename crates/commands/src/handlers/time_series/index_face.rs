//! Indexes of a time-series collection: its clients name fields of measurements, and the indexes are on buckets.
//!
//! What names the series is in the bucket as it is. Of the time and of every other field an index has the smallest and
//! the largest value in the bucket (`control.min`, `control.max`), or null where the bucket does not say.

use bson::raw::{CString, RawBson, RawBsonRef, cstr};
use bson::{RawDocument, RawDocumentBuf};
use collection::IndexSpecification;
use document::{Number, elements};

use super::TimeSeries;
use crate::request::error::{CommandError, Result};

/// The specification of an index on buckets for one on measurements.
///
/// # Errors
/// InvalidOptions (72) for options that MongoDB refuses, too; NotImplemented (238) for others.
pub(crate) fn bucket_specification(series: &TimeSeries, given: &RawDocument) -> Result<RawDocumentBuf> {
    let mut translated = RawDocumentBuf::new();
    for element in elements(given) {
        let is_given = !element.is_null() && element.value() != RawBsonRef::Boolean(false);
        match (element.name(), element.value()) {
            ("key", RawBsonRef::Document(key)) => translated.append(cstr!("key"), bucket_key(series, key)?),
            (option @ ("unique" | "prepareUnique" | "clustered" | "weights" | "default_language"), _) if is_given => {
                let message = format!("An index of a time-series collection cannot have the option '{option}'");
                return Err(CommandError::named("InvalidOptions", message));
            }
            (option @ ("sparse" | "partialFilterExpression" | "expireAfterSeconds" | "wildcardProjection"), _)
                if is_given =>
            {
                return Err(CommandError::not_implemented(format!(
                    "'{option}' of an index of a time-series collection"
                )));
            }
            (name, value) => append(&mut translated, name, value),
        }
    }
    Ok(translated)
}

/// The key pattern on buckets.
///
/// # Errors
/// InvalidOptions (72) for kinds of indexes that MongoDB refuses; NotImplemented (238) for those of measurements' fields
/// that have no order.
pub(crate) fn bucket_key(series: &TimeSeries, key: &RawDocument) -> Result<RawDocumentBuf> {
    let mut translated = RawDocumentBuf::new();
    for element in elements(key) {
        let (path, value) = (element.name(), element.value());
        if matches!(value, RawBsonRef::String("text" | "2d")) {
            let message = "Text and 2d indexes are not supported on time-series collections";
            return Err(CommandError::named("InvalidOptions", message));
        }
        if let Some(path) = series.fields.in_bucket(path) {
            append(&mut translated, &path, value);
            continue;
        }
        let direction = Number::from_bson(value).map(Number::to_i64_saturating);
        let Some(direction) = direction.filter(|_| !path.split('.').any(|part| part == "$**")) else {
            let what = format!("an index without an order on '{path}' of a time series, which is not its metaField,");
            return Err(CommandError::not_implemented(what));
        };
        let bounds = if direction < 0 { ["max", "min"] } else { ["min", "max"] };
        bounds.into_iter().for_each(|bound| append(&mut translated, &format!("control.{bound}.{path}"), value));
    }
    Ok(translated)
}

/// An index on buckets as its clients know it; `None` for one that is none of theirs.
pub(crate) fn shown(series: &TimeSeries, specification: &IndexSpecification) -> Option<RawDocumentBuf> {
    let stored = specification.to_document();
    let mut shown = RawDocumentBuf::new();
    for element in elements(&stored) {
        match (element.name(), element.value()) {
            ("key", RawBsonRef::Document(key)) => shown.append(cstr!("key"), shown_key(series, key)?),
            (name, value) => append(&mut shown, name, value),
        }
    }
    Some(shown)
}

fn shown_key(series: &TimeSeries, key: &RawDocument) -> Option<RawDocumentBuf> {
    let mut shown = RawDocumentBuf::new();
    let mut paths = elements(key);
    while let Some(element) = paths.next() {
        let path = element.name();
        if let Some((field, is_upper)) = bounded(path) {
            paths.next().filter(|next| bounded(next.name()) == Some((field, !is_upper)))?;
            append(&mut shown, field, element.value());
        } else {
            let rest = path.strip_prefix("meta").filter(|rest| rest.is_empty() || rest.starts_with('.'))?;
            append(&mut shown, &format!("{}{rest}", series.fields.meta.as_deref()?), element.value());
        }
    }
    Some(shown)
}

/// The field that a path of a bucket is a bound of, and whether it is the upper one.
fn bounded(path: &str) -> Option<(&str, bool)> {
    let lower = path.strip_prefix("control.min.").map(|field| (field, false));
    lower.or_else(|| path.strip_prefix("control.max.").map(|field| (field, true)))
}

/// The index that a new time-series collection has: on its series and their times.
pub(crate) fn usual(series: &TimeSeries) -> Result<Option<IndexSpecification>> {
    let Some(meta) = &series.fields.meta else { return Ok(None) };
    let (mut key, mut specification) = (RawDocumentBuf::new(), RawDocumentBuf::new());
    append(&mut key, meta, RawBsonRef::Int32(1));
    append(&mut key, &series.fields.time, RawBsonRef::Int32(1));
    specification.append(cstr!("v"), 2);
    specification.append(cstr!("key"), key);
    specification.append(cstr!("name"), format!("{meta}_1_{}_1", series.fields.time));
    let usual = IndexSpecification::parse(&bucket_specification(series, &specification)?)?;
    Ok(Some(usual.of_collection(series.collection.definition().options.collator.as_ref())?))
}

fn append(document: &mut RawDocumentBuf, name: &str, value: RawBsonRef<'_>) {
    // A name of a document has no NUL byte.
    if let Ok(name) = CString::try_from(name) {
        document.append(name, RawBson::from(value));
    }
}
