//! `$densify`: documents made in the gaps between those that there are, along a number or a date.
//!
//! The documents are sorted by the field, and spill like any sort; then each partition goes along its own steps, of which only the next is
//! kept. A document that was made has the field and those of the partition. Documents without the field pass.
//! Source: MongoDB's manual, *$densify (aggregation)*.

mod parse;
mod partitions;
mod step;

use std::sync::Arc;

use bson::raw::{RawArrayBuf, RawBsonRef, RawDocumentBuf, cstr};
use document::work;
use query_language::expression::{DependencySet, Expression, FieldPath};

use super::position::Position;
use super::sort::Sorting;
use crate::context::RunContext;
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource};
use crate::stage::{Needs, PipelineStage, stage_document};
use partitions::{Partition, Partitions};
use step::{Step, value_at};

pub(crate) use parse::parse;

/// Documents that one stage makes at most, MongoDB's limit.
const MADE_MAX: u64 = 500_000;

#[derive(Debug)]
struct Densify {
    field: FieldPath,
    /// The field as what is sorted by.
    value: Arc<Expression>,
    partition_by: Vec<FieldPath>,
    step: Step,
    unit_name: Option<String>,
    bounds: Bounds,
}

/// Where the gaps end.
#[derive(Debug, Clone, Copy)]
enum Bounds {
    /// At the first and the last value of all documents.
    Full,
    /// At those of each partition.
    Partition,
    /// At these; the upper one is outside.
    Range(Position, Position),
}

impl PipelineStage for Densify {
    fn open(self: Arc<Self>, source: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let sorted = Sorting::by_value("$densify", Arc::clone(&self.value), source, run);
        let partitions = Partitions::new(run.begin_memory());
        Ok(Box::new(Densifying {
            stage: self,
            sorted,
            partitions,
            first: None,
            last: None,
            waiting: None,
            is_at_end: false,
            made: 0,
        }))
    }

    fn dependencies(&self, set: &mut DependencySet) -> Needs {
        set.add_path(self.field.as_str());
        self.partition_by.iter().for_each(|path| set.add_path(path.as_str()));
        Needs::WhatFollows
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        let mut range = RawDocumentBuf::new();
        match self.step {
            Step::Number(step) => range.append(cstr!("step"), step.to_bson()),
            Step::Time(amount, _) => range.append(cstr!("step"), amount),
        }
        match self.bounds {
            Bounds::Full => range.append(cstr!("bounds"), "full"),
            Bounds::Partition => range.append(cstr!("bounds"), "partition"),
            Bounds::Range(lower, upper) => {
                range.append(cstr!("bounds"), RawArrayBuf::from_iter([value_at(lower), value_at(upper)]));
            }
        }
        if let Some(name) = &self.unit_name {
            range.append(cstr!("unit"), name.as_str());
        }
        let mut inner = stage_document(cstr!("field"), self.field.as_str());
        let paths = self.partition_by.iter().map(|path| path.as_str());
        inner.append(cstr!("partitionByFields"), paths.collect::<RawArrayBuf>());
        inner.append(cstr!("range"), range);
        Ok(stage_document(cstr!("$densify"), inner))
    }
}

struct Densifying {
    stage: Arc<Densify>,
    sorted: Sorting,
    partitions: Partitions,
    /// The first and the last value of all documents so far.
    first: Option<Position>,
    last: Option<Position>,
    /// A document before which others may have to be made.
    waiting: Option<Waiting>,
    /// Whether all documents have come.
    is_at_end: bool,
    made: u64,
}

/// A document, its value, and its partition.
struct Waiting {
    document: RawDocumentBuf,
    position: Position,
    partition: usize,
}

