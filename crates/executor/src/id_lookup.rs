//! IDHACK: the document with a given `_id`, without bounds, cursors or plans.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::{Collection, Index, RecordId};
use document::work;
use index_key::{KeyPattern, encode_prefix, long_key};
use query_language::filter::Literal;
use transaction::{ReadView, TransactionError};

use crate::error::Result;
use crate::stage::{Context, PlanStage, Step};
use crate::statistics::StageStatistics;

/// Units of work of a descent in a tree.
const UNITS_PER_LOOKUP: usize = 16;

/// Looks documents up by `_id`; keep one per worker, its buffers are reused.
#[derive(Debug, Default)]
pub struct IdLookup {
    prefix: Vec<u8>,
    key: Vec<u8>,
    type_bits: Vec<u8>,
    document: Vec<u8>,
}

impl IdLookup {
    /// The record with this `_id`.
    ///
    /// # Errors
    /// `Transaction`: a dropped collection, a snapshot too old, damage.
    pub fn find(&mut self, view: &ReadView, collection: &Collection, id: RawBsonRef<'_>) -> Result<Option<RecordId>> {
        let indexes = collection.indexes();
        let Some(index) = indexes.id_index_at(view.timestamp()) else {
            indexes.id_index().map_or(Ok(()), |index| index.check_usable()).map_err(TransactionError::from)?;
            return Ok(None);
        };
        self.set_id(index.pattern(), id);
        self.find_prefix(view, collection, &index)
    }

    fn set_id(&mut self, pattern: &KeyPattern, id: RawBsonRef<'_>) {
        self.prefix.clear();
        encode_prefix(&mut self.prefix, pattern, [id]);
        long_key::shorten(&mut self.prefix);
    }

    fn find_prefix(&mut self, view: &ReadView, collection: &Collection, index: &Index) -> Result<Option<RecordId>> {
        Ok(view.find_in_index(collection, index, &self.prefix, &mut self.key, &mut self.type_bits)?)
    }

    /// The document with this `_id`, and its record.
    ///
    /// # Errors
    /// As `find`.
    pub fn fetch(
        &mut self,
        view: &ReadView,
        collection: &Collection,
        id: RawBsonRef<'_>,
    ) -> Result<Option<(RecordId, &RawDocument)>> {
        match self.find(view, collection, id)? {
            Some(record_id) if view.get_record(collection, record_id, &mut self.document)? => {
                Ok(Some((record_id, RawDocument::from_bytes(&self.document)?)))
            }
            _ => Ok(None),
        }
    }
}

/// One of several `_id`s: its key is between two places of all keys.
struct Wanted {
    /// The first bytes of the key, of which most comparisons are.
    head: u64,
    key: Range<usize>,
    number: usize,
}

impl IdLookup {
    /// Looks for several in the order of their keys, and reads the documents in the order of their record ids. `told` is told
    /// the number of each and the document, if there is one, until it breaks off.
    ///
    /// # Errors
    /// As `find`; the command is to stop.
    pub fn fetch_all(
        &mut self,
        view: &ReadView,
        collection: &Collection,
        ids: &[RawBsonRef<'_>],
        told: &mut dyn FnMut(usize, Option<&RawDocument>) -> ControlFlow<()>,
    ) -> Result<()> {
        let indexes = collection.indexes();
        let Some(index) = indexes.id_index_at(view.timestamp()) else {
            indexes.id_index().map_or(Ok(()), |index| index.check_usable()).map_err(TransactionError::from)?;
            return Ok(());
        };
        let (keys, wanted) = self.in_order(index.pattern(), ids)?;
        let mut records: Vec<(RecordId, usize)> = Vec::with_capacity(wanted.len());
        let mut last: (&[u8], Option<RecordId>) = (&[], None);
        for Wanted { key, number, .. } in wanted {
            work::done(UNITS_PER_LOOKUP)?;
            let key = keys.get(key).unwrap_or_default();
            if last.0 != key {
                self.prefix.clear();
                self.prefix.extend_from_slice(key);
                last = (key, self.find_prefix(view, collection, &index)?);
            }
            match last.1 {
                Some(record_id) => records.push((record_id, number)),
                None if told(number, None).is_break() => return Ok(()),
                None => {}
            }
        }
        records.sort_unstable();
        let (mut last, mut is_there) = (None, false);
        for (record_id, number) in records {
            work::done(UNITS_PER_LOOKUP)?;
            if last != Some(record_id) {
                is_there = view.get_record(collection, record_id, &mut self.document)?;
                last = Some(record_id);
            }
            let document = is_there.then(|| RawDocument::from_bytes(&self.document)).transpose()?;
            if told(number, document).is_break() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The keys of some `_id`s, one behind the other, and their order.
    fn in_order(&mut self, pattern: &KeyPattern, ids: &[RawBsonRef<'_>]) -> Result<(Vec<u8>, Vec<Wanted>)> {
        let (mut keys, mut wanted) = (Vec::new(), Vec::with_capacity(ids.len()));
        for (number, id) in ids.iter().enumerate() {
            self.set_id(pattern, *id);
            let begun = keys.len();
            keys.extend_from_slice(&self.prefix);
            let mut head = [0; size_of::<u64>()];
            let common = self.prefix.len().min(head.len());
            head[..common].copy_from_slice(&self.prefix[..common]);
            wanted.push(Wanted { head: u64::from_be_bytes(head), key: begun..keys.len(), number });
        }
        work::done(ids.len())?;
        wanted.sort_unstable_by(|left, right| {
            let whole = |wanted: &Wanted| keys.get(wanted.key.clone()).unwrap_or_default();
            left.head.cmp(&right.head).then_with(|| whole(left).cmp(whole(right)))
        });
        Ok((keys, wanted))
    }
}

/// The same as a stage.
pub(crate) struct IdLookupStage {
    index: Arc<Index>,
    lookup: IdLookup,
    found: Option<RecordId>,
    statistics: StageStatistics,
}

impl IdLookupStage {
    pub(crate) fn new(index: Arc<Index>, id: &Literal) -> IdLookupStage {
        let mut lookup = IdLookup::default();
        lookup.set_id(index.pattern(), id.value());
        IdLookupStage { index, lookup, found: None, statistics: StageStatistics::default() }
    }
}

impl PlanStage for IdLookupStage {
    fn next(&mut self, context: &Context<'_>) -> Result<Step> {
        self.statistics.works += 1;
        if self.statistics.is_at_end {
            return Ok(Step::End);
        }
        self.statistics.is_at_end = true;
        self.found = self.lookup.find_prefix(context.view, context.collection, &self.index)?;
        let Some(record_id) = self.found else { return Ok(Step::End) };
        self.statistics.keys_examined += 1;
        if !context.view.get_record(context.collection, record_id, &mut self.lookup.document)? {
            return Ok(Step::End);
        }
        self.statistics.docs_examined += 1;
        self.statistics.advanced += 1;
        Ok(Step::Advanced)
    }

    fn document(&mut self) -> Result<&RawDocument> {
        Ok(RawDocument::from_bytes(&self.lookup.document)?)
    }

    fn record_id(&self) -> Option<RecordId> {
        self.found
    }

    fn reseat(&mut self, _: &ReadView) -> Result<()> {
        Ok(())
    }

    fn can_reseat(&self) -> bool {
        !self.index.is_replaced()
    }

    fn statistics(&self) -> StageStatistics {
        self.statistics
    }
}
