//! Documents of a collection by `_id`, one after the other, as `$lookup` asks for them.
//!
//! Each is read as a query of its own would: in the pipeline's view, or else in one of that moment.

use std::ops::ControlFlow;
use std::sync::Arc;

use aggregation::{FindById, Moment};
use bson::{RawBsonRef, RawDocument};
use collection::Collection;
use document::collation;
use executor::IdLookup;
use transaction::ReadView;

use super::query_arguments::host_error;
use crate::request::error::CommandError;
use crate::state::context::ServerContext;

pub(super) struct ById {
    server: Arc<ServerContext>,
    collection: Arc<Collection>,
    /// What the pipeline reads from, if that is one point in time.
    fixed_view: Option<ReadView>,
    /// What the last one was read from.
    last_view: Option<ReadView>,
    lookup: IdLookup,
}

impl ById {
    /// `None` where an `_id` may be equal to several, or no index has them.
    pub(super) fn new(
        server: &Arc<ServerContext>,
        collection: &Arc<Collection>,
        fixed_view: Option<ReadView>,
    ) -> Option<ById> {
        let timestamp = fixed_view.as_ref().map_or_else(|| server.store.read_view().timestamp(), ReadView::timestamp);
        let index = collection.indexes().id_index_at(timestamp)?;
        let tells_text = index.pattern().collator().is_none() && !collation::is_in_force();
        tells_text.then(|| ById {
            server: server.clone(),
            collection: collection.clone(),
            fixed_view,
            last_view: None,
            lookup: IdLookup::default(),
        })
    }
}

impl FindById for ById {
    fn find(&mut self, id: RawBsonRef<'_>, moment: Moment) -> aggregation::Result<Option<&RawDocument>> {
        let kept = self.fixed_view.as_ref().or(self.last_view.as_ref().filter(|_| moment == Moment::AsBefore));
        let view = match kept {
            Some(view) => view,
            None => self.last_view.insert(self.server.store.read_view()),
        };
        if let Some(index) = self.collection.indexes().id_index_at(view.timestamp()) {
            index.count_access();
        }
        let found = self.lookup.fetch(view, &self.collection, id);
        found.map(|found| found.map(|(_, document)| document)).map_err(|error| host_error(CommandError::from(error)))
    }

    fn find_all(
        &mut self,
        ids: &[RawBsonRef<'_>],
        told: &mut dyn FnMut(usize, Option<&RawDocument>) -> ControlFlow<()>,
    ) -> aggregation::Result<()> {
        let newest;
        let view = match &self.fixed_view {
            Some(view) => view,
            None => {
                newest = self.server.store.read_view();
                &newest
            }
        };
        if let Some(index) = self.collection.indexes().id_index_at(view.timestamp()) {
            ids.iter().for_each(|_| index.count_access());
        }
        let looked_for = self.lookup.fetch_all(view, &self.collection, ids, told);
        looked_for.map_err(|error| host_error(CommandError::from(error)))
    }

    fn rest(&mut self) {
        self.last_view = None;
    }
}
