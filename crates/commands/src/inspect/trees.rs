//! Which tree belongs to which collection and index: read from the catalog of the last checkpoint.

use std::collections::BTreeMap;

use bson::{Document, RawBsonRef, RawDocument, doc};
use document::{array_elements, get_field};
use index_key::KeyPattern;
use storage_engine::{EngineInspection, TreeId, TreeSize};

use super::{Outcome, number};

/// First byte of the catalog's keys of collections; see `docs/file-format.md`, "Catalog".
const COLLECTION_KEY: u8 = 1;

/// The same of the tree of sessions.
const SESSION_TREE_KEY: u8 = 4;

/// What a tree holds.
pub(super) enum TreeName {
    /// What sessions have written.
    Sessions,
    /// Definitions.
    Catalog,
    /// The documents of a collection.
    Records { namespace: String },
    /// The entries of an index.
    Index { namespace: String, index: String, pattern: Option<KeyPattern>, is_ready: bool },
}

/// All trees that the catalog knows.
pub(super) struct TreeNames(BTreeMap<TreeId, TreeName>);

impl TreeNames {
    pub(super) fn read(engine: &EngineInspection) -> Outcome<TreeNames> {
        let mut names = BTreeMap::from([(TreeId::CATALOG, TreeName::Catalog)]);
        if engine.store().checkpoint().number > 0 {
            let entries = engine.entries(TreeId::CATALOG).map_err(|error| format!("the catalog: {error}"))?;
            for (key, value) in entries {
                if key.first() == Some(&SESSION_TREE_KEY)
                    && let Some(tree) = key.get(1..).and_then(<[u8]>::first_chunk)
                {
                    names.insert(TreeId(u64::from_be_bytes(*tree)), TreeName::Sessions);
                }
                if key.first() == Some(&COLLECTION_KEY) {
                    name_trees(&value, &mut names).ok_or("an entry of the catalog does not make sense")?;
                }
            }
        }
        Ok(TreeNames(names))
    }

    pub(super) fn get(&self, tree: TreeId) -> Option<&TreeName> {
        self.0.get(&tree)
    }
}

fn name_trees(value: &[u8], names: &mut BTreeMap<TreeId, TreeName>) -> Option<()> {
    let collection = RawDocument::from_bytes(value).ok()?;
    let namespace = text(collection, "ns")?;
    names.insert(tree(collection)?, TreeName::Records { namespace: namespace.clone() });
    let RawBsonRef::Array(indexes) = get_field(collection, "indexes")? else { return None };
    for index in array_elements(indexes) {
        let RawBsonRef::Document(index) = index.value() else { return None };
        let RawBsonRef::Document(specification) = get_field(index, "spec")? else { return None };
        let RawBsonRef::Document(key) = get_field(specification, "key")? else { return None };
        let name = TreeName::Index {
            namespace: namespace.clone(),
            index: text(specification, "name")?,
            pattern: KeyPattern::parse(key).ok(),
            is_ready: get_field(index, "ready") == Some(RawBsonRef::Boolean(true)),
        };
        names.insert(tree(index)?, name);
    }
    Some(())
}

fn text(document: &RawDocument, name: &str) -> Option<String> {
    get_field(document, name)?.as_str().map(str::to_owned)
}

fn tree(document: &RawDocument) -> Option<TreeId> {
    get_field(document, "tree")?.as_i64().map(|tree| TreeId(tree as u64))
}

/// Shows every tree, those that the catalog does not know too: they are being dropped.
pub(super) fn show(engine: &EngineInspection, show: &mut dyn FnMut(Document)) -> Outcome<()> {
    let names = TreeNames::read(engine)?;
    let mut sums = engine.page_sums().map_err(|error| error.to_string())?;
    for (tree, name) in &names.0 {
        show(describe(*tree, Some(name), &sums.trees.remove(tree).unwrap_or_default()));
    }
    sums.trees.iter().for_each(|(tree, size)| show(describe(*tree, None, size)));
    if sums.saved_change_pages > 0 {
        // Of index entries, made while their leaves were on disk; in no leaf yet.
        let (pages, bytes) = (number(sums.saved_change_pages), number(sums.saved_change_bytes));
        show(doc! { "savedChanges": true, "pages": pages, "diskBytes": bytes });
    }
    Ok(())
}

fn describe(tree: TreeId, name: Option<&TreeName>, size: &TreeSize) -> Document {
    let mut described = doc! { "tree": number(tree.0) };
    described.extend(match name {
        Some(TreeName::Catalog) => doc! { "catalog": true },
        Some(TreeName::Sessions) => doc! { "sessions": true },
        Some(TreeName::Records { namespace }) => doc! { "ns": namespace },
        Some(TreeName::Index { namespace, index, is_ready, .. }) if *is_ready => {
            doc! { "ns": namespace, "index": index }
        }
        Some(TreeName::Index { namespace, index, .. }) => doc! { "ns": namespace, "index": index, "building": true },
        None => doc! { "unknown": true },
    });
    described.extend(doc! {
        "entries": number(size.entries),
        "ghosts": number(size.ghosts),
        "leafPages": number(size.leaves),
        "innerPages": number(size.inner),
        "overflowPages": number(size.overflow),
        "diskBytes": number(size.disk_bytes),
    });
    described
}
