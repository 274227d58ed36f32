//! Making capped collections out of ordinary ones.
//!
//! Called by `convertToCapped` and `cloneCollectionAsCapped`. Only the newest documents that fit are copied. A conversion keeps writers of the collection out
//! while it copies, and other changes of definitions too; a copy does not.

use std::sync::Arc;

use bson::RawDocument;
use collection::catalog::CatalogChange;
use collection::{CappedOptions, Collection, CollectionError, CollectionOptions, Namespace, Validation};

use crate::commit_order::CommitInfo;
use crate::error::Result;
use crate::read_view::ReadView;
use crate::store::Store;
use crate::waiting::Waiting;
use crate::write_context::WriteContext;

impl Store {
    /// Replaces a collection by a capped one with its newest documents, and without its indexes but that of `_id`.
    ///
    /// # Errors
    /// `Collection` with `NamespaceNotFound`; those of inserting; `Stopped` when `is_stopped` says so, `Interrupted` when `waiting` does. The collection is as it was then.
    pub fn convert_to_capped(
        &self,
        namespace: &Namespace,
        capped: CappedOptions,
        waiting: Waiting,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<CommitInfo> {
        let _definitions = self.lock_definitions(|| self.catalog.lookup(namespace.as_str()).into_iter().collect());
        let source = self.source_of_copy(namespace)?;
        let _gate = source.begin_definition_change();
        source.check_alive()?;
        // With the gate held nobody is changing the collection, but what was changed last may not be visible yet.
        self.commits.wait_visible(oplog::Oplog::last_timestamp(&self.oplog))?;
        let uuid = self.catalog.new_uuid();
        let name = format!("tmp{:.8}.convertToCapped.{}", uuid.to_string(), namespace.collection());
        let temporary = Namespace::new(namespace.database(), &name)?;
        let mut options = source.definition().options.clone();
        options.capped = Some(capped);
        self.change_definition(&CatalogChange::Create { namespace: temporary.clone(), uuid, options })?;
        let copied = self.copy_newest(&self.newest_view(), &source, &temporary, capped, waiting, is_stopped);
        if let Err(error) = copied {
            self.change_definition(&CatalogChange::Drop { namespace: temporary, uuid })?;
            return Err(error);
        }
        let to = namespace.clone();
        let change = CatalogChange::Rename { from: temporary, to, uuid, drop_target: Some(source.uuid()) };
        self.change_names(&[namespace], &change)
    }

    /// Makes a capped collection with the newest documents of another one.
    ///
    /// # Errors
    /// `Collection` with `NamespaceNotFound`, `NamespaceExists`; those of inserting; `Stopped`, `Interrupted`.
    pub fn clone_as_capped(
        &self,
        from: &Namespace,
        to: &Namespace,
        capped: CappedOptions,
        waiting: Waiting,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<CommitInfo> {
        let source = self.source_of_copy(from)?;
        let options = CollectionOptions { capped: Some(capped), ..CollectionOptions::default() };
        let (_, created) = self.create_collection(to, options)?;
        match self.copy_newest(&self.newest_view(), &source, to, capped, waiting, is_stopped) {
            Ok(last) => Ok(last.unwrap_or(created)),
            Err(error) => {
                self.drop_collection(to)?;
                Err(error)
            }
        }
    }

    fn source_of_copy(&self, namespace: &Namespace) -> Result<Arc<Collection>> {
        let missing = || CollectionError::NamespaceNotFound(format!("source collection {namespace} does not exist"));
        Ok(self.catalog.lookup(namespace.as_str()).ok_or_else(missing)?)
    }

    fn copy_newest(
        &self,
        view: &ReadView,
        source: &Arc<Collection>,
        to: &Namespace,
        capped: CappedOptions,
        waiting: Waiting,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<Option<CommitInfo>> {
        let missing = || CollectionError::NamespaceNotFound(format!("{to} was dropped"));
        let target = self.catalog.lookup(to.as_str()).ok_or_else(missing)?;
        let mut cursor = view.record_cursor(source);
        let (mut first, mut bytes, mut documents) = (None, 0, 0);
        cursor.seek_last()?;
        while let Some(record_id) = cursor.previous()? {
            bytes += cursor.document()?.as_bytes().len() as u64;
            documents += 1;
            if bytes > capped.size || capped.max.is_some_and(|max| documents > max) {
                break;
            }
            first = Some(record_id);
        }
        let Some(first) = first else { return Ok(None) };
        let (mut context, mut last) = (WriteContext::new(), None);
        context.set_waiting(waiting);
        cursor.seek(first)?;
        while cursor.next()?.is_some() {
            if is_stopped() {
                return Err(CollectionError::Stopped.into());
            }
            let document: &RawDocument = cursor.document()?;
            last = Some(self.insert_document(&mut context, &target, document, Validation::Bypass)?);
        }
        Ok(last)
    }
}
