//! `$sort`: the documents in the order of a pattern; equal ones keep the order in which they came.
//!
//! `$sample` sorts by random keys with a limit: `Sorting::at_random`.
//!
//! Documents are gathered in memory. With a limit known, only as many are kept as are wanted; what exceeds the stage's
//! memory is written out as sorted runs that are merged at the end.

use std::cmp::Ordering;
use std::sync::Arc;

use bson::raw::{CStr, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use document::work;
use platform::RunMerge;
use query_language::accumulator::value_bytes;
use query_language::expression::order::compare;
use query_language::expression::sort_pattern::{SortKey, SortPattern};
use query_language::expression::{DependencySet, EvaluationContext, Expression, Metadata, Variables};
use query_language::projection::FieldChanges;

use crate::context::{Memory, PipelineContext, RunContext};
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, SpillReader};
use crate::spill::{self, KeyOrder, Record, RecordFormat, Runs};
use crate::stage::{Needs, PipelineStage, Stage, stage_document};

/// With a limit, documents kept beyond it before those too many are dropped.
const SLACK: usize = 1000;
/// What an entry costs beside its bytes: its place in the vector (which grows by doubling and is sorted through a second one)
/// and what the allocator adds.
const ENTRY_BYTES: usize = 3 * size_of::<Entry>() + 32;

/// A sort pattern, and how many documents are wanted of it.
#[derive(Debug, Clone)]
pub(crate) struct Sort {
    pattern: SortPattern,
    limit: Option<u64>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(pattern) = argument else {
        return Err(AggregationError::numbered(15973, "the $sort key specification must be an object"));
    };
    Ok(vec![Stage::Sort(Arc::new(Sort::new(SortPattern::parse(pattern)?)))])
}

impl Sort {
    pub(crate) fn new(pattern: SortPattern) -> Self {
        Self { pattern, limit: None }
    }

    pub(crate) fn pattern(&self) -> &SortPattern {
        &self.pattern
    }

    /// How many documents are wanted, if that is known.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit
    }

    /// The same sort where other paths have what it sorts by; `None` where some have nothing.
    pub(crate) fn moved(&self, changes: &FieldChanges) -> Result<Option<Self>> {
        let mut pattern = RawDocumentBuf::new();
        for part in self.pattern.parts() {
            if let Some(keyword) = part.keyword {
                // What is known of a document stays whatever becomes of its fields.
                let name = <&CStr>::try_from(part.path.as_str())?;
                pattern.append(name, bson::rawdoc! { "$meta": keyword.name() });
                continue;
            }
            let Some(before) = changes.before(part.path.as_str()) else { return Ok(None) };
            pattern.append(<&CStr>::try_from(&*before)?, if part.descending { -1 } else { 1 });
        }
        Ok(Some(Self { pattern: SortPattern::parse(&pattern)?, limit: self.limit }))
    }

    /// The same sort of which only the first documents are wanted.
    pub(crate) fn limited(&self, limit: u64) -> Self {
        let limit = self.limit.map_or(limit, |known| known.min(limit));
        Self { pattern: self.pattern.clone(), limit: Some(limit) }
    }
}

impl PipelineStage for Sort {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let order = SortBy::Pattern(self.pattern.clone());
        Ok(Box::new(Sorting::new("$sort", order, self.limit, source, run)))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        for part in self.pattern.parts() {
            if part.keyword.is_none() {
                set.add_path(part.path.as_str());
            }
        }
        set.metadata = set.metadata | self.pattern.metadata();
        Needs::WhatFollows
    }

    /// A filter drops the same documents before sorting, unless the sort has dropped some itself.
    fn lets_filter_pass(&self, _: &[String]) -> bool {
        self.limit.is_none()
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut inner = RawDocumentBuf::new();
        inner.append(cstr!("sortKey"), self.pattern.to_document()?);
        match self.limit {
            Some(limit) => inner.append(cstr!("limit"), limit as i64),
            None => return Ok(stage_document(cstr!("$sort"), self.pattern.to_document()?)),
        }
        Ok(stage_document(cstr!("$sort"), inner))
    }
}

