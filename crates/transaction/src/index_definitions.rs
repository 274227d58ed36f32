//! Creating and dropping indexes: which ones, and what is refused. The building itself is in `index_build`.
//!
//! Called by the `createIndexes` and `dropIndexes` commands.

use std::sync::Arc;
use std::time::Duration;

use bson::RawDocumentBuf;
use collection::catalog::{CatalogChange, IndexChange};
use collection::{
    Collection, CollectionError, Index, IndexSpecification, IndexState, Namespace, Relation, show_specification,
};

use crate::commit_order::CommitInfo;
use crate::error::Result;
use crate::store::Store;

/// Most indexes of a collection, that on `_id` among them, as in MongoDB.
const INDEXES_MAX: usize = 64;

/// Units of work that comparing two specifications is.
const COMPARISON_UNITS: usize = 16;

/// How often a second request for an index looks whether the first is done with it.
const BUILD_POLL: Duration = Duration::from_millis(10);

/// Which indexes are to be dropped.
#[derive(Clone, Debug)]
pub enum WhichIndexes {
    /// All but the one on `_id` (`index: "*"`).
    All,
    /// Those of these names.
    Names(Vec<String>),
    /// The one with this key pattern.
    KeyPattern(RawDocumentBuf),
}

/// What `create_indexes` did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexesCreated {
    /// Number of indexes before.
    pub before: usize,
    /// Number of indexes after.
    pub after: usize,
    /// The last commit; `None` when all were there already.
    pub commit: Option<CommitInfo>,
}

impl Store {
    /// Creates indexes: all that are not there already, or none. Other operations go on meanwhile.
    ///
    /// # Errors
    /// `Collection` with `IndexOptionsConflict`, `IndexKeySpecsConflict`, `IndexAlreadyExists`, `CannotCreateIndex`, `DuplicateKey`, `IndexKey`,
    /// `KeyTooLong`, `IndexBuildAborted`; `CollectionDropped`: before anything was begun; `Oplog`, `Engine`, `Stopped`.
    pub fn create_indexes(
        &self,
        collection: &Arc<Collection>,
        specifications: Vec<IndexSpecification>,
    ) -> Result<IndexesCreated> {
        self.create_indexes_unless(collection, specifications, &|| false)
    }

