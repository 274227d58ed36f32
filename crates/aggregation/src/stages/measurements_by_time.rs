//! The first measurements of a time series by their time, such as the latest: buckets come in the order of their times.
//!
//! The optimiser puts it in place of `$_internalUnpackBucket`, a filter and a `$sort` with a limit. Buckets come sorted by
//! `_id`, which begins with the earliest time that a bucket may have. What can come before everything that is still to
//! come is given out; when the wanted measurements are all better than that, no more buckets are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::raw::{CStr, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use bson::rawdoc;
use document::{document_id, get_field};
use query_language::before_allocating_if_large;
use query_language::expression::DependencySet;
use query_language::expression::sort_pattern::SortPattern;
use time_series::{Measurements, first_time, last_time};

use super::match_stage::Match;
use super::sort::Sort;
use super::unpack_bucket::{UnpackBucket, refused};
use crate::context::RunContext;
use crate::cursor::Interruptible;
use crate::error::Result;
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// More are sorted by `$sort`, which can use the disk.
const LIMIT_MAX: u64 = 1_000;

#[derive(Debug)]
pub(super) struct MeasurementsByTime {
    unpack: UnpackBucket,
    filter: Option<Arc<Match>>,
    order: Order,
    limit: usize,
}

/// By their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Ascending,
    Descending,
}

impl Order {
    /// A number that grows in this order.
    fn key(self, millis: i64) -> i64 {
        match self {
            Order::Ascending => millis,
            Order::Descending => !millis,
        }
    }

    fn direction(self) -> i32 {
        match self {
            Order::Ascending => 1,
            Order::Descending => -1,
        }
    }
}

impl MeasurementsByTime {
    /// The order in which it wants buckets, and the stage; `None` where `$sort` does better.
    pub(super) fn of(unpack: &UnpackBucket, filter: Option<&Arc<Match>>, sort: &Sort) -> Option<(Sort, Stage)> {
        let [part] = sort.pattern().parts() else { return None };
        let limit = sort.limit().filter(|limit| (1..=LIMIT_MAX).contains(limit))?;
        if part.path.as_str() != unpack.fields.time {
            return None;
        }
        let order = if part.descending { Order::Descending } else { Order::Ascending };
        let by_id = SortPattern::parse(&rawdoc! { "_id": order.direction() }).ok()?;
        let stage = Self { unpack: unpack.clone(), filter: filter.cloned(), order, limit: limit as usize };
        Some((Sort::new(by_id), Stage::other(stage)))
    }

    /// Nothing that this bucket and those after it have comes before this key.
    fn bound(&self, bucket: &RawDocument) -> i64 {
        let Some(RawBsonRef::ObjectId(id)) = document_id(bucket) else { return i64::MIN };
        let [first, second, third, fourth, ..] = id.bytes();
        let seconds = u32::from_be_bytes([first, second, third, fourth]);
        match self.order {
            // It may be of any time before 1970, or after 2106.
            Order::Ascending if seconds == 0 => i64::MIN,
            Order::Descending if seconds == u32::MAX => i64::MIN,
            Order::Ascending => i64::from(seconds) * 1_000,
            Order::Descending => {
                let last = i64::from(seconds).saturating_add(self.unpack.span_seconds).saturating_mul(1_000);
                self.order.key(last)
            }
        }
    }

    /// Nothing that this bucket has comes before this key.
    fn bound_of_own(&self, bucket: &RawDocument) -> i64 {
        let best = match self.order {
            Order::Ascending => first_time(bucket, &self.unpack.fields),
            Order::Descending => last_time(bucket, &self.unpack.fields),
        };
        best.map_or(i64::MIN, |time| self.order.key(time))
    }
}

impl PipelineStage for MeasurementsByTime {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let source = Box::new(Interruptible::new(source, Arc::clone(&run.host)));
        let left = self.limit;
        Ok(Box::new(ByTime { stage: self, source, best: BTreeMap::new(), left, number: 0, bound: i64::MIN }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.whole_document = true;
        Needs::Nothing
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        let time = <&CStr>::try_from(self.unpack.fields.time.as_str())?;
        inner.append(cstr!("sortKey"), stage_document(time, self.order.direction()));
        inner.append(cstr!("limit"), self.limit as i64);
        inner.append(cstr!("unpack"), self.unpack.to_bson()?);
        if let Some(filter) = &self.filter {
            inner.append(cstr!("filter"), filter.source());
        }
        Ok(stage_document(cstr!("$_internalBoundedSort"), inner))
    }
}

struct ByTime {
    stage: Arc<MeasurementsByTime>,
    source: Box<Interruptible>,
    /// The best so far, by key and the order in which they came.
    best: BTreeMap<(i64, u64), RawDocumentBuf>,
    /// How many are still wanted.
    left: usize,
    /// How many have come.
    number: u64,
    /// Nothing to come has a key before this one; the last one when nothing comes.
    bound: i64,
}

impl ByTime {
    /// Takes in a bucket.
    fn add(&mut self, bucket: &RawDocument) -> Result<()> {
        before_allocating_if_large(bucket.as_bytes().len())?;
        let UnpackBucket { fields, include, .. } = &self.stage.unpack;
        let mut measurements = Measurements::of(bucket, fields, include.as_deref()).map_err(refused)?;
        before_allocating_if_large(measurements.held_bytes())?;
        while let Some(measurement) = measurements.next().map_err(refused)? {
            let time = match get_field(&measurement, &fields.time) {
                Some(RawBsonRef::DateTime(time)) => time.timestamp_millis(),
                _ => continue,
            };
            let key = self.stage.order.key(time);
            if !self.is_wanted(key)
                || !self.stage.filter.as_ref().map_or(Ok(true), |filter| filter.accepts(&measurement))?
            {
                continue;
            }
            self.number += 1;
            self.best.insert((key, self.number), measurement);
            if self.best.len() > self.left {
                self.best.pop_last();
            }
        }
        Ok(())
    }

    /// Whether there are not enough that are better.
    fn is_wanted(&self, key: i64) -> bool {
        self.best.len() < self.left || self.best.last_key_value().is_some_and(|((worst, _), _)| key < *worst)
    }
}

impl DocumentSource for ByTime {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if self.left == 0 {
                return Ok(None);
            }
            if self.best.first_key_value().is_some_and(|((key, _), _)| *key < self.bound || self.bound == i64::MAX) {
                self.left -= 1;
                return Ok(self.best.pop_first().map(|(_, measurement)| measurement));
            }
            if self.bound == i64::MAX {
                return Ok(None);
            }
            let Some(bucket) = self.source.next()? else {
                self.bound = i64::MAX;
                continue;
            };
            self.bound = self.stage.bound(&bucket);
            // What is before it is given out first: it makes room for nothing.
            if self.is_wanted(self.stage.bound_of_own(&bucket)) {
                self.add(&bucket)?;
            }
        }
    }
}
