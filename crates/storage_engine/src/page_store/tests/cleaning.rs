//! The two ways in which cleaning finds the blocks of an extent.

use super::super::cleaning::CleaningEffort;
use super::*;

/// Pages in a checkpoint, newer versions of some in a frozen epoch and of others in the open one, and some freed.
fn store_of_all_kinds() -> PageStore {
    let store = open(&SimulatedDisk::new(7));
    let pages: Vec<PageId> = (0..200).map(|_| store.allocate_page_id().unwrap()).collect();
    let versions = |step: usize, version| pages.iter().step_by(step).map(|page| (*page, version)).collect::<Vec<_>>();
    write(&store, &versions(1, 1), store.epoch()).unwrap();
    checkpoint(&store, b"").unwrap();
    write(&store, &versions(3, 2), store.epoch()).unwrap();
    pages.iter().skip(1).step_by(7).for_each(|page| store.free_page(*page));
    store.freeze_epoch().unwrap();
    write(&store, &versions(5, 3), store.epoch()).unwrap();
    pages
        .iter()
        .skip(2)
        .step_by(11)
        .filter(|page| !store.current_address(**page).is_none())
        .for_each(|page| store.free_page(*page));
    store
}

#[test]
fn maps_and_extents_tell_the_same_blocks() {
    let store = store_of_all_kinds();
    let (count, extent_bytes) = {
        let ledger = store.ledger.lock();
        (ledger.extents.all().len(), ledger.extents.extent_bytes())
    };
    let all: Vec<usize> = (0..count).collect();
    let mapped = store.blocks_from_maps(&all).unwrap();
    let mut bytes = vec![0; extent_bytes as usize];
    for index in all {
        let offset = store.ledger.lock().extents.offset_bytes(index);
        store.read_extent(&mut bytes, offset).unwrap();
        assert_eq!(store.current_blocks(&bytes, offset), mapped[index], "extent {index}");
    }
    assert!(mapped.iter().flatten().count() > 100);
}

#[test]
fn cleaning_goes_through_extents_when_the_maps_are_large() {
    let store = open(&SimulatedDisk::new(7));
    // Ids without pages: the maps are as large as if they had some.
    let pages: Vec<PageId> = (0..200_000).map(|_| store.allocate_page_id().unwrap()).collect();
    assert!(store.blocks_from_maps(&[0]).is_none());
    let written: Vec<_> = pages.iter().take(300).map(|page| (*page, 1)).collect();
    write(&store, &written, store.epoch()).unwrap();
    pages.iter().take(300).filter(|page| page.0 % 4 != 0).for_each(|page| store.free_page(*page));
    checkpoint(&store, b"").unwrap();
    let outcome = store.clean_step(CleaningEffort::Thorough, &|_, _, _| true).unwrap();
    assert!(outcome.blocks > 0, "{outcome:?}");
    checkpoint(&store, b"").unwrap();
    let expected = pages.iter().take(300).filter(|page| page.0 % 4 == 0).map(|page| (*page, 1)).collect();
    assert_durable(&store, &expected);
    assert_sound(&store);
}
