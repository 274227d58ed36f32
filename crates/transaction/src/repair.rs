//! `plimsoll repair`: everything that can be read of a damaged data directory, put into a new one.
//!
//! Called by `server`, for a directory that nobody uses. The damaged directory is only read. What counts is the last checkpoint,
//! page by page, and then the oplog, entry by entry; what cannot be read is left out and reported with the collection it belonged to. Nothing
//! is made up: every document in the new directory was once written as it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bson::Uuid;
use collection::{
    CappedOptions, Catalog, CollectionError, RecordId, SalvagedCollection, SalvagedDefinition, Salvager,
    decode_definition,
};
use oplog::{OplogEntry, OplogPosition, salvage_entries, salvage_entry};
use platform::{Clock, Disk, Random};
use storage_engine::{Engine, LostPage, Salvage, TreeId, is_ring_state, salvage_ring};

use crate::checkpoint::Urgency;
use crate::error::{Result, TransactionError};
use crate::opening::OpensAs;
use crate::store::{Store, StoreOptions};
use crate::waiting::Waiting;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Name, documents and indexes of every collection in the new directory, by name.
    pub collections: Vec<(String, u64, usize)>,
    /// Entries of the oplog that were used.
    pub oplog_entries: u64,
    /// What was lost or is in doubt, one line each; empty when everything was read.
    pub lost: Vec<String>,
}

/// Reads the directory `from` and fills the empty directory `into`.
///
/// # Errors
/// `Repair` when `into` is not empty or `from` holds no database; otherwise those of writing the new directory.
pub fn repair(
    from: &Arc<dyn Disk>,
    into: &Arc<dyn Disk>,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
    options: &StoreOptions,
) -> Result<RepairReport> {
    let failed = |message: String| TransactionError::Repair(message);
    let names =
        into.list(Path::new("")).map_err(|error| failed(format!("the new directory cannot be listed: {error}")))?;
    if names.iter().any(|name| !name.ends_with(".lock")) {
        return Err(failed("the new directory is not empty".to_owned()));
    }
    let salvage = Salvage::open(&**from).map_err(|error| failed(format!("there is nothing to repair: {error}")))?;
    let mut work = Repair {
        from,
        oplog_directory: &options.oplog.directory,
        salvage,
        report: RepairReport::default(),
        capped: Vec::new(),
    };
    let fill = |catalog: &Arc<Catalog>, engine: &Arc<Engine>| work.fill(catalog, engine);
    let store = Store::open_filled(
        into.clone(),
        clock.clone(),
        random.clone(),
        options.clone(),
        |_| Ok(OpensAs::Leader),
        fill,
    )?;
    let (mut report, capped) = (work.report, work.capped);
    for (uuid, limits) in capped {
        report.lost.extend(make_capped(&store, uuid, limits)?);
    }
    for collection in store.catalog().all_collections() {
        let indexes = collection.indexes().all().len();
        report.collections.push((collection.namespace().to_string(), collection.counts().documents(), indexes));
    }
    report.collections.sort();
    store.checkpoint_step(Urgency::Now)?;
    store.shutdown()?;
    Ok(report)
}

/// Makes a collection capped again, with its indexes. What does not fit any more is told.
fn make_capped(store: &Arc<Store>, uuid: Uuid, limits: CappedOptions) -> Result<Option<String>> {
    let Some(collection) = store.catalog().lookup_uuid(uuid) else { return Ok(None) };
    let (namespace, before) = (collection.namespace(), collection.counts().documents());
    let indexes = collection.indexes();
    let secondary = indexes.all().iter().filter(|index| !index.specification().is_id_index());
    let secondary: Vec<_> = secondary.map(|index| index.specification().clone()).collect();
    store.convert_to_capped(&namespace, limits, Waiting::Always, &|| false)?;
    let missing = || TransactionError::Repair(format!("{namespace} is not there"));
    let collection = store.catalog().lookup(namespace.as_str()).ok_or_else(missing)?;
    if !secondary.is_empty() {
        store.create_indexes(&collection, secondary)?;
    }
    let gone = before.saturating_sub(collection.counts().documents());
    Ok((gone > 0).then(|| format!("{namespace}: its {gone} oldest documents are above its limits")))
}

