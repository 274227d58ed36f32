//! Rotten bits, misdirected blocks, failed syncs and full disks.

use std::path::Path;

use platform::{Disk, File, InjectedError, OpenMode, Operation, SimulatedDisk};

use super::*;

/// A store with `count` pages of version 1 published.
fn filled(disk: &SimulatedDisk, count: u64) -> (PageStore, BTreeMap<PageId, u64>) {
    let store = open(disk);
    let pages: Vec<_> = (0..count).map(|_| (store.allocate_page_id().unwrap(), 1)).collect();
    write(&store, &pages, store.epoch()).unwrap();
    checkpoint(&store, b"filled").unwrap();
    (store, pages.into_iter().collect())
}

fn page_file(disk: &SimulatedDisk) -> Arc<dyn File> {
    disk.open(Path::new(PAGE_FILE_NAME), OpenMode::ReadWrite).unwrap()
}

#[test]
fn flipped_bits_in_blocks_are_found_by_reads_verification_and_cleaning() {
    let disk = SimulatedDisk::new(1);
    let (store, pages) = filled(&disk, 100);
    let mut image = vec![0; PAGE_BYTES];
    for (n, page) in pages.keys().enumerate().step_by(9) {
        let address = store.current_address(*page);
        let offset = address.offset_bytes() + (n * 131 % address.length_bytes()) as u64;
        disk.flip_bit(Path::new(PAGE_FILE_NAME), offset, (n % 8) as u8).unwrap();
        let error = store.read(*page, address, &mut image).unwrap_err();
        assert!(matches!(error, PageStoreError::Corrupt { page: at, .. } if at == *page));
        assert_eq!(store.verify().unwrap().problem_count, 1);
        disk.flip_bit(Path::new(PAGE_FILE_NAME), offset, (n % 8) as u8).unwrap();
        assert_sound(&store);
    }
    let damaged = PageId(1);
    let address = store.current_address(damaged);
    disk.flip_bit(Path::new(PAGE_FILE_NAME), address.offset_bytes() + 40, 0).unwrap();
    pages.keys().filter(|page| page.0 % 4 != 1).for_each(|page| store.free_page(*page));
    checkpoint(&store, b"").unwrap();
    let outcome = store.clean_step(CleaningEffort::Thorough, &|_, _, _| true).unwrap();
    assert_eq!(outcome.corrupt, [(damaged, address)]);
    checkpoint(&store, b"").unwrap();
    assert_eq!(store.current_address(damaged), address, "a damaged block stays where it can be looked at");
    assert_eq!(store.verify().unwrap().problem_count, 1);
}

#[test]
fn block_of_another_page_is_not_taken_for_the_right_one() {
    let disk = SimulatedDisk::new(1);
    let store = open(&disk);
    let pages = [store.allocate_page_id().unwrap(), store.allocate_page_id().unwrap()];
    let written = write(&store, &[(pages[0], 5), (pages[1], 5)], store.epoch()).unwrap();
    assert_eq!(written[0].address.length_units(), written[1].address.length_units());
    let file = page_file(&disk);
    let mut block = vec![0; written[0].address.length_bytes()];
    file.read_exact_at(&mut block, written[0].address.offset_bytes()).unwrap();
    file.write_all_at(&block, written[1].address.offset_bytes()).unwrap();
    let error = store.read(pages[1], written[1].address, &mut vec![0; PAGE_BYTES]).unwrap_err();
    assert!(error.to_string().contains("it holds page 0"), "{error}");
}

#[test]
fn nonsense_addresses_are_refused() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = filled(&disk, 3);
    let mut image = vec![0; PAGE_BYTES];
    for address in [PageAddress::NONE, PageAddress::new(1 << 39, 9).unwrap(), PageAddress::new(0, 4).unwrap()] {
        assert!(matches!(store.read(PageId(0), address, &mut image), Err(PageStoreError::Corrupt { .. })));
    }
}

#[test]
fn damaged_page_table_is_reported_when_a_later_checkpoint_was_published() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = filled(&disk, 2);
    let records = Inspection::open(Arc::new(disk.clone())).unwrap().page_table_files().unwrap();
    let records = records.into_iter().next().unwrap().unwrap();
    let [base, first] = &records.checkpoints[..] else { panic!("{records:?}") };
    let path = Path::new(&records.path);
    for number in 2..4 {
        write(&store, &[(PageId(0), number)], store.epoch()).unwrap();
        checkpoint(&store, b"").unwrap();
    }
    drop(store);
    disk.process_crash();
    for offset in [base.offset + 9, first.offset + 2, first.offset + first.bytes - 60] {
        disk.flip_bit(path, offset, 3).unwrap();
        let error = open_with(&disk, small_options()).err().expect("a damaged page table was accepted");
        assert!(matches!(error, PageStoreError::CorruptFile { .. }), "{error}");
        disk.flip_bit(path, offset, 3).unwrap();
    }
    assert_eq!(open(&disk).recovered().unwrap().number, 3);
}