type Entry = (SortKey, RawDocumentBuf);

/// What documents are ordered by.
#[derive(Clone)]
enum SortBy {
    Pattern(SortPattern),
    /// A number drawn for each document.
    Random(Arc<Variables>),
    /// What an expression gives, null where it is missing; then a pattern.
    Value(Option<Arc<Expression>>, Option<SortPattern>, Arc<Variables>),
}

impl SortBy {
    /// What else is known of a document is its key's last part, where it is anything: whoever compares does not look at it.
    fn key(&self, document: &RawDocumentBuf, metadata: &Metadata) -> Result<SortKey> {
        match self {
            SortBy::Pattern(pattern) => {
                let mut key = pattern.key_with(document, metadata)?;
                if !metadata.is_empty() {
                    key.push(RawBson::Document(metadata.to_document()));
                }
                Ok(key)
            }
            SortBy::Random(variables) => Ok(vec![RawBson::Int64(variables.next_random() as i64)]),
            SortBy::Value(expression, pattern, variables) => {
                let mut key = match expression {
                    Some(expression) => {
                        let value = expression.evaluate(&EvaluationContext::new(document, variables))?;
                        vec![value.or_null().into()]
                    }
                    None => vec![RawBson::Null],
                };
                if let Some(pattern) = pattern {
                    key.extend(pattern.key(document)?);
                }
                Ok(key)
            }
        }
    }

    /// What a key has behind the values that documents are ordered by.
    fn metadata(&self, key: &[RawBson]) -> Metadata {
        let SortBy::Pattern(pattern) = self else { return Metadata::default() };
        let known = key.get(pattern.parts().len()).and_then(|known| known.as_document());
        known.map_or_else(Metadata::default, Metadata::of_document)
    }

    fn compare(&self, left: &[RawBson], right: &[RawBson]) -> Ordering {
        match self {
            SortBy::Pattern(pattern) => pattern.compare(left, right),
            SortBy::Random(_) => number(left).cmp(&number(right)),
            SortBy::Value(_, pattern, _) => compare(value(left), value(right)).then_with(|| match pattern {
                Some(pattern) => pattern.compare(left.get(1..).unwrap_or_default(), right.get(1..).unwrap_or_default()),
                None => Ordering::Equal,
            }),
        }
    }
}

fn value(key: &[RawBson]) -> Option<RawBsonRef<'_>> {
    key.first().map(RawBson::as_raw_bson_ref)
}

fn number(key: &[RawBson]) -> Option<i64> {
    key.first().and_then(RawBson::as_i64)
}

/// A sort that is running.
pub(crate) struct Sorting {
    /// For errors.
    stage: &'static str,
    by: SortBy,
    limit: Option<u64>,
    source: BoxSource,
    run: RunContext,
    memory: Memory,
    documents: u64,
    /// Of the document that was given last.
    metadata: Metadata,
    output: Option<Output>,
}

enum Output {
    Memory(std::vec::IntoIter<Entry>),
    Merge { merge: RunMerge<RecordFormat>, left: u64 },
}

impl DocumentSource for Sorting {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let output = match self.output.take() {
            Some(output) => output,
            None => self.sort()?,
        };
        match self.output.insert(output) {
            Output::Memory(entries) => {
                let Some((key, document)) = entries.next() else { return Ok(None) };
                self.metadata = self.by.metadata(&key);
                Ok(Some(document))
            }
            Output::Merge { left: 0, .. } => Ok(None),
            Output::Merge { merge, left } => {
                *left -= 1;
                let mut record = Record::default();
                let is_found = merge.next(&mut record)?;
                self.metadata = self.by.metadata(&record.key);
                Ok(is_found.then_some(record.body))
            }
        }
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }
}

