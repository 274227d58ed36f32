//! `plimsoll repair --data DIR --into NEWDIR`: what can be read of a damaged directory, in a new one.
//!
//! Called by `main`. The work is `transaction::repair`; here are the directories, the locks and the report for people.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use platform::{Clock, DirectoryLock, Random, RealDisk, SystemClock, SystemRandom};
use transaction::{RepairReport, StoreOptions, repair};

use server::data_disk::{self, KeyArguments, Unencrypted};

/// Lost things listed one by one.
const LOST_LISTED_MAX: usize = 1_000;

/// Which directories.
#[derive(Args)]
pub(crate) struct RepairArguments {
    /// The damaged data directory. It is only read
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// The directory to be made; it must be empty or missing
    #[arg(long, value_name = "NEWDIR")]
    into: PathBuf,
    #[command(flatten)]
    key: KeyArguments,
}

/// Repairs. The result says whether everything could be read.
pub(crate) fn run(arguments: &RepairArguments) -> Result<bool, String> {
    #[allow(clippy::disallowed_methods, reason = "opening a RealDisk would create the directory")]
    let exists = arguments.data.is_dir();
    if !exists {
        return Err(format!("there is no directory {}", arguments.data.display()));
    }
    let cannot = |what: &str, cause: &dyn std::fmt::Display| format!("{what}: {cause}");
    let from = RealDisk::new(&arguments.data).map_err(|error| cannot("cannot read the damaged directory", &error))?;
    let into = RealDisk::new(&arguments.into).map_err(|error| cannot("cannot make the new directory", &error))?;
    let _damaged = DirectoryLock::acquire(&arguments.data).map_err(|error| error.to_string())?;
    let _new = DirectoryLock::acquire(&arguments.into).map_err(|error| error.to_string())?;
    // With a key the new directory is encrypted, whether the damaged one is or not.
    let key = arguments.key.source()?;
    let from = data_disk::open(from, &arguments.data, key.as_ref(), Unencrypted::Read)?;
    let into = data_disk::open(into, &arguments.into, key.as_ref(), Unencrypted::Encrypt)?;
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) = (Arc::new(SystemClock::new()), Arc::new(SystemRandom));
    let report = repair(&from, &into, &clock, &random, &StoreOptions::default());
    let report = report.map_err(|error| cannot("the repair failed", &error))?;
    print(&report);
    Ok(report.lost.is_empty())
}

fn print(report: &RepairReport) {
    for (namespace, documents, indexes) in &report.collections {
        println!("{namespace}: {documents} documents, {indexes} indexes");
    }
    println!("{} entries of the oplog were applied", report.oplog_entries);
    if report.lost.is_empty() {
        println!("everything could be read");
        return;
    }
    println!("lost or in doubt:");
    report.lost.iter().take(LOST_LISTED_MAX).for_each(|line| println!("  {line}"));
    if report.lost.len() > LOST_LISTED_MAX {
        println!("  and {} more", report.lost.len() - LOST_LISTED_MAX);
    }
}