#[test]
fn damaged_last_checkpoint_is_reported_after_a_clean_shutdown() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = filled(&disk, 2);
    store.close().unwrap();
    let path = format!("{PAGE_TABLE_DIRECTORY}/00000001");
    let length = disk.open(Path::new(&path), OpenMode::Read).unwrap().length().unwrap();
    disk.flip_bit(Path::new(&path), length - 60, 0).unwrap();
    let error = open_with(&disk, small_options()).err().expect("a lost checkpoint was accepted").to_string();
    assert!(error.contains("it ends with checkpoint 0, but 1 was published"), "{error}");
}

#[test]
fn one_superblock_is_enough_and_none_is_not() {
    let disk = SimulatedDisk::new(1);
    let (store, pages) = filled(&disk, 2);
    let current = store.superblock();
    drop(store);
    for slot in 0..2 {
        disk.flip_bit(Path::new(PAGE_FILE_NAME), slot * 4096 + 30, 0).unwrap();
        let store = open(&disk);
        assert_eq!(store.superblock().uuid, current.uuid);
        assert_durable(&store, &pages);
    }
    for slot in 0..2 {
        disk.flip_bit(Path::new(PAGE_FILE_NAME), slot * 4096 + 30, 0).unwrap();
    }
    assert!(matches!(open_with(&disk, small_options()), Err(PageStoreError::CorruptFile { .. })));
}

#[test]
fn missing_page_file_is_not_replaced_by_an_empty_one() {
    let disk = SimulatedDisk::new(1);
    drop(filled(&disk, 2));
    disk.remove(Path::new(PAGE_FILE_NAME)).unwrap();
    assert!(matches!(open_with(&disk, small_options()), Err(PageStoreError::CorruptFile { .. })));
}

/// As far as its table file has become: a failed write leaves an encrypted one longer, by the zeros of a sector.
#[test]
fn creation_that_did_not_get_to_its_end_begins_again() {
    let table = Path::new(PAGE_TABLE_DIRECTORY).join("00000001");
    for (behind, is_lost) in [(&[][..], false), (&[0; 484], false), (&[0; 9000], false), (b"\0\0entries", true)] {
        let disk = SimulatedDisk::new(1);
        drop(open(&disk));
        disk.remove(Path::new(PAGE_FILE_NAME)).unwrap();
        let file = disk.open(&table, OpenMode::ReadWrite).unwrap();
        file.write_all_at(behind, file.length().unwrap()).unwrap();
        let opened = open_with(&disk, small_options());
        assert_eq!(opened.is_err(), is_lost, "{behind:?}");
        assert_eq!(disk.exists(Path::new(PAGE_FILE_NAME)).unwrap(), !is_lost);
    }
}

#[test]
fn failed_sync_ends_writing_but_not_reading() {
    for failing_sync in 0..2 {
        let disk = SimulatedDisk::new(1);
        let (store, pages) = filled(&disk, 5);
        write(&store, &[(PageId(0), 2)], store.epoch()).unwrap();
        store.freeze_epoch().unwrap();
        disk.fail_after(Operation::Sync, failing_sync, InjectedError::InputOutput);
        assert!(matches!(store.publish(b""), Err(PageStoreError::Io { .. })));
        assert!(matches!(store.publish(b""), Err(PageStoreError::Poisoned { .. })));
        assert!(matches!(write(&store, &[(PageId(0), 3)], 2), Err(PageStoreError::Poisoned { .. })));
        assert!(matches!(
            store.clean_step(CleaningEffort::Thorough, &|_, _, _| true),
            Err(PageStoreError::Poisoned { .. })
        ));
        assert!(matches!(store.close(), Err(PageStoreError::Poisoned { .. })));
        assert!(store.poisoned().unwrap().contains("sync"));
        assert_durable(&store, &pages);
        assert_version(&store, PageId(0), store.current_address(PageId(0)), 2);
    }
}

#[test]
fn failed_write_poisons() {
    let disk = SimulatedDisk::new(1);
    let (store, pages) = filled(&disk, 5);
    disk.fail_next(Operation::Write, InjectedError::InputOutput);
    assert!(matches!(write(&store, &[(PageId(0), 2)], store.epoch()), Err(PageStoreError::Io { .. })));
    assert!(matches!(store.publish(b""), Err(PageStoreError::Poisoned { .. })));
    assert_durable(&store, &pages);
}

#[test]
fn version_of_a_published_epoch_is_refused() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = filled(&disk, 5);
    for epoch in [0, 1, 3] {
        assert!(matches!(write(&store, &[(PageId(0), 2)], epoch), Err(PageStoreError::WrongEpoch { .. })));
    }
    assert!(store.poisoned().is_none());
    let out_of_range = write(&store, &[(PageId(PAGE_ID_LIMIT), 2)], 2);
    assert!(matches!(out_of_range, Err(PageStoreError::Argument { .. })));
}

