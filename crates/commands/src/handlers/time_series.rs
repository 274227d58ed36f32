//! Time-series collections: names that stand for the measurements in the buckets of `system.buckets.NAME`.
//!
//! The buckets are an ordinary collection with the option `timeseries`; its name and the option make the time-series
//! collection, so both come and go at once. It is read as a view that unpacks buckets (`views::resolve`); what writes by
//! name asks [`of`] where it finds no collection. A name has one of a collection, a view and a time-series collection.

pub(crate) mod bucket_index;
pub(crate) mod index_face;
#[cfg(test)]
mod tests;
pub(crate) mod update;

use std::sync::Arc;

use bson::raw::cstr;
use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, Namespace, TimeSeriesOptions};
use planner::Hint;
use time_series::{BucketError, Fields};
use transaction::Transaction;

use crate::request::error::{CommandError, Result};
use crate::state::queries::Queries;

/// What the name of a collection of buckets begins with.
pub(crate) const PREFIX: &str = "system.buckets.";

/// A time-series collection.
#[derive(Clone)]
pub(crate) struct TimeSeries {
    /// Its own name.
    pub(crate) namespace: Namespace,
    /// Its buckets.
    pub(crate) collection: Arc<Collection>,
    pub(crate) fields: Fields,
    pub(crate) span_seconds: i64,
}

/// The time-series collection of a name, if it is one; whoever asks knows that there is no such collection.
pub(crate) fn of(queries: Queries<'_>, namespace: &Namespace) -> Option<TimeSeries> {
    let buckets = buckets_of(namespace)?;
    let collection = queries.store.catalog().lookup(buckets.as_str())?;
    let options = collection.definition().options.time_series.clone()?;
    Some(TimeSeries::new(namespace.clone(), collection, &options))
}

/// The same for who writes: outside of transactions alone.
///
/// # Errors
/// OperationNotSupportedInTransaction (263).
pub(crate) fn to_write(
    queries: Queries<'_>,
    transaction: Option<&Arc<Transaction>>,
    namespace: &Namespace,
) -> Result<Option<TimeSeries>> {
    let Some(series) = of(queries, namespace) else { return Ok(None) };
    if transaction.is_some() {
        let message = format!("Cannot write to a time-series collection in a multi-document transaction: {namespace}");
        return Err(CommandError::named("OperationNotSupportedInTransaction", message));
    }
    Ok(Some(series))
}

/// Where the buckets of a name are; `None` for a name that can have none.
pub(crate) fn buckets_of(namespace: &Namespace) -> Option<Namespace> {
    let name = namespace.collection();
    if name.starts_with("system.") {
        return None;
    }
    Namespace::new(namespace.database(), &format!("{PREFIX}{name}")).ok()
}

/// The same for a new time series.
///
/// # Errors
/// InvalidNamespace (73).
pub(crate) fn new_buckets_of(namespace: &Namespace) -> Result<Namespace> {
    buckets_of(namespace)
        .ok_or_else(|| CommandError::named("InvalidNamespace", format!("Invalid name of a time series: {namespace}")))
}

/// The name that a collection of buckets is behind.
pub(crate) fn face_of(collection: &Collection) -> Option<String> {
    let definition = collection.definition();
    definition.options.time_series.as_ref()?;
    definition.namespace.collection().strip_prefix(PREFIX).map(ToOwned::to_owned)
}

/// Refuses what cannot be done with a time-series collection.
///
/// # Errors
/// CommandNotSupportedOnView (166), as these are views for MongoDB, too.
pub(crate) fn refuse(queries: Queries<'_>, namespace: &Namespace, what: &str) -> Result<()> {
    if queries.store.catalog().lookup(namespace.as_str()).is_some() || of(queries, namespace).is_none() {
        return Ok(());
    }
    let message = format!("{what} is not supported on a time-series collection: {namespace}");
    Err(CommandError::named("CommandNotSupportedOnView", message))
}

impl TimeSeries {
    pub(crate) fn new(namespace: Namespace, collection: Arc<Collection>, options: &TimeSeriesOptions) -> Self {
        let fields = Fields { time: options.time_field.clone(), meta: options.meta_field.clone() };
        Self { namespace, collection, fields, span_seconds: options.span_seconds() }
    }

    /// What of a filter on measurements its buckets can tell; everything where they tell nothing.
    pub(crate) fn bucket_filter(&self, filter: &RawDocument) -> RawDocumentBuf {
        time_series::bucket_filter(filter, &self.fields, self.span_seconds).unwrap_or_default()
    }

    /// The stage that makes measurements of its buckets.
    pub(crate) fn unpack_stage(&self) -> RawDocumentBuf {
        let mut options = RawDocumentBuf::new();
        options.append(cstr!("timeField"), self.fields.time.as_str());
        if let Some(meta) = &self.fields.meta {
            options.append(cstr!("metaField"), meta.as_str());
        }
        options.append(cstr!("bucketMaxSpanSeconds"), self.span_seconds);
        let mut stage = RawDocumentBuf::new();
        stage.append(cstr!("$_internalUnpackBucket"), options);
        stage
    }
}

/// A hint for the buckets of what one for the measurements says.
pub(crate) fn hint(series: &TimeSeries, given: &Hint) -> Hint {
    match given {
        Hint::KeyPattern(pattern) => {
            let translated = index_face::bucket_key(series, pattern);
            Hint::KeyPattern(translated.unwrap_or_else(|_| pattern.clone()))
        }
        other => other.clone(),
    }
}

impl From<BucketError> for CommandError {
    fn from(error: BucketError) -> Self {
        match &error {
            BucketError::Damaged(_) => CommandError::named("InvalidBSON", error.to_string()),
            BucketError::NotImplemented(_) => CommandError::named("NotImplemented", error.to_string()),
        }
    }
}
