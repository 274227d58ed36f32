//! Tests of the whole store on the simulated disk.

mod cleaning;
mod concurrency;
mod crashes;
mod faults;
mod files;
mod model;
mod pinned;
mod space;

use std::collections::BTreeMap;
use std::sync::Arc;

use platform::{SimulatedClock, SimulatedDisk};

use super::*;

/// Options that make everything happen early: small extents, little slack, short page-table files.
fn small_options() -> PageStoreOptions {
    PageStoreOptions {
        compression: Compression::Lz4,
        extent_bytes: 64 << 10,
        uuid: *b"sixteen bytes id",
        reserve_extents: 1,
        kept_free_extents: 1,
        space_ratio_max: 1.25,
        space_slack_bytes: 64 << 10,
        clean_step_bytes: 128 << 10,
        page_table_bytes_min: 1024,
        ..PageStoreOptions::default()
    }
}

fn open_with(disk: &SimulatedDisk, options: PageStoreOptions) -> Result<PageStore> {
    PageStore::open(Arc::new(disk.clone()), &SimulatedClock::new(1_000), options)
}

fn open(disk: &SimulatedDisk) -> PageStore {
    open_with(disk, small_options()).unwrap()
}

/// An image that tells page and version, of which a part that depends on the version does not compress.
fn image_of(page: PageId, version: u64) -> Vec<u8> {
    let mut state = page.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ version.wrapping_mul(0xd1b5_4a32_d192_ed03) | 1;
    let mut image = vec![version as u8; PAGE_BYTES];
    let noise = (version * 1_777 % 12_000) as usize + 304;
    for bytes in image[..noise].as_chunks_mut::<8>().0 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *bytes = (state ^ state >> 29).to_le_bytes();
    }
    image[..8].copy_from_slice(&page.0.to_le_bytes());
    image[8..16].copy_from_slice(&version.to_le_bytes());
    image
}

/// The room that a version is said to have, in whole units.
fn notes_of(version: u64) -> ImageNotes {
    // What the bytes of the slots mean is nothing to the store.
    let slots = SlotArray { start: 24, count: version as u16 % 900 };
    ImageNotes { room_bytes: (version as usize * 32) % 16_000, slots }
}

/// Writes the given versions of pages in one batch for one epoch.
fn write(store: &PageStore, versions: &[(PageId, u64)], epoch: u64) -> Result<Vec<Written>> {
    let mut batch = store.new_batch()?;
    versions
        .iter()
        .for_each(|(page, version)| batch.push(*page, &image_of(*page, *version), epoch, notes_of(*version)));
    store.write(&mut batch)
}

/// Freezes and publishes when everything is written.
fn checkpoint(store: &PageStore, mark: &[u8]) -> Result<()> {
    store.freeze_epoch()?;
    store.publish(mark)
}

fn assert_sound(store: &PageStore) {
    let report = store.verify().unwrap();
    assert!(report.is_sound(), "{:#?}", report.problems);
}

fn assert_version(store: &PageStore, page: PageId, address: PageAddress, version: u64) {
    let mut image = vec![0; PAGE_BYTES];
    store.read(page, address, &mut image).unwrap();
    assert!(image == image_of(page, version), "{page:?} at {address:?} is not version {version}");
    assert_eq!(address.room_bytes(), notes_of(version).room_bytes);
}

/// That the last published checkpoint has exactly these pages.
fn assert_durable(store: &PageStore, expected: &BTreeMap<PageId, u64>) {
    let pages: Vec<_> = store.durable_pages().collect();
    let ids: Vec<_> = pages.iter().map(|(page, _)| *page).collect();
    assert_eq!(ids, expected.keys().copied().collect::<Vec<_>>());
    pages.iter().for_each(|(page, address)| assert_version(store, *page, *address, expected[page]));
}
