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
use transaction::{ReadView, Store};

use super::query_arguments::host_error;
use crate::request::error::CommandError;

pub(super) struct ById {
    store: Arc<Store>,
    collection: Arc<Collection>,
    /// What the pipeline reads from, if that is one point in time.
    fixed_view: Option<ReadView>,
    /// What the last one was read from.
    last_view: Option<ReadView>,
    lookup: IdLookup,
}

impl ById {
    /// `None` where an `_id` may be equal to several, or no index has them.
    pub(super) fn new(store: &Arc<Store>, collection: &Arc<Collection>, fixed_view: Option<ReadView>) -> Option<ById> {
        let timestamp = fixed_view.as_ref().map_or_else(|| store.read_view().timestamp(), ReadView::timestamp);
        let index = collection.indexes().id_index_at(timestamp)?;
        let tells_text = index.pattern().collator().is_none() && !collation::is_in_force();
        tells_text.then(|| ById {
            store: store.clone(),
            collection: collection.clone(),
            fixed_view,
            last_view: None,
            lookup: IdLookup::default(),
        })
    }
}

impl FindById for ById {
    fn find(&mut self, id: RawBsonRef<'_>, moment: Moment) -> aggregation::Result<Option<&RawDocument>> {
        let ById { store, collection, fixed_view, last_view, lookup } = self;
        let view = view_of(store, fixed_view.as_ref(), last_view, moment);
        count_accesses(collection, view, 1);
        let found = lookup.fetch(view, collection, id);
        found.map(|found| found.map(|(_, document)| document)).map_err(|error| host_error(CommandError::from(error)))
    }

    fn find_all(
        &mut self,
        ids: &[RawBsonRef<'_>],
        told: &mut dyn FnMut(usize, Option<&RawDocument>) -> ControlFlow<()>,
    ) -> aggregation::Result<()> {
        let ById { store, collection, fixed_view, last_view, lookup } = self;
        let view = view_of(store, fixed_view.as_ref(), last_view, Moment::Now);
        count_accesses(collection, view, ids.len());
        let looked_for = lookup.fetch_all(view, collection, ids, told);
        looked_for.map_err(|error| host_error(CommandError::from(error)))
    }

    fn rest(&mut self) {
        self.last_view = None;
    }
}

/// What is read from: what the pipeline reads from, or what the one before was read from where that will do.
fn view_of<'v>(
    store: &Store,
    fixed_view: Option<&'v ReadView>,
    last_view: &'v mut Option<ReadView>,
    moment: Moment,
) -> &'v ReadView {
    if let Some(fixed_view) = fixed_view {
        return fixed_view;
    }
    if moment == Moment::Now {
        *last_view = None;
    }
    last_view.get_or_insert_with(|| store.read_view())
}

/// The index of `_id` has been asked so often.
fn count_accesses(collection: &Collection, view: &ReadView, times: usize) {
    if let Some(index) = collection.indexes().id_index_at(view.timestamp()) {
        (0..times).for_each(|_| index.count_access());
    }
}
