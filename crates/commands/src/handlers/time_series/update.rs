//! Updates of a time-series collection: what names a series may be changed, in all its buckets at once.
//!
//! As in MongoDB: the filter asks of that field alone, the update changes nothing else, by operators, of all that match.
//! Such an update is one of the buckets, in which the field is called `meta`.

use bson::raw::{CString, RawArrayBuf, RawBson, RawBsonRef};
use bson::{RawDocument, RawDocumentBuf};
use document::{array_elements, elements};
use query_language::update::UpdateSource;
use time_series::{Fields, measurement_count};

use super::TimeSeries;
use crate::request::error::{CommandError, Result};

/// Filters in one another; a filter has no more levels.
const LEVELS_MAX: usize = 100;

/// An update of buckets.
pub(crate) struct BucketUpdate {
    pub(crate) filter: RawDocumentBuf,
    pub(crate) update: RawDocumentBuf,
}

/// The update of buckets that one of measurements is.
///
/// # Errors
/// InvalidOptions (72) for what may not be done with a time series.
pub(crate) fn translated(
    series: &TimeSeries,
    filter: &RawDocument,
    update: UpdateSource<'_>,
    (is_multi, is_upsert): (bool, bool),
) -> Result<BucketUpdate> {
    let refused = |what: &str| {
        let message = format!("Cannot perform {what} on a time-series collection: {}", series.namespace);
        Err(CommandError::named("InvalidOptions", message))
    };
    let fields = &series.fields;
    if fields.meta.is_none() {
        return refused("an update without a metaField");
    }
    if is_upsert {
        return refused("an upsert");
    }
    if !is_multi {
        return refused("an update of one document (multi: false)");
    }
    let UpdateSource::Document(update) = update else {
        return refused("an update by a pipeline");
    };
    if elements(update).any(|operator| !operator.name().starts_with('$')) {
        return refused("a replacement");
    }
    let Some(filter) = filter_of_meta(filter, fields, 0) else {
        return refused("an update whose filter asks of other fields than the metaField");
    };
    let Some(update) = update_of_meta(update, fields) else {
        return refused("an update of other fields than the metaField");
    };
    Ok(BucketUpdate { filter, update })
}

/// A path into what names the series as it is called in buckets.
fn in_bucket(path: &str, fields: &Fields) -> Option<CString> {
    CString::try_from(fields.in_bucket(path)?).ok()
}

fn filter_of_meta(filter: &RawDocument, fields: &Fields, level: usize) -> Option<RawDocumentBuf> {
    let mut translated = RawDocumentBuf::new();
    for element in elements(filter) {
        match (element.name(), element.value()) {
            (operator @ ("$and" | "$or" | "$nor"), RawBsonRef::Array(branches)) if level < LEVELS_MAX => {
                let branch = |branch: RawBsonRef<'_>| filter_of_meta(branch.as_document()?, fields, level + 1);
                let branches: Option<Vec<RawDocumentBuf>> =
                    array_elements(branches).map(|element| branch(element.value())).collect();
                let branches: RawArrayBuf = branches?.into_iter().map(RawBson::Document).collect();
                translated.append(CString::try_from(operator).ok()?, branches);
            }
            ("$comment", value) => translated.append(CString::try_from("$comment").ok()?, RawBson::from(value)),
            (path, value) => translated.append(in_bucket(path, fields)?, RawBson::from(value)),
        }
    }
    Some(translated)
}

fn update_of_meta(update: &RawDocument, fields: &Fields) -> Option<RawDocumentBuf> {
    let mut translated = RawDocumentBuf::new();
    for operator in elements(update) {
        let mut changes = RawDocumentBuf::new();
        for change in elements(operator.value().as_document()?) {
            let path = in_bucket(change.name(), fields)?;
            match (operator.name(), change.value()) {
                ("$rename", RawBsonRef::String(to)) => changes.append(path, in_bucket(to, fields)?.to_string()),
                (_, value) => changes.append(path, RawBson::from(value)),
            }
        }
        translated.append(CString::try_from(operator.name()).ok()?, changes);
    }
    Some(translated)
}

/// How many measurements a bucket stands for in the reply.
pub(crate) fn weight(series: &TimeSeries, bucket: &RawDocument) -> u64 {
    measurement_count(bucket, &series.fields).unwrap_or_default()
}
