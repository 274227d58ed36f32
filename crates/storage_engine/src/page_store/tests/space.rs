//! Space: it returns after deletions, stays bounded under updates, and cleaning ends.

use std::path::Path;

use platform::{Disk, OpenMode, Random, SeededRandom, SimulatedDisk};

use super::superblock::PAGE_FILE_NAME;
use super::*;

const PAGES: u64 = 1_000;

/// Cleans and checkpoints until there is nothing to gain; returns the bytes moved.
fn clean_up(store: &PageStore) -> u64 {
    let mut moved = 0;
    for _ in 0..200 {
        let outcome = store.clean_step(CleaningEffort::Thorough, &|_, _, _| true).unwrap();
        moved += outcome.bytes;
        checkpoint(store, b"").unwrap();
        if outcome.extents == 0 {
            return moved;
        }
    }
    panic!("cleaning does not end");
}

fn filled(store: &PageStore) -> BTreeMap<PageId, u64> {
    let pages: BTreeMap<_, _> = (0..PAGES).map(|n| (store.allocate_page_id().unwrap(), n)).collect();
    let versions: Vec<_> = pages.iter().map(|(page, version)| (*page, *version)).collect();
    versions.chunks(64).for_each(|versions| drop(write(store, versions, store.epoch()).unwrap()));
    checkpoint(store, b"").unwrap();
    pages
}

fn assert_within_bounds(store: &PageStore, disk: &SimulatedDisk) {
    let statistics = store.statistics().unwrap();
    let (options, extent_bytes) = (small_options(), statistics.extent_bytes);
    // Beside the ratio and the slack: the two open extents, the kept free ones, the reserve, superblocks and page table.
    let beside = extent_bytes * (2 + options.kept_free_extents + options.reserve_extents) as u64 + (64 << 10);
    let bound = (statistics.live_bytes as f64 * options.space_ratio_max) as u64 + options.space_slack_bytes + beside;
    assert!(disk.used_bytes() <= bound, "{} used, {bound} allowed, {statistics:#?}", disk.used_bytes());
}

#[test]
fn space_returns_after_deleting_most_pages() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let mut pages = filled(&store);
    let full = store.statistics().unwrap();
    let random = SeededRandom::new(5);
    let deleted: Vec<_> = pages.keys().copied().filter(|_| random.below(10) != 0).collect();
    deleted.iter().for_each(|page| {
        pages.remove(page);
        store.free_page(*page);
    });
    checkpoint(&store, b"").unwrap();
    let moved = clean_up(&store);
    let cleaned = store.statistics().unwrap();
    assert!(moved <= cleaned.live_bytes * 2, "{moved} moved for {cleaned:?}");
    assert!(cleaned.live_bytes < full.live_bytes / 5);
    assert_within_bounds(&store, &disk);
    assert_durable(&store, &pages);
    assert_sound(&store);
    drop(store);
    disk.power_loss();
    let store = open(&disk);
    assert_durable(&store, &pages);
    assert_within_bounds(&store, &disk);
}

#[test]
fn file_is_cut_when_its_last_extents_are_free() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let pages = filled(&store);
    let full_bytes = store.statistics().unwrap().file_bytes;
    pages.keys().skip(50).for_each(|page| store.free_page(*page));
    checkpoint(&store, b"").unwrap();
    clean_up(&store);
    let file_bytes = store.statistics().unwrap().file_bytes;
    assert!(file_bytes < full_bytes / 4, "{file_bytes} of {full_bytes}");
}

#[test]
fn random_updates_stay_within_bounds() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let mut pages = filled(&store);
    let random = SeededRandom::new(9);
    for round in 0..60 {
        let versions: Vec<_> = (0..40).map(|n| (PageId(random.below(PAGES)), (round * 40 + n) % 700)).collect();
        for (page, version) in &versions {
            write(&store, &[(*page, *version)], store.epoch()).unwrap();
            pages.insert(*page, *version);
        }
        while store.clean_step(CleaningEffort::Thorough, &|_, _, _| true).unwrap().extents > 0 {}
        checkpoint(&store, b"").unwrap();
    }
    clean_up(&store);
    assert_within_bounds(&store, &disk);
    assert_durable(&store, &pages);
    assert_sound(&store);
    let statistics = store.statistics().unwrap();
    assert!(statistics.bytes_relocated > 0);
}