impl Sorting {
    fn new(stage: &'static str, by: SortBy, limit: Option<u64>, source: BoxSource, run: &RunContext) -> Sorting {
        Sorting {
            stage,
            by,
            limit,
            source,
            run: run.clone(),
            memory: run.begin_memory(),
            documents: 0,
            metadata: Metadata::default(),
            output: None,
        }
    }

    /// `count` documents drawn at random, each once, in random order.
    pub(crate) fn at_random(stage: &'static str, count: u64, source: BoxSource, run: &RunContext) -> Sorting {
        Sorting::new(stage, SortBy::Random(Arc::clone(run.variables())), Some(count), source, run)
    }

    /// All documents in the order of what an expression gives, for stages that take them in that order.
    pub(crate) fn by_value(
        stage: &'static str,
        expression: Arc<Expression>,
        source: BoxSource,
        run: &RunContext,
    ) -> Sorting {
        Sorting::by_partition(stage, Some(expression), None, source, run)
    }

    /// The same where documents of the same value are in the order of a pattern.
    pub(crate) fn by_partition(
        stage: &'static str,
        expression: Option<Arc<Expression>>,
        pattern: Option<SortPattern>,
        source: BoxSource,
        run: &RunContext,
    ) -> Sorting {
        let by = SortBy::Value(expression, pattern, Arc::clone(run.variables()));
        Sorting::new(stage, by, None, source, run)
    }

    /// How many documents came; known once the first has been asked for.
    pub(crate) fn documents(&self) -> u64 {
        self.documents
    }

    fn sort(&mut self) -> Result<Output> {
        let mut entries: Vec<Entry> = Vec::new();
        let by = self.by.clone();
        let order: KeyOrder = Arc::new(move |left, right| by.compare(left, right));
        let mut runs = Runs::new(order);
        let mut bytes = 0;
        let limit = self.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        while let Some(document) = self.source.next()? {
            let key = self.by.key(&document, &self.source.metadata())?;
            self.documents += 1;
            bytes += entry_bytes(&key, &document);
            entries.push((key, document));
            if entries.len() >= limit.saturating_mul(2).max(limit.saturating_add(SLACK)) {
                self.arrange(&mut entries, limit)?;
                bytes = entries.iter().map(|(key, document)| entry_bytes(key, document)).sum();
            }
            if !self.memory.holds(bytes) {
                self.arrange(&mut entries, limit)?;
                runs.push(self.spill(&mut entries)?, &self.run, self.stage)?;
                bytes = 0;
            }
        }
        self.arrange(&mut entries, limit)?;
        if runs.is_empty() {
            return Ok(Output::Memory(entries.into_iter()));
        }
        runs.push(self.spill(&mut entries)?, &self.run, self.stage)?;
        Ok(Output::Merge { merge: runs.merge()?, left: self.limit.unwrap_or(u64::MAX) })
    }

    /// Sorts what is in memory and drops what is beyond the limit.
    fn arrange(&self, entries: &mut Vec<Entry>, limit: usize) -> Result<()> {
        work::sort_by(entries, |(left, _), (right, _)| self.by.compare(left, right))?;
        entries.truncate(limit);
        Ok(())
    }

    fn spill(&mut self, entries: &mut Vec<Entry>) -> Result<Box<dyn SpillReader>> {
        let mut writer = spill::begin_run(&self.run, self.stage)?;
        let mut buffer = Vec::new();
        for (key, document) in entries.drain(..) {
            spill::append(writer.as_mut(), &mut buffer, &key, &document)?;
        }
        *entries = Vec::new();
        self.memory.clear();
        writer.finish()
    }
}

fn entry_bytes(key: &[RawBson], document: &RawDocumentBuf) -> usize {
    ENTRY_BYTES + key.iter().map(value_bytes).sum::<usize>() + document.as_bytes().len()
}