struct Repair<'a> {
    from: &'a Arc<dyn Disk>,
    oplog_directory: &'a Path,
    salvage: Salvage,
    report: RepairReport,
    /// What is to be capped in the end.
    capped: Vec<(Uuid, CappedOptions)>,
}

/// What the old catalog says of the trees.
#[derive(Default)]
struct Trees {
    records: BTreeMap<TreeId, Uuid>,
    /// What was found of the trees of rings.
    rings: BTreeMap<TreeId, RingTree>,
    /// What a tree holds, for people.
    names: HashMap<TreeId, String>,
    /// Those that have lost pages; `None`: of a page it is not known whose it was.
    damaged: HashSet<Option<TreeId>>,
    ignored: HashSet<TreeId>,
}

/// A ring's tree.
#[derive(Default)]
struct RingTree {
    number: u64,
    state: Option<Vec<u8>>,
    /// Documents that were changed or deleted after they were inserted.
    overridden: HashSet<Vec<u8>>,
}

impl Repair<'_> {
    fn fill(&mut self, catalog: &Arc<Catalog>, engine: &Arc<Engine>) -> Result<()> {
        let mut salvager = Salvager::new(catalog.clone(), engine.clone());
        self.report.lost.extend(self.salvage.problems().iter().cloned());
        let mut trees = self.restore_definitions(&mut salvager)?;
        self.restore_records(&mut salvager, &mut trees)?;
        self.restore_rings(&mut salvager, &trees)?;
        self.apply_oplog(&mut salvager)?;
        let salvaged = salvager.finish()?;
        self.report_renamed(catalog, &trees);
        self.report.lost.extend(salvaged.problems);
        self.capped = salvaged.capped;
        Ok(())
    }

    fn restore_definitions(&mut self, salvager: &mut Salvager) -> Result<Trees> {
        let mut trees = Trees { ignored: self.salvage.dropped_trees(), ..Trees::default() };
        trees.names.insert(TreeId::CATALOG, "the catalog".to_owned());
        let mut found: BTreeMap<Uuid, SalvagedCollection> = BTreeMap::new();
        let mut problems = Vec::new();
        let lost = self.salvage.for_each_entry::<TransactionError>(
            |tree| tree == TreeId::CATALOG,
            |tree, key, value| {
                match decode_definition(key, value) {
                    _ if tree != TreeId::CATALOG => {}
                    Ok(SalvagedDefinition::Collection(collection)) => {
                        found.insert(collection.uuid, *collection);
                    }
                    Ok(SalvagedDefinition::Dropped(tree)) => {
                        trees.ignored.insert(tree);
                    }
                    Ok(SalvagedDefinition::Other) => {}
                    Err(error) => problems.push(format!("an entry of the catalog: {error}")),
                }
                Ok(())
            },
        )?;
        for collection in found.values() {
            salvager.add_collection(collection)?;
            trees.add(collection);
        }
        self.report.lost.append(&mut problems);
        self.report_pages(&lost, &trees);
        Ok(trees)
    }

    fn restore_records(&mut self, salvager: &mut Salvager, trees: &mut Trees) -> Result<()> {
        let mut damaged: BTreeMap<TreeId, u64> = BTreeMap::new();
        let mut nameless = Vec::new();
        let index_trees: HashSet<TreeId> =
            trees.names.keys().filter(|tree| !trees.records.contains_key(tree)).copied().collect();
        let ignored = trees.ignored.clone();
        let (records, rings) = (&mut trees.records, &mut trees.rings);
        let lost = self.salvage.for_each_entry::<TransactionError>(
            |tree| !index_trees.contains(&tree) && !ignored.contains(&tree),
            |tree, key, value| {
                if index_trees.contains(&tree) || ignored.contains(&tree) {
                    return Ok(());
                }
                if rings.get_mut(&tree).is_some_and(|ring| ring.takes(key, value)) {
                    return Ok(());
                }
                let uuid = match records.get(&tree) {
                    Some(uuid) => *uuid,
                    None if !Salvager::is_record(key, value) => return Ok(()),
                    None => {
                        let (uuid, namespace) = salvager.add_lost_collection(tree)?;
                        nameless.push(format!("the name of a collection is lost; it is called {namespace} now"));
                        records.insert(tree, uuid);
                        uuid
                    }
                };
                match salvager.put_record(uuid, key, value) {
                    Err(CollectionError::Damaged(_)) => *damaged.entry(tree).or_default() += 1,
                    put => put?,
                }
                Ok(())
            },
        )?;
        self.report.lost.append(&mut nameless);
        trees.damaged.extend(lost.iter().map(|lost| lost.tree));
        for (tree, count) in damaged {
            self.report.lost.push(format!("{}: {count} damaged records", trees.name(Some(tree))));
        }
        self.report_pages(&lost, trees);
        Ok(())
    }

    /// The documents that are as they were inserted.
    fn restore_rings(&mut self, salvager: &mut Salvager, trees: &Trees) -> Result<()> {
        for (tree, ring) in &trees.rings {
            let (name, Some(uuid)) = (trees.name(Some(*tree)), trees.records.get(tree)) else { continue };
            let Some(state) = &ring.state else {
                self.report.lost.push(format!("{name}: where its ring begins and ends"));
                continue;
            };
            if trees.damaged.contains(&None) || trees.damaged.contains(&Some(*tree)) {
                // A changed document may be among what is lost, and the ring has what it was inserted as.
                salvager.doubt(*uuid);
            }
            let mut damaged: u64 = 0;
            let put = |number: i64, document: &[u8]| -> Result<()> {
                let key = RecordId(number).record_key();
                if ring.overridden.contains(key.as_slice()) {
                    return Ok(());
                }
                match salvager.put_record(*uuid, &key, document) {
                    Err(CollectionError::Damaged(_)) => damaged += 1,
                    put => put?,
                }
                Ok(())
            };
            let salvaged = salvage_ring(self.from, ring.number, state, put)?;
            salvager.note_ring(*uuid, salvaged.head, salvaged.unreadable);
            if damaged > 0 {
                self.report.lost.push(format!("{name}: {damaged} damaged records"));
            }
        }
        Ok(())
    }

    /// What is lost is told by the names of the checkpoint.
    fn report_renamed(&mut self, catalog: &Catalog, trees: &Trees) {
        for (tree, uuid) in &trees.records {
            let (Some(before), Some(found)) = (trees.names.get(tree), catalog.lookup_uuid(*uuid)) else { continue };
            let now = found.namespace();
            let is_told = || self.report.lost.iter().any(|line| line.contains(before.as_str()));
            if *before != format!("collection {now}") && is_told() {
                self.report.lost.push(format!("{before} has been renamed since the checkpoint: it is {now} now"));
            }
        }
    }

    fn report_pages(&mut self, lost: &[LostPage], trees: &Trees) {
        let describe = |lost: &LostPage| format!("{}: page {}: {}", trees.name(lost.tree), lost.page, lost.reason);
        self.report.lost.extend(lost.iter().map(describe));
    }

    /// From where the oplog is applied, and whether something is missing from the start. From the checkpoint on; all of it when something
    /// of the checkpoint is lost, as it may have been written not long ago. But not across a gap, or a transaction of which parts are lost: entries
    /// from before it would undo what is missing.
    fn oplog_start(&self) -> Result<(OplogPosition, bool)> {
        let mark = self.salvage.mark().map_or(u64::MAX, |mark| mark.oplog_position);
        let (mut has_gap_before, mut first) = (false, None);
        let read_part = |position| salvage_entry(&**self.from, self.oplog_directory, position);
        if !self.report.lost.is_empty() {
            salvage_entries::<TransactionError>(
                &**self.from,
                self.oplog_directory,
                OplogPosition(0),
                |entry, has_gap| {
                    let is_missing = || has_gap || !Salvager::can_apply(entry.payload, &read_part);
                    has_gap_before |= entry.position.0 <= mark && is_missing();
                    first.get_or_insert(entry.position);
                    Ok(())
                },
            )?;
        }
        match self.salvage.mark() {
            // The pages are of any time: only all of the oplog, from the beginning of time, brings them to one.
            None => Ok((OplogPosition(0), has_gap_before || first != Some(OplogPosition(0)))),
            Some(mark) if self.report.lost.is_empty() || has_gap_before => {
                Ok((OplogPosition(mark.oplog_position), false))
            }
            Some(_) => Ok((OplogPosition(0), false)),
        }
    }

    /// Whether entries are missing that the checkpoint may have, or may not: what comes before them may be older than the records, and says then only what changed in
    /// documents that were different.
    fn lacks_entries_of_checkpoint(&self, from: OplogPosition, oplog_end: u64) -> Result<bool> {
        let (mut last, mut is_lacking) = (from, false);
        let count_gap = |entry: OplogEntry<'_>, has_gap: bool| {
            is_lacking |= has_gap && last.0 < oplog_end;
            last = entry.position;
            Ok(())
        };
        let salvaged = salvage_entries::<TransactionError>(&**self.from, self.oplog_directory, from, count_gap)?;
        Ok(is_lacking || salvaged.end.0 < oplog_end)
    }

    fn apply_oplog(&mut self, salvager: &mut Salvager) -> Result<()> {
        let mark = self.salvage.mark();
        let needed = mark.map_or(0, |mark| mark.oplog_end);
        // What an entry says that could not be applied is missing, too: a transaction of which a part is lost.
        let (from, mut lacks_something) = self.oplog_start()?;
        let is_doubtful = self.lacks_entries_of_checkpoint(from, needed)?;
        let mut left_out: u64 = 0;
        let mut problems = Vec::new();
        let mut had_gap = lacks_something || is_doubtful;
        let (disk, directory) = (&**self.from, self.oplog_directory);
        let read_part = |position| salvage_entry(disk, directory, position);
        let salvaged = salvage_entries::<TransactionError>(disk, self.oplog_directory, from, |entry, has_gap| {
            had_gap |= has_gap || lacks_something;
            if has_gap {
                // The commit may be what is missing, and what comes now may be newer.
                for applied in salvager.complete_decided(true, &read_part) {
                    note(applied, "a transaction before a gap in the oplog", &mut left_out, &mut problems)?;
                }
            }
            let may_be_contained = is_doubtful && entry.position.0 < needed;
            let lacks_before = has_gap || lacks_something || may_be_contained;
            let applied = salvager.apply_entry(entry.payload, lacks_before, &read_part);
            lacks_something |= applied.is_err();
            note(applied, &format!("the oplog entry at {}", entry.position), &mut left_out, &mut problems)
        })?;
        for applied in salvager.complete_decided(had_gap, &read_part) {
            note(applied, "a transaction at the end of the oplog", &mut left_out, &mut problems)?;
        }
        self.report.oplog_entries = salvaged.entries;
        if salvaged.end.0 < needed {
            // The entries that are missing may be in the checkpoint, and may not.
            problems.push(format!("the oplog ends at {}, and went at least to {needed}", salvaged.end));
        }
        problems.extend(salvaged.problems);
        if left_out > 0 {
            problems.push(format!(
                "{left_out} updates behind what is missing in the oplog were left out: their documents are as before"
            ));
        }
        self.report.lost.append(&mut problems);
        Ok(())
    }
}

