//! Inserts into a time-series collection: each measurement goes into the bucket of its series and time.
//!
//! Where that bucket is follows from series and time alone (`time_series::BucketPlace`): nothing is kept in memory, and
//! two that begin a bucket at once collide in its `_id`, so that one of them finds the other's. Those of one command
//! that go into one bucket are one change; as statements of a retryable write each is a change of its own.
//!
//! Called by `insert`, and by `replacing_output` for `$out`.

use std::collections::HashMap;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::{Namespace, StatementDetails, Validation};
use document::{Element, get_element};
use time_series::{BucketBuilder, BucketPlace, first_time};
use transaction::{CommitInfo, Decision, InsertOrder, WriteContext};

use crate::handlers::time_series::bucket_index::buckets_at;
use crate::handlers::time_series::{PREFIX, TimeSeries};
use crate::request::error::{CommandError, Result};
use crate::state::changing::Changing;
use crate::state::queries::Queries;
use crate::state::reading::Reading;

/// Most bytes of a measurement, as in MongoDB.
const MEASUREMENT_BYTES_MAX: usize = 4 << 20;

/// What became of the measurements.
#[derive(Default)]
pub(super) struct Inserted {
    pub(super) count: usize,
    /// Which were not inserted (by position), and why.
    pub(super) errors: Vec<(usize, CommandError)>,
    pub(super) commit: Option<CommitInfo>,
}

/// Measurements of one bucket, by their positions in the command.
struct Group<'a> {
    place: BucketPlace,
    meta: Option<Element<'a>>,
    positions: Vec<usize>,
}

/// Who writes the measurements.
pub(super) trait Writer {
    fn queries(&self) -> Queries<'_>;

    /// Whether to go on.
    fn check(&self) -> Result<()>;

    /// Lets others work.
    fn give_way(&self);

    /// One write, for a statement of this number.
    fn write<T>(&self, statement: i32, write: impl FnOnce(&mut WriteContext) -> T) -> T;
}

impl Writer for Changing<'_> {
    fn queries(&self) -> Queries<'_> {
        self.reading.queries
    }

    fn check(&self) -> Result<()> {
        self.operation.check_interrupt()
    }

    fn give_way(&self) {
        self.operation.turn().look_around();
    }

    fn write<T>(&self, statement: i32, write: impl FnOnce(&mut WriteContext) -> T) -> T {
        self.write(statement, StatementDetails::None, write)
    }
}

/// Inserts measurements; `ids` are their numbers as statements, where they can be retried.
pub(super) fn insert(
    writer: &impl Writer,
    series: &TimeSeries,
    documents: &[&RawDocument],
    ids: Option<&[i32]>,
    order: InsertOrder,
) -> Inserted {
    let mut inserted = Inserted::default();
    let (groups, refused) = grouped(series, documents, ids.is_some(), order);
    for group in groups {
        let mut left: Vec<&RawDocument> = group.positions.iter().filter_map(|at| documents.get(*at).copied()).collect();
        let all = left.len();
        let first = group.positions.first().copied().unwrap_or_default();
        let id = ids.and_then(|ids| ids.get(first)).copied().unwrap_or_default();
        let done = put(writer, series, &group, id, &mut left, &mut inserted.commit);
        inserted.count += all - left.len();
        if let Err(error) = done {
            let not_done = group.positions.get(all - left.len()..).unwrap_or_default();
            if order == InsertOrder::Ordered {
                inserted.errors.extend(not_done.first().map(|at| (*at, error)));
                return inserted;
            }
            inserted.errors.extend(not_done.iter().map(|at| (*at, error.clone())));
        }
        writer.give_way();
    }
    inserted.errors.extend(refused);
    inserted.errors.sort_by_key(|(position, _)| *position);
    inserted
}

/// What names a series: its type and its bytes.
type SeriesBytes<'a> = (u8, &'a [u8]);