    /// The same, unless `is_stopped`, which is asked now and then, ends it. Nothing is left of the indexes then.
    ///
    /// # Errors
    /// As `create_indexes`; `Collection` with `Stopped`.
    pub fn create_indexes_unless(
        &self,
        collection: &Arc<Collection>,
        specifications: Vec<IndexSpecification>,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<IndexesCreated> {
        loop {
            let definitions = self.lock_definitions(|| vec![collection.clone()]);
            collection.check_alive()?;
            let before = collection.indexes().ready().count();
            let Some(missing) = missing_indexes(collection, &specifications)? else {
                drop(definitions);
                if is_stopped() {
                    return Err(CollectionError::Stopped.into());
                }
                self.check_writable()?;
                self.clock.sleep(BUILD_POLL);
                continue;
            };
            if missing.is_empty() {
                return Ok(IndexesCreated { before, after: before, commit: None });
            }
            self.check_space()?;
            let started = self.start_index_build(collection, missing)?;
            drop(definitions);
            let commit = self.run_index_build(collection, started, is_stopped)?;
            return Ok(IndexesCreated { before, after: collection.indexes().ready().count(), commit: Some(commit) });
        }
    }

    /// Drops indexes. Returns how many there were.
    ///
    /// # Errors
    /// `Collection` with `IndexNotFound`, `InvalidOptions`, `CollectionDropped`; `Oplog`, `Engine`, `Stopped`.
    pub fn drop_indexes(
        &self,
        collection: &Arc<Collection>,
        which: WhichIndexes,
    ) -> Result<(usize, Option<CommitInfo>)> {
        let _definitions = self.lock_definitions(|| vec![collection.clone()]);
        let _gate = collection.begin_definition_change();
        collection.check_alive()?;
        let before = collection.indexes().listed().count();
        let mut commit = None;
        for index in chosen_indexes(collection, &which)? {
            let (namespace, uuid) = (collection.namespace(), collection.uuid());
            let change = IndexChange { namespace, uuid, specification: index.specification().clone() };
            commit = Some(self.change_definition(&CatalogChange::DropIndex(change))?);
        }
        Ok((before, commit))
    }
}

/// The specifications that no index has yet; `None` when one of them is being built just now.
pub(crate) fn missing_indexes(
    collection: &Collection,
    specifications: &[IndexSpecification],
) -> Result<Option<Vec<IndexSpecification>>> {
    let indexes = collection.indexes();
    let mut missing: Vec<IndexSpecification> = Vec::new();
    for specification in specifications {
        let mut is_there = specification.is_id_index();
        for index in indexes.listed() {
            count_comparison()?;
            if specification.compare_with(index.specification())? == Relation::Same {
                if index.state() == IndexState::Building {
                    return Ok(None);
                }
                is_there = true;
            }
        }
        if is_there {
            continue;
        }
        add_missing(&mut missing, specification)?;
        check_count(&collection.namespace(), indexes.listed().count(), &missing)?;
    }
    Ok(Some(missing))
}

/// Refuses what a new collection could not have side by side, before it is created for that.
///
/// # Errors
/// Those of building them.
pub fn check_indexes_of_new(namespace: &Namespace, specifications: &[IndexSpecification]) -> Result<()> {
    let mut missing = Vec::new();
    for specification in specifications.iter().filter(|specification| !specification.is_id_index()) {
        add_missing(&mut missing, specification)?;
        check_count(namespace, 1, &missing)?;
    }
    Ok(())
}

fn add_missing(missing: &mut Vec<IndexSpecification>, specification: &IndexSpecification) -> Result<()> {
    for other in &*missing {
        count_comparison()?;
        if specification.compare_with(other)? == Relation::Same {
            let message = format!("Identical index already exists: {}", other.name);
            return Err(CollectionError::IndexAlreadyExists(message).into());
        }
    }
    missing.push(specification.clone());
    Ok(())
}

/// Two specifications are compared, whose partial filters may be long.
fn count_comparison() -> Result<()> {
    Ok(document::work::done(COMPARISON_UNITS).map_err(CollectionError::from)?)
}

/// Refuses what would be one index too many.
fn check_count(namespace: &Namespace, there: usize, missing: &[IndexSpecification]) -> Result<()> {
    let Some(first_too_many) = missing.get(INDEXES_MAX.saturating_sub(there)) else { return Ok(()) };
    let message = format!(
        "add index fails, too many indexes for {} key:{}, already has {INDEXES_MAX} indexes",
        namespace,
        show_specification(&first_too_many.key)
    );
    Err(CollectionError::CannotCreateIndex(message).into())
}

fn chosen_indexes(collection: &Collection, which: &WhichIndexes) -> Result<Vec<Arc<Index>>> {
    let indexes = collection.indexes();
    let chosen = match which {
        WhichIndexes::All => {
            return Ok(indexes.listed().filter(|index| !index.specification().is_id_index()).cloned().collect());
        }
        WhichIndexes::Names(names) => {
            let find = |name: &String| {
                let missing = || CollectionError::IndexNotFound(format!("index not found with name [{name}]"));
                indexes.find(name).cloned().ok_or_else(missing)
            };
            names.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?
        }
        WhichIndexes::KeyPattern(key) => {
            let found = indexes.listed().filter(|index| index.specification().key.as_bytes() == key.as_bytes());
            let found: Vec<_> = found.cloned().collect();
            match found.len() {
                0 => {
                    let message = format!("can't find index with key: {}", show_specification(key));
                    return Err(CollectionError::IndexNotFound(message).into());
                }
                1 => found,
                count => {
                    let message = format!("{count} indexes found with identical key pattern; drop them by name");
                    return Err(CollectionError::InvalidOptions(message).into());
                }
            }
        }
    };
    if let Some(index) = chosen.iter().find(|index| index.specification().is_id_index()) {
        if index.specification().clustered {
            return Err(CollectionError::DropsClusteredIndex.into());
        }
        return Err(CollectionError::InvalidOptions("cannot drop _id index".to_owned()).into());
    }
    Ok(chosen)
}