impl RingTree {
    /// Notes an entry; `false`: it is a changed document, to be put like any record.
    fn takes(&mut self, key: &[u8], value: &[u8]) -> bool {
        if key.len() < 8 {
            // Of pages that were searched for, one may have been another tree's before.
            if is_ring_state(value) {
                self.state = Some(value.to_vec());
            }
            return true;
        }
        self.overridden.insert(key.to_vec());
        value.is_empty()
    }
}

/// What came of applying an entry.
fn note(
    applied: std::result::Result<bool, CollectionError>,
    what: &str,
    left_out: &mut u64,
    problems: &mut Vec<String>,
) -> Result<()> {
    match applied {
        Ok(true) => {}
        Ok(false) => *left_out += 1,
        Err(CollectionError::Engine(error)) => return Err(error.into()),
        Err(error) => problems.push(format!("{what}: {error}")),
    }
    Ok(())
}

impl Trees {
    fn add(&mut self, collection: &SalvagedCollection) {
        if let Some(number) = collection.ring {
            self.rings.insert(collection.record_tree, RingTree { number, ..RingTree::default() });
        }
        self.records.insert(collection.record_tree, collection.uuid);
        self.names.insert(collection.record_tree, format!("collection {}", collection.namespace));
        for (name, tree) in &collection.index_trees {
            self.names.insert(*tree, format!("index '{name}' of {}", collection.namespace));
        }
    }

    fn name(&self, tree: Option<TreeId>) -> String {
        let known = tree.and_then(|tree| self.names.get(&tree)).cloned();
        known.unwrap_or_else(|| match tree {
            Some(tree) => format!("tree {}", tree.0),
            None => "an unknown tree".to_owned(),
        })
    }
}