/// The measurements by buckets, and those that are none. What is ordered ends before the first of these.
fn grouped<'a>(
    series: &TimeSeries,
    documents: &[&'a RawDocument],
    each_alone: bool,
    order: InsertOrder,
) -> (Vec<Group<'a>>, Vec<(usize, CommandError)>) {
    let (mut groups, mut refused): (Vec<Group<'a>>, Vec<_>) = Default::default();
    let mut by_place: HashMap<(BucketPlace, Option<SeriesBytes<'a>>), usize> = HashMap::new();
    for (position, document) in documents.iter().copied().enumerate() {
        let time = match time_of(series, document) {
            Ok(time) => time,
            Err(error) => {
                refused.push((position, error));
                if order == InsertOrder::Ordered {
                    break;
                }
                continue;
            }
        };
        let meta = series.fields.meta.as_deref().and_then(|meta| get_element(document, meta));
        let place = BucketPlace::of(time, series.span_seconds, meta);
        let key = (place, meta.map(|meta| (meta.element_type as u8, meta.value_bytes())));
        let known = by_place.get(&key).copied().filter(|_| !each_alone);
        match known.and_then(|known| groups.get_mut(known)) {
            Some(group) => group.positions.push(position),
            None => {
                by_place.insert(key, groups.len());
                groups.push(Group { place, meta, positions: vec![position] });
            }
        }
    }
    (groups, refused)
}

fn time_of(series: &TimeSeries, document: &RawDocument) -> Result<i64> {
    if document.as_bytes().len() > MEASUREMENT_BYTES_MAX {
        let message = format!(
            "Measurement of {} bytes is larger than the {MEASUREMENT_BYTES_MAX} that one of a time series may have",
            document.as_bytes().len()
        );
        return Err(CommandError::named("BSONObjectTooLarge", message));
    }
    match get_element(document, &series.fields.time).map(|time| (time.element_type, time.value())) {
        Some((ElementType::DateTime, RawBsonRef::DateTime(time))) => Ok(time.timestamp_millis()),
        _ => Err(CommandError::bad_value(format!(
            "'{}' must be present and contain a valid BSON UTC datetime value",
            series.fields.time
        ))),
    }
}

/// Puts the measurements of a group into buckets; those that are in one are taken off `left`.
fn put(
    writer: &impl Writer,
    series: &TimeSeries,
    group: &Group<'_>,
    id: i32,
    left: &mut Vec<&RawDocument>,
    commit: &mut Option<CommitInfo>,
) -> Result<()> {
    while !left.is_empty() {
        writer.check()?;
        let found = buckets_at(writer.queries(), series, &group.place)?;
        let mut is_added = false;
        for record_id in found.records {
            let mut added = 0;
            let changed = writer.write(id, |write| {
                let store = writer.queries().store;
                store.change_document(write, &series.collection, record_id, Validation::Bypass, |bucket, out| {
                    added = 0;
                    let Some(filled) = filled(series, group, bucket, left, &mut added)? else {
                        return Ok::<_, CommandError>(Decision::Keep);
                    };
                    out.extend_from_slice(filled.as_bytes());
                    Ok(Decision::Replace)
                })
            })?;
            if let (Some(made), true) = (changed.commit(), added > 0) {
                *commit = Some(made);
                left.drain(..added);
                is_added = true;
                break;
            }
        }
        if is_added {
            continue;
        }
        match begin_bucket(writer, series, group, (id, found.next), left) {
            Ok((made, added)) => {
                *commit = Some(made);
                left.drain(..added);
            }
            // Somebody else has begun it: it is filled then.
            Err(error) if error.code_name == "DuplicateKey" => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A stored bucket with as many of the measurements as it has room for; `None` where it is of something else or full.
fn filled(
    series: &TimeSeries,
    group: &Group<'_>,
    bucket: &RawDocument,
    left: &[&RawDocument],
    added: &mut usize,
) -> Result<Option<bson::RawDocumentBuf>> {
    let Ok(mut builder) = BucketBuilder::read(bucket, &series.fields) else { return Ok(None) };
    let is_of_span = first_time(bucket, &series.fields).is_some_and(|time| group.place.has(time));
    if !is_of_span || !builder.is_of(group.meta) {
        return Ok(None);
    }
    *added = builder.fill(left)?;
    if *added == 0 { Ok(None) } else { Ok(Some(builder.finish()?)) }
}

fn begin_bucket(
    writer: &impl Writer,
    series: &TimeSeries,
    group: &Group<'_>,
    (id, number): (i32, u32),
    left: &[&RawDocument],
) -> Result<(CommitInfo, usize)> {
    let Some(bucket_id) = group.place.id(number) else {
        let message = "there are no more buckets for this series and time";
        return Err(CommandError::named("InvalidOptions", message));
    };
    let mut builder = BucketBuilder::new(&series.fields, bucket_id, group.meta);
    let added = builder.fill(left)?;
    let bucket = builder.finish()?;
    let commit = writer.write(id, |write| {
        writer.queries().store.insert_document(write, &series.collection, &bucket, Validation::Bypass)
    })?;
    Ok((commit, added))
}

/// Refuses documents that somebody puts among the buckets and that are none: a tool that restores them. Gives one that is
/// stored in its place, if it is.
///
/// # Errors
/// InvalidBSON (22); NotImplemented (238) for layouts that are not read.
pub(super) fn check_bucket(
    reading: Reading<'_>,
    namespace: &Namespace,
    document: &RawDocument,
) -> Result<Option<RawDocumentBuf>> {
    if !namespace.collection().starts_with(PREFIX) {
        return Ok(None);
    }
    let collection = reading.collection(namespace)?;
    let options = collection.as_ref().and_then(|collection| collection.definition().options.time_series.clone());
    let Some(options) = options else {
        return Err(CommandError::named("InvalidNamespace", format!("there is no time series behind {namespace}")));
    };
    let fields = time_series::Fields { time: options.time_field, meta: options.meta_field };
    Ok(time_series::check(document, &fields)?)
}
