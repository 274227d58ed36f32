//! Checking that everything in the store is as it should be, while it is in use.
//!
//! Called by the engine's `verify`, by validation commands, and after every test.

use std::sync::Arc;

use super::PageStore;
use super::address::{PAGE_BYTES, PageAddress, PageId};
use super::durable_map::DurableMap;
use super::error::Result;
use super::extents::{ExtentState, ExtentTotals};
use super::ledger::LedgerSnapshot;
use super::page_table_file::PageTableFile;
use super::page_table_scan::{read_entries, scan_file};

/// Problems beyond this many are counted only.
const PROBLEMS_LISTED: usize = 100;

/// What `verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Blocks read and found whole.
    pub blocks: u64,
    /// Their bytes on disk.
    pub bytes: u64,
    /// How many problems there are.
    pub problem_count: u64,
    /// The first hundred of them.
    pub problems: Vec<String>,
}

impl Verification {
    /// Whether there is no problem.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    fn problem(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_LISTED {
            self.problems.push(problem);
        }
    }
}

/// A mention of a block by one of the maps.
#[derive(Clone, Copy)]
struct Mention {
    address: PageAddress,
    page: PageId,
    superseded: bool,
    /// Only the checkpoint that is being copied has it.
    is_kept: bool,
}

impl PageStore {
    /// Reads every block that some map mentions and checks it; checks that blocks do not overlap, that live counts are
    /// exact, that no page in use has a free id, and that the page-table file says what the store believes. Publishing
    /// waits until the blocks are read; nothing else waits.
    ///
    /// # Errors
    /// `Io` when a file cannot be read at all. Everything else is a problem in the report.
    pub fn verify(&self) -> Result<Verification> {
        let table = self.table.lock();
        let snapshot = self.ledger.lock().snapshot();
        let mut report = Verification::default();
        self.verify_table(&table, &snapshot.durable, &mut report);
        let mut mentions = mentions(&snapshot);
        mentions.sort_unstable_by_key(|mention| mention.address.place());
        verify_overlap(&mentions, &mut report);
        self.verify_counts(&mentions, &snapshot, &mut report);
        self.verify_ids(&mentions, &mut report);
        drop(table);
        self.verify_blocks(&mentions, &mut report);
        Ok(report)
    }

    fn verify_table(&self, table: &PageTableFile, durable: &DurableMap, report: &mut Verification) {
        let uuid = self.superblock.lock().uuid;
        let mut stored = DurableMap::default();
        let scanned = scan_file(table.file(), table.number, &uuid).and_then(|scanned| {
            read_entries(table.file(), &scanned, |page, address| {
                stored.set(page, address);
            })?;
            Ok(scanned)
        });
        match scanned {
            Err(error) => report.problem(error.to_string()),
            Ok(scanned) if scanned.valid_bytes != table.length() => {
                report.problem(format!("page-table file {} is not whole", table.number));
            }
            Ok(_) if !stored.pages().eq(durable.pages()) => {
                report.problem(format!("page-table file {} says something else than the store believes", table.number));
            }
            Ok(_) => {}
        }
    }

    fn verify_counts(&self, mentions: &[Mention], snapshot: &LedgerSnapshot, report: &mut Verification) {
        let mut counted = vec![(0_u64, 0_u64); snapshot.extents.len()];
        {
            let ledger = self.ledger.lock();
            for mention in mentions {
                let index = ledger.extents.index_of(mention.address);
                match counted.get_mut(index) {
                    Some((live, superseded)) => {
                        *live += mention.address.length_units();
                        *superseded += if mention.superseded { mention.address.length_units() } else { 0 };
                    }
                    None => report.problem(format!("{:?} at {:?} is in no extent", mention.page, mention.address)),
                }
            }
        }
        let mut totals = ExtentTotals::default();
        for (index, (extent, (live, superseded))) in snapshot.extents.iter().zip(counted).enumerate() {
            let live = live + u64::from(extent.in_flight);
            if (u64::from(extent.live), u64::from(extent.superseded)) != (live, superseded) {
                report.problem(format!(
                    "extent {index} counts {} live and {} superseded units instead of {live} and {superseded}",
                    extent.live, extent.superseded
                ));
            }
            if live > 0 && !matches!(extent.state, ExtentState::Open | ExtentState::Sealed) {
                report.problem(format!("extent {index} is {:?} and has live blocks", extent.state));
            }
            totals.live += live;
            totals.superseded += superseded;
            totals.lasting_extents += u64::from(live > superseded);
            totals.tails += if live > superseded { u64::from(extent.tail) } else { 0 };
        }
        if totals != snapshot.totals {
            report.problem(format!("totals are {:?} instead of {totals:?}", snapshot.totals));
        }
    }

    fn verify_ids(&self, mentions: &[Mention], report: &mut Verification) {
        let ids = self.page_ids.lock();
        for mention in mentions {
            if !mention.is_kept && ids.is_free(mention.page) {
                report.problem(format!("{:?} at {:?} has a free id", mention.page, mention.address));
            }
        }
    }

    fn verify_blocks(&self, mentions: &[Mention], report: &mut Verification) {
        let mut image = vec![0; PAGE_BYTES];
        for Mention { page, address, .. } in mentions {
            match self.read(*page, *address, &mut image) {
                Ok(()) => {
                    report.blocks += 1;
                    report.bytes += address.length_bytes() as u64;
                }
                // A block that was superseded and overwritten since the snapshot is none of ours.
                Err(error) if self.ledger.lock().mentions(*page, *address) => report.problem(error.to_string()),
                Err(_) => {}
            }
        }
    }
}

fn mentions(snapshot: &LedgerSnapshot) -> Vec<Mention> {
    let mut mentions = Vec::new();
    let mut add = |page, address: PageAddress, superseded| {
        if !address.is_none() {
            mentions.push(Mention { address, page, superseded, is_kept: false });
        }
    };
    let frozen = Arc::clone(&snapshot.frozen);
    for (page, address) in snapshot.durable.pages() {
        add(page, address, snapshot.open.contains_key(&page) || frozen.contains_key(&page));
    }
    for (page, address) in frozen.iter() {
        add(*page, *address, snapshot.open.contains_key(page));
    }
    for (page, address) in &snapshot.open {
        add(*page, *address, false);
    }
    let kept = snapshot.kept.iter();
    mentions.extend(kept.map(|(page, address)| Mention {
        address: *address,
        page: *page,
        superseded: true,
        is_kept: true,
    }));
    mentions
}

fn verify_overlap(mentions: &[Mention], report: &mut Verification) {
    for pair in mentions.windows(2) {
        let (first, second) = (&pair[0], &pair[1]);
        if first.address.offset_bytes() + first.address.length_bytes() as u64 > second.address.offset_bytes() {
            report.problem(format!(
                "{:?} at {:?} and {:?} at {:?} overlap",
                first.page, first.address, second.page, second.address
            ));
        }
    }
}
