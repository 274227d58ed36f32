//! Deletes from a time-series collection: buckets that may have a match are written without it, or go.

use std::sync::Arc;

use bson::RawDocument;
use collection::{StatementDetails, Validation};
use executor::{QueryExecutor, Target};
use planner::CanonicalQuery;
use time_series::BucketBuilder;
use transaction::{CommitInfo, Decision};

use super::query_arguments::query;
use super::records_to_change::{Changed, RecordsToChange};
use crate::handlers::time_series::{TimeSeries, hint};
use crate::request::error::{CommandError, Result};
use crate::state::changing::Changing;

/// What is to be deleted.
pub(super) struct Deletion<'a> {
    pub(super) filter: &'a RawDocument,
    /// The same, as it is asked of measurements.
    pub(super) query: &'a CanonicalQuery,
    /// One at most.
    pub(super) is_single: bool,
    pub(super) statement: i32,
}

/// Deletes measurements that match, and counts them.
///
/// # Errors
/// Those of reading and writing.
pub(super) fn delete(
    changing: &Changing<'_>,
    series: &TimeSeries,
    deletion: &Deletion<'_>,
    deleted: &mut u64,
    last_commit: &mut Option<CommitInfo>,
) -> Result<()> {
    let Changing { reading, writing, operation, .. } = *changing;
    let of_buckets = series.bucket_filter(deletion.filter);
    let mut buckets = query(Some(&of_buckets), &deletion.query.variables)?;
    buckets.hint = hint(series, &deletion.query.hint);
    let (view, target) = (reading.newest_view(), Target::of(&series.collection));
    let mut found = QueryExecutor::new(&reading.queries.services(), view, target, Arc::new(buckets), operation)?;
    let changed = if deletion.is_single { Changed::One } else { Changed::Deleted };
    let mut records = RecordsToChange::of(reading, operation, changed, &mut found)?;
    changing.before_write()?;
    changing.write(deletion.statement, StatementDetails::None, |write| {
        while let Some(record_id) = records.next(&mut found, reading, operation)? {
            let mut removed = 0;
            let changed = writing.store.change_document(
                write,
                &series.collection,
                record_id,
                Validation::Bypass,
                |bucket, out| {
                    let (decision, count) = without_matches(series, deletion, bucket, out)?;
                    removed = count;
                    Ok::<_, CommandError>(decision)
                },
            )?;
            if let Some(commit) = changed.commit() {
                *deleted += removed;
                *last_commit = Some(commit);
                if deletion.is_single {
                    break;
                }
            }
        }
        Ok::<_, CommandError>(())
    })?;
    changing.noting.note_executor(&found);
    Ok(())
}

fn without_matches(
    series: &TimeSeries,
    deletion: &Deletion<'_>,
    bucket: &RawDocument,
    out: &mut Vec<u8>,
) -> Result<(Decision, u64)> {
    let mut is_done = false;
    let (left, removed) = BucketBuilder::retain(bucket, &series.fields, |measurement| {
        let is_kept = is_done || !deletion.query.filter.matches(measurement)?;
        is_done |= !is_kept && deletion.is_single;
        Ok::<_, CommandError>(is_kept)
    })?;
    Ok(match left {
        _ if removed == 0 => (Decision::Keep, 0),
        None => (Decision::Delete, removed),
        Some(left) => {
            out.extend_from_slice(left.as_bytes());
            (Decision::Replace, removed)
        }
    })
}
