//! `$_internalUnpackBucket`: the measurements in buckets of a time-series collection, which reads as a view with this stage.
//!
//! Of a filter behind it what buckets can tell is asked before (`optimize`), and only fields that are read are unpacked.

use std::borrow::Cow;
use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::{Number, array_elements, elements};
use query_language::expression::DependencySet;
use query_language::{ErrorKind, before_allocating_if_large};
use time_series::{BucketError, Fields, Measurements, bucket_filter, measurement_count};

use super::match_stage::Match;
use super::measurements_by_time::MeasurementsByTime;
use super::sort::Sort;
use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::cursor::Interruptible;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

#[derive(Debug, Clone)]
pub(super) struct UnpackBucket {
    pub(super) fields: Fields,
    pub(super) span_seconds: i64,
    /// The fields that are read; `None` for all.
    pub(super) include: Option<Vec<String>>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let refused = |message: String| Err(AggregationError::new(ErrorKind::FailedToParse, message));
    let RawBsonRef::Document(options) = argument else {
        return refused(format!("$_internalUnpackBucket wants an object, not {}", type_of(argument)));
    };
    let (mut time, mut meta, mut span_seconds, mut include) = (None, None, None, None);
    for element in elements(options) {
        match (element.name(), element.value()) {
            ("timeField", RawBsonRef::String(name)) if is_field(name) => time = Some(name.to_owned()),
            ("metaField", RawBsonRef::String(name)) if is_field(name) => meta = Some(name.to_owned()),
            ("bucketMaxSpanSeconds", value) => {
                span_seconds = Number::from_bson(value).and_then(Number::to_i64_exact).filter(|seconds| *seconds > 0);
            }
            ("include", RawBsonRef::Array(names)) => {
                let names = array_elements(names).map(|name| name.value().as_str().map(ToOwned::to_owned));
                include = names.collect::<Option<Vec<_>>>();
            }
            (name, _) => return refused(format!("$_internalUnpackBucket: the option '{name}' is not right")),
        }
    }
    match (time, span_seconds) {
        (Some(time), Some(span_seconds)) => {
            Ok(vec![Stage::other(UnpackBucket { fields: Fields { time, meta }, span_seconds, include })])
        }
        _ => refused("$_internalUnpackBucket wants 'timeField' and 'bucketMaxSpanSeconds'".to_owned()),
    }
}

fn is_field(name: &str) -> bool {
    !name.is_empty() && !name.contains(['.', '\0'])
}

impl PipelineStage for UnpackBucket {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let unpacking = Unpacking { stage: self, source, bucket: None, buffer: Vec::new() };
        // A bucket becomes a thousand documents: what follows works long before the source is asked again.
        Ok(Box::new(Interruptible::new(Box::new(unpacking), Arc::clone(&run.host))))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.whole_document = true;
        Needs::Nothing
    }

    fn filter_before(&self, filter: &RawDocument) -> Option<RawDocumentBuf> {
        bucket_filter(filter, &self.fields, self.span_seconds)
    }

    fn giving_only(&self, fields: &[&str]) -> Option<Stage> {
        let include = Some(fields.iter().map(|field| (*field).to_owned()).collect());
        Some(Stage::other(UnpackBucket { include, ..self.clone() }))
    }

    fn first_in_order(&self, filter: Option<&Arc<Match>>, sort: &Sort) -> Option<(Sort, Stage)> {
        MeasurementsByTime::of(self, filter, sort)
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        if let Some(include) = &self.include {
            inner.append(cstr!("include"), include.iter().map(String::as_str).collect::<RawArrayBuf>());
        }
        inner.append(cstr!("timeField"), self.fields.time.as_str());
        if let Some(meta) = &self.fields.meta {
            inner.append(cstr!("metaField"), meta.as_str());
        }
        // A year at most, so that it is one.
        let seconds = i32::try_from(self.span_seconds).map_or(RawBson::Int64(self.span_seconds), RawBson::Int32);
        inner.append(cstr!("bucketMaxSpanSeconds"), seconds);
        Ok(stage_document(cstr!("$_internalUnpackBucket"), inner))
    }
}

struct Unpacking {
    stage: Arc<UnpackBucket>,
    source: BoxSource,
    /// The bucket that is being unpacked.
    bucket: Option<Measurements>,
    /// The measurement that is lent.
    buffer: Vec<u8>,
}

impl Unpacking {
    /// Writes the next measurement into the buffer; `false` at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            if let Some(bucket) = &mut self.bucket
                && bucket.write_next(&mut self.buffer).map_err(refused)?
            {
                return Ok(true);
            }
            let Some(document) = self.source.lend()? else { return Ok(false) };
            before_allocating_if_large(document.as_bytes().len())?;
            let bucket = Measurements::of(&document, &self.stage.fields, self.stage.include.as_deref());
            let bucket = bucket.map_err(refused)?;
            before_allocating_if_large(bucket.held_bytes())?;
            self.bucket = Some(bucket);
        }
    }
}

impl DocumentSource for Unpacking {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        if !self.advance()? {
            return Ok(None);
        }
        let document = RawDocumentBuf::from_bytes(self.buffer.clone());
        document.map(Some).map_err(|error| refused(BucketError::Damaged(error.to_string())))
    }

    fn lend(&mut self) -> Result<Option<Cow<'_, RawDocument>>> {
        if !self.advance()? {
            return Ok(None);
        }
        let document = RawDocument::from_bytes(&self.buffer);
        document
            .map(|document| Some(Cow::Borrowed(document)))
            .map_err(|error| refused(BucketError::Damaged(error.to_string())))
    }

    fn count_rest(&mut self) -> Result<Option<u64>> {
        let mut count = self.bucket.take().map_or(0, |bucket| bucket.left() as u64);
        while let Some(document) = self.source.lend()? {
            count += measurement_count(&document, &self.stage.fields).map_err(refused)?;
        }
        Ok(Some(count))
    }
}

pub(super) fn refused(error: BucketError) -> AggregationError {
    let kind = match &error {
        BucketError::Damaged(_) => ErrorKind::InvalidBson,
        BucketError::NotImplemented(_) => ErrorKind::NotImplemented,
    };
    AggregationError::new(kind, error.to_string())
}