impl DocumentSource for Densifying {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        loop {
            if let Some(waiting) = self.waiting.take() {
                return self.before(waiting).map(Some);
            }
            if self.is_at_end {
                return self.behind_all();
            }
            let Some(document) = self.sorted.next()? else {
                self.end()?;
                continue;
            };
            match self.take(document)? {
                Taken::Passes(document) => return Ok(Some(document)),
                Taken::Waits(waiting) => self.waiting = Some(waiting),
            }
        }
    }
}

enum Taken {
    /// It has no place among the others.
    Passes(RawDocumentBuf),
    Waits(Waiting),
}

impl Densifying {
    fn take(&mut self, document: RawDocumentBuf) -> Result<Taken> {
        let stage = Arc::clone(&self.stage);
        let value = stage.field.evaluate(&document)?;
        if value.is_nullish() {
            drop(value);
            return Ok(Taken::Passes(document));
        }
        let position = stage.step.position_of(value.or_null())?;
        drop(value);
        let first = *self.first.get_or_insert(position);
        self.last = Some(position);
        let start = match stage.bounds {
            Bounds::Full => first,
            Bounds::Partition => position,
            Bounds::Range(lower, _) => lower,
        };
        let mut key = RawDocumentBuf::new();
        for path in &stage.partition_by {
            if let Some(value) = path.evaluate(&document)?.get() {
                key = with_path(&key, path.as_path(), Some(value))?;
            }
        }
        let partition = self.partitions.find_or_insert(key, start)?;
        Ok(Taken::Waits(Waiting { document, position, partition }))
    }

    /// The next document that comes before one that waits, or that one.
    fn before(&mut self, waiting: Waiting) -> Result<RawDocumentBuf> {
        let stage = Arc::clone(&self.stage);
        let Some(partition) = self.partitions.get_mut(waiting.partition) else { return Ok(waiting.document) };
        let end = match stage.bounds {
            Bounds::Range(_, upper) if upper.compare(waiting.position).is_lt() => upper,
            _ => waiting.position,
        };
        if partition.next.compare(end).is_lt() {
            let made = make(&stage, partition)?;
            self.waiting = Some(waiting);
            self.count()?;
            return Ok(made);
        }
        if partition.next.compare(waiting.position).is_eq() {
            partition.next = stage.step.after(partition.next)?;
        }
        Ok(waiting.document)
    }

    /// All documents have come. Bounds that were given are filled without any as well.
    fn end(&mut self) -> Result<()> {
        self.is_at_end = true;
        if let Bounds::Range(lower, _) = self.stage.bounds
            && self.stage.partition_by.is_empty()
            && self.partitions.is_empty()
        {
            self.partitions.find_or_insert(RawDocumentBuf::new(), lower)?;
        }
        Ok(())
    }

    /// The next document that is made behind the last of its partition.
    fn behind_all(&mut self) -> Result<Option<RawDocumentBuf>> {
        let stage = Arc::clone(&self.stage);
        while let Some(partition) = self.partitions.last_mut() {
            work::step()?;
            let is_wanted = match (stage.bounds, self.last) {
                (Bounds::Range(_, upper), _) => partition.next.compare(upper).is_lt(),
                (Bounds::Full, Some(last)) => partition.next.compare(last).is_le(),
                _ => false,
            };
            if is_wanted {
                let made = make(&stage, partition)?;
                self.count()?;
                return Ok(Some(made));
            }
            self.partitions.remove_last();
        }
        Ok(None)
    }

    fn count(&mut self) -> Result<()> {
        self.made += 1;
        if self.made <= MADE_MAX {
            return Ok(());
        }
        let made = self.made;
        let message = format!("Generated {made} documents in $densify, which is over the limit of {MADE_MAX}.");
        Err(AggregationError::numbered(5897900, message))
    }
}

/// Makes a partition's next document.
fn make(stage: &Densify, partition: &mut Partition) -> Result<RawDocumentBuf> {
    work::step()?;
    let value = value_at(partition.next);
    partition.next = stage.step.after(partition.next)?;
    with_path(&partition.key, stage.field.as_path(), Some(RawBsonRef::from(&value)))
}
