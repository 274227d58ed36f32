//! IDHACK: the document with a given `_id`, without bounds, cursors or plans.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::{Collection, Index, RecordId};
use index_key::{KeyPattern, encode_prefix, long_key};
use query_language::filter::Literal;
use transaction::{ReadView, TransactionError};

use crate::error::Result;
use crate::stage::{Context, PlanStage, Step};
use crate::statistics::StageStatistics;

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