#[test]
fn version_written_late_for_a_freed_page_is_not_kept() {
    let disk = SimulatedDisk::new(1);
    let (store, mut pages) = filled(&disk, 3);
    store.free_page(PageId(1));
    let written = write(&store, &[(PageId(1), 9)], store.epoch()).unwrap();
    assert!(written[0].address.is_none());
    assert_eq!(store.allocate_page_id().unwrap(), PageId(3), "the id is not free before the checkpoint");
    store.freeze_epoch().unwrap();
    assert!(write(&store, &[(PageId(1), 9)], 2).unwrap()[0].address.is_none());
    assert_eq!(store.allocate_page_id().unwrap(), PageId(4));
    store.publish(b"").unwrap();
    assert_eq!(store.allocate_page_id().unwrap(), PageId(1));
    pages.remove(&PageId(1));
    assert_durable(&store, &pages);
    assert_sound(&store);
}

#[test]
fn full_disk_loses_nothing_and_heals() {
    let disk = SimulatedDisk::new(1);
    let (store, mut pages) = filled(&disk, 60);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let mut batch = store.new_batch().unwrap();
    let mut version = 1;
    // What is allocated already can still be used.
    while version < 100 {
        version += 1;
        pages.keys().for_each(|page| batch.push(*page, &image_of(*page, version), store.epoch(), notes_of(version)));
        match store.write(&mut batch) {
            Ok(_) => pages.values_mut().for_each(|page| *page = version),
            Err(error) => {
                assert!(matches!(error, PageStoreError::DiskFull { .. }), "{error}");
                break;
            }
        }
    }
    assert!(version < 100 && !batch.is_empty() && store.poisoned().is_none());
    pages.iter().for_each(|(page, version)| assert_version(&store, *page, store.current_address(*page), *version));
    assert_sound(&store);
    disk.set_capacity_bytes(None);
    assert_eq!(store.write(&mut batch).unwrap().len(), 60);
    pages.values_mut().for_each(|page| *page = version);
    checkpoint(&store, b"healed").unwrap();
    disk.power_loss();
    assert_durable(&open(&disk), &pages);
}

#[test]
fn full_disk_still_takes_checkpoints_whose_deletions_and_cleaning_give_space_back() {
    let disk = SimulatedDisk::new(1);
    let options = || PageStoreOptions { reserve_extents: 3, ..small_options() };
    let store = open_with(&disk, options()).unwrap();
    let mut pages: BTreeMap<_, _> = (0..400).map(|_| (store.allocate_page_id().unwrap(), 1)).collect();
    let versions: Vec<_> = pages.iter().map(|(page, version)| (*page, *version)).collect();
    write(&store, &versions, store.epoch()).unwrap();
    checkpoint(&store, b"").unwrap();
    // Leaves only what the reserve and the open extents hold.
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    while write(&store, &versions[..8], store.epoch()).is_ok() {}
    assert!(store.poisoned().is_none());
    let full_bytes = disk.used_bytes();

    let deleted: Vec<_> = pages.keys().copied().filter(|page| page.0 % 10 != 0).collect();
    deleted.iter().for_each(|page| {
        pages.remove(page);
        store.free_page(*page);
    });
    let root = *pages.keys().next().unwrap();
    store.freeze_epoch().unwrap();
    write(&store, &[(root, 2)], store.epoch() - 1).unwrap();
    pages.insert(root, 2);
    store.publish(b"deleted").unwrap();
    for _ in 0..30 {
        match store.clean_step(CleaningEffort::Thorough, &|_, _, _| true) {
            Ok(_) | Err(PageStoreError::DiskFull { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        checkpoint(&store, b"cleaned").unwrap();
        assert_sound(&store);
    }
    assert!(disk.used_bytes() < full_bytes / 2, "{} of {full_bytes}", disk.used_bytes());
    write(&store, &versions[..1], store.epoch()).unwrap();
    assert_durable(&store, &pages);
}

#[test]
fn file_system_without_holes_reuses_extents_instead() {
    let disk = SimulatedDisk::new(1);
    disk.fail_always(Operation::PunchHole, InjectedError::Unsupported);
    let (store, mut pages) = filled(&disk, 100);
    let mut file_bytes = 0;
    for version in 2..20 {
        let versions: Vec<_> = pages.keys().map(|page| (*page, version)).collect();
        write(&store, &versions, store.epoch()).unwrap();
        checkpoint(&store, b"").unwrap();
        pages.values_mut().for_each(|page| *page = version);
        file_bytes = file_bytes.max(store.statistics().unwrap().file_bytes);
    }
    assert!(store.poisoned().is_none());
    assert_durable(&store, &pages);
    let live_bytes = store.statistics().unwrap().live_bytes;
    assert!(file_bytes < 4 * live_bytes, "{file_bytes} for {live_bytes}");
}

/// What a failed sync has lost is still read, and the next opening must not build on it.
#[test]
fn openings_that_fail_one_after_the_other_leave_a_store_that_opens() {
    for seed in 0..2_000 {
        let disk = SimulatedDisk::new(seed);
        let (store, pages) = filled(&disk, 3);
        drop(store);
        disk.process_crash();
        for (operation, after) in [(Operation::Sync, seed % 5), (Operation::Write, seed / 5 % 5)] {
            disk.fail_after(operation, after, InjectedError::InputOutput);
            drop(open_with(&disk, small_options()));
            disk.clear_faults();
            disk.process_crash();
        }
        disk.power_loss();
        disk.power_on();
        assert_durable(&open(&disk), &pages);
    }
}