#[test]
fn nothing_is_cleaned_when_there_is_nothing_to_gain() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    filled(&store);
    assert_eq!(
        store.clean_step(CleaningEffort::Thorough, &|_, _, _| panic!("asked")).unwrap(),
        CleanOutcome::default()
    );
    // All of it superseded: the next checkpoint frees it without help.
    let versions: Vec<_> = store.durable_pages().map(|(page, _)| (page, 3)).collect();
    write(&store, &versions, store.epoch()).unwrap();
    assert_eq!(
        store.clean_step(CleaningEffort::Thorough, &|_, _, _| panic!("asked")).unwrap(),
        CleanOutcome::default()
    );
}

#[test]
fn refused_relocations_end_and_are_tried_again_after_the_next_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let pages = filled(&store);
    pages.keys().filter(|page| page.0 % 4 != 0).for_each(|page| store.free_page(*page));
    checkpoint(&store, b"").unwrap();
    let mut steps = 0;
    while store.clean_step(CleaningEffort::Thorough, &|_, _, _| false).unwrap().extents > 0 {
        steps += 1;
    }
    assert!((1..1_000).contains(&steps));
    checkpoint(&store, b"").unwrap();
    assert!(store.clean_step(CleaningEffort::Thorough, &|_, _, _| true).unwrap().blocks > 0);
    assert_sound(&store);
}

#[test]
fn version_superseded_within_an_epoch_is_free_at_once() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let page = store.allocate_page_id().unwrap();
    let written = write(&store, &[(page, 1)], 1).unwrap();
    for version in 2..500 {
        write(&store, &[(page, version)], 1).unwrap();
    }
    let statistics = store.statistics().unwrap();
    assert_eq!(statistics.live_bytes, store.current_address(page).length_bytes() as u64);
    assert!(statistics.file_bytes < 8 * statistics.extent_bytes, "{statistics:?}");
    assert_ne!(store.current_address(page), written[0].address);
}

#[test]
fn what_is_written_together_ends_with_its_block_of_the_file_system() {
    const BLOCK_BYTES: u64 = 4096;
    let disk = SimulatedDisk::new(5);
    let store = open(&disk);
    let file = disk.open(Path::new(PAGE_FILE_NAME), OpenMode::Read).unwrap();
    let pages: Vec<_> = (0..3).map(|_| store.allocate_page_id().unwrap()).collect();
    let mut ends = Vec::new();
    for round in 1..40_u64 {
        // So few that the space of earlier rounds is taken again.
        let versions: Vec<_> = pages[..round as usize % 3 + 1].iter().map(|page| (*page, round * 7)).collect();
        let written = write(&store, &versions, store.epoch()).unwrap();
        let end =
            written.last().map(|written| written.address.offset_units() + written.address.length_units()).unwrap();
        ends.push(end * UNIT_BYTES as u64 % BLOCK_BYTES);
        let behind = (end * UNIT_BYTES as u64).next_multiple_of(BLOCK_BYTES) - end * UNIT_BYTES as u64;
        let mut bytes = vec![1; behind as usize];
        file.read_exact_at(&mut bytes, end * UNIT_BYTES as u64).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "round {round}");
        checkpoint(&store, b"").unwrap();
    }
    assert!(ends.iter().any(|end| *end != 0));
    assert_sound(&store);
}

#[test]
fn an_image_that_nobody_wants_any_more_leaves_the_page_where_it_was() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let pages: Vec<_> = (0..8).map(|_| store.allocate_page_id().unwrap()).collect();
    let first: Vec<_> = pages.iter().map(|page| (*page, 1)).collect();
    let first = write(&store, &first, store.epoch()).unwrap();
    let mut batch = store.new_batch().unwrap();
    pages.iter().for_each(|page| batch.push(*page, &image_of(*page, 2), store.epoch(), notes_of(2)));
    let mut asked = Vec::new();
    let written = store.write_wanted(&mut batch, |page| {
        asked.push(page);
        page.0 % 2 == 0
    });
    assert_eq!(asked, pages);
    for (written, first) in written.unwrap().iter().zip(&first) {
        let is_wanted = written.page.0.is_multiple_of(2);
        assert_eq!(written.address.is_none(), !is_wanted);
        let (address, version) = if is_wanted { (written.address, 2) } else { (first.address, 1) };
        assert_version(&store, written.page, address, version);
    }
    checkpoint(&store, b"").unwrap();
    let in_use: usize = pages.iter().map(|page| store.current_address(*page).length_bytes()).sum();
    assert_eq!(store.statistics().unwrap().live_bytes, in_use as u64);
    assert_durable(&store, &pages.iter().map(|page| (*page, if page.0 % 2 == 0 { 2 } else { 1 })).collect());
    assert_sound(&store);
}
