//! The search from one document, level by level.
//!
//! All that it keeps goes to temporary storage when it does not fit into memory: documents found, values to be looked
//! for, and, as hashes, what has been met. Used by the stage.

use std::sync::Arc;

use bson::raw::{CStr, RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf, cstr};
use document::{array_elements, work};
use query_language::accumulator::value_bytes;
use query_language::expression::{MetadataUse, Value};
use query_language::growth::before_filtering;

use super::GraphLookup;
use super::kept::{Kept, KeptReading};
use super::seen_values::SeenValues;
use crate::context::{Memory, RunContext};
use crate::cursor::Interruptible;
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{DocumentSource, ForeignQuery};
use crate::stage::stage_document;

/// Values that one query looks for.
const VALUES_PER_QUERY: usize = 4096;
/// What a document that is kept costs beside its bytes.
const KEPT_BYTES: usize = 2 * size_of::<RawDocumentBuf>() + 16;

/// See the module's head.
pub(super) struct Search<'s> {
    stage: &'s GraphLookup,
    run: &'s RunContext,
    memory: Memory,
    bytes: usize,
    found: Kept,
    /// The `_id`s of those found.
    identifiers: SeenValues,
    /// All values that have been reached.
    reached: SeenValues,
    /// Those of them that are not looked for yet.
    frontier: Kept,
}

impl<'s> Search<'s> {
    pub(super) fn new(stage: &'s GraphLookup, run: &'s RunContext) -> Search<'s> {
        Search {
            stage,
            run,
            memory: run.begin_memory(),
            bytes: 0,
            found: Kept::default(),
            identifiers: SeenValues::default(),
            reached: SeenValues::default(),
            frontier: Kept::default(),
        }
    }

    /// The value, or each of an array, will be looked for unless it has been already.
    pub(super) fn reach(&mut self, value: &Value<'_>) -> Result<()> {
        match value.get() {
            None => Ok(()),
            Some(RawBsonRef::Array(array)) => {
                array_elements(array).try_for_each(|element| self.reach_one(element.value()))
            }
            Some(value) => self.reach_one(value),
        }
    }

    fn reach_one(&mut self, value: RawBsonRef<'_>) -> Result<()> {
        work::step()?;
        let value = if matches!(value, RawBsonRef::Undefined) { RawBsonRef::Null } else { value };
        if let Some(bytes) = self.reached.insert(value)? {
            let kept = stage_document(cstr!("v"), RawBson::from(value));
            let bytes = bytes + KEPT_BYTES + kept.as_bytes().len();
            self.frontier.push(kept);
            self.hold(bytes)?;
        }
        Ok(())
    }

    /// Searches, and gives what was found, with the memory that it takes.
    pub(super) fn run(mut self) -> Result<(KeptReading, Memory)> {
        let mut depth = 0;
        while !self.frontier.is_empty() {
            let mut level = std::mem::take(&mut self.frontier).read()?;
            loop {
                let mut values = Vec::new();
                while values.len() < VALUES_PER_QUERY
                    && let Some(kept) = level.next()?
                {
                    values.extend(document::get_field(&kept, "v").map(RawBson::from));
                }
                if values.is_empty() {
                    break;
                }
                self.follow(&values, depth)?;
            }
            depth += 1;
            if self.stage.depth_max.is_some_and(|max| depth > max) {
                break;
            }
        }
        Ok((self.found.read()?, self.memory))
    }

    /// Takes in what connects to these values.
    fn follow(&mut self, values: &[RawBson], depth: u64) -> Result<()> {
        before_filtering(values.len(), values.iter().map(value_bytes).sum())?;
        let filter = self.filter(values)?;
        let variables = Arc::clone(self.run.variables());
        let query = ForeignQuery { filter, needed_paths: None, metadata: MetadataUse::default(), variables };
        let found = self.run.host.find(&self.stage.from, &query)?;
        let mut found = Interruptible::new(found, Arc::clone(&self.run.host));
        while let Some(document) = found.next()? {
            let Some(identifier) = document::get_field(&document, "_id") else {
                let from = &self.stage.from;
                let message = format!(
                    "Documents in the '{from}' namespace must contain an _id for de-duplication in $graphLookup"
                );
                return Err(AggregationError::numbered(40271, message));
            };
            let Some(bytes) = self.identifiers.insert(identifier)? else { continue };
            self.hold(bytes + KEPT_BYTES + document.as_bytes().len())?;
            let next = self.stage.connect_from.evaluate(&document)?;
            self.reach(&next)?;
            drop(next);
            self.found.push(match &self.stage.depth_field {
                Some(field) => with_path(&document, field.as_path(), Some(RawBsonRef::Int64(depth as i64)))?,
                None => document,
            });
        }
        Ok(())
    }

    /// The filter on the collection for any of these values.
    fn filter(&self, values: &[RawBson]) -> Result<RawDocumentBuf> {
        let path = <&CStr>::try_from(self.stage.connect_to.as_str())?;
        let equal = |value: &RawBson| stage_document(path, stage_document(cstr!("$eq"), value.clone()));
        let is_regex = |value: &RawBson| matches!(value, RawBson::RegularExpression(_));
        let mut all = RawArrayBuf::new();
        all.push(match values.iter().any(is_regex) {
            // `$in` would take them for patterns.
            true => stage_document(cstr!("$or"), values.iter().map(equal).collect::<RawArrayBuf>()),
            false => {
                let any: RawArrayBuf = values.iter().map(RawBson::as_raw_bson_ref).collect();
                stage_document(path, stage_document(cstr!("$in"), any))
            }
        });
        if values.iter().any(|value| matches!(value, RawBson::Null)) {
            all.push(stage_document(path, stage_document(cstr!("$exists"), true)));
        }
        if let Some(restriction) = &self.stage.restriction {
            all.push(restriction.clone());
        }
        Ok(stage_document(cstr!("$and"), all))
    }

    /// So many bytes more are in memory; if that is too much, all goes to temporary storage.
    fn hold(&mut self, bytes: usize) -> Result<()> {
        self.bytes += bytes;
        if self.memory.holds(self.bytes) {
            return Ok(());
        }
        if self.run.host.spill_store().is_none() {
            return Err(AggregationError::numbered(40099, "$graphLookup reached maximum memory consumption"));
        }
        self.found.spill(self.run)?;
        self.frontier.spill(self.run)?;
        self.identifiers.spill(self.run)?;
        self.reached.spill(self.run)?;
        self.bytes = 0;
        self.memory.clear();
        Ok(())
    }
}
