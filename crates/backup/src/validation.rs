//! Whether what was restored is sound: every record, every index, every page of every collection.
//!
//! Called by `plimsoll backup verify`, on a directory that was restored to be looked at.

use std::sync::Arc;

use collection::ValidateReport;
use platform::{Clock, Disk, Random};
use transaction::{Store, StoreOptions};

use crate::error::Result;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validated {
    /// Collections.
    pub collections: usize,
    /// Documents in them.
    pub documents: u64,
    /// What is wrong, a line each.
    pub problems: Vec<String>,
}

impl Validated {
    fn add(&mut self, report: &ValidateReport) {
        (self.collections, self.documents) = (self.collections + 1, self.documents + report.records);
        if report.is_valid() {
            return;
        }
        let listed = report.problems.listed.iter().map(|problem| format!("{}: {problem}", report.namespace));
        self.problems.extend(listed);
        for index in report.indexes.iter().filter(|index| index.problems.count > 0) {
            let line = format!("{}, index {}: {} problems", report.namespace, index.name, index.problems.count);
            self.problems.push(line);
        }
    }
}

/// Opens a directory, which replays its oplog, and validates all collections.
///
/// # Errors
/// `Store`: it cannot be opened or read.
pub fn validate(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, random: Arc<dyn Random>) -> Result<Validated> {
    let store = Store::open(disk, clock, random, StoreOptions::default())?;
    let mut validated = Validated::default();
    for collection in store.catalog().all_collections() {
        validated.add(&store.validate(&collection, &|| false)?);
    }
    // What could not be read is set aside when a store is opened.
    validated.problems.extend(store.set_aside_work().iter().map(|work| format!("{work:?}")));
    store.shutdown()?;
    Ok(validated)
}
