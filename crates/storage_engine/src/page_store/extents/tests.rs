//! Where blocks go, and when extents become free, without a disk.

use super::*;

const EXTENT_BYTES: u32 = 64 << 10;
const EXTENT_UNITS: u64 = 1024;

fn addresses(runs: &[Run], lengths: &[u64]) -> Vec<PageAddress> {
    let mut addresses = Vec::new();
    for run in runs {
        let mut unit = run.offset_units;
        for block in run.blocks.clone() {
            addresses.push(PageAddress::new(unit, lengths[block]).unwrap());
            unit += lengths[block];
        }
    }
    addresses
}

fn fill(extents: &mut Extents, lengths: &[u64]) -> Vec<PageAddress> {
    let runs = extents.reserve_space(Head::Fresh, lengths.iter().copied(), ReserveAccess::Denied).unwrap();
    let addresses = addresses(&runs, lengths);
    addresses.iter().for_each(|address| extents.settle(*address));
    addresses
}

#[test]
fn blocks_fill_extents_in_runs_and_never_cross_them() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let lengths = [200; 12];
    let runs = extents.reserve_space(Head::Fresh, lengths.into_iter(), ReserveAccess::Denied).unwrap();
    let shape: Vec<_> = runs.iter().map(|run| (run.blocks.clone(), run.offset_units - 128)).collect();
    assert_eq!(shape, [(0..5, 0), (5..10, EXTENT_UNITS), (10..12, 2 * EXTENT_UNITS)]);
    assert_eq!(extents.totals().live, 2400);
}

#[test]
fn what_is_written_together_begins_at_a_page_of_the_systems_cache() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let mut place = |lengths: &[u64]| {
        fill(&mut extents, lengths).iter().map(|block| block.offset_bytes() - 8192).collect::<Vec<_>>()
    };
    assert_eq!(place(&[10, 20]), [0, 640]);
    assert_eq!(place(&[64, 1]), [4096, 8192]);
    assert_eq!(place(&[832]), [12_288]);
    // To the very end of the extent, and from its end on.
    assert_eq!(place(&[1]), [64 << 10]);
}

#[test]
fn sealed_extent_is_free_when_its_last_block_is_released_and_used_again_first() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let blocks = fill(&mut extents, &[200; 11]);
    blocks[..5].iter().for_each(|block| extents.release(*block, false));
    assert_eq!(extents.all()[0].state, ExtentState::Backed);
    fill(&mut extents, &[200; 4]);
    assert_eq!(extents.all()[0].state, ExtentState::Open);
    assert_eq!(extents.all()[0].live, 200);
}

#[test]
fn failed_write_spoils_the_extent_until_it_is_punched() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let runs = extents.reserve_space(Head::Fresh, [200; 6].into_iter(), ReserveAccess::Denied).unwrap();
    extents.cancel(&runs);
    assert_eq!(extents.totals(), ExtentTotals::default());
    assert!(extents.all().iter().all(|extent| extent.state == ExtentState::Spoiled));
    assert_eq!(extents.take_reclaimable(10, 10), [0, 1]);
    extents.put_back(1, ExtentState::Hole);
    extents.put_back(0, ExtentState::Hole);
    assert_eq!(extents.drop_trailing_holes(), Some(FIRST_EXTENT_OFFSET));
}

#[test]
fn reserve_is_only_for_those_who_may() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let index = extents.take_for_reserve(1).unwrap();
    extents.put_back(index, ExtentState::Reserved);
    assert!(extents.take_for_reserve(1).is_none());
    let usual = extents.reserve_space(Head::Fresh, [9].into_iter(), ReserveAccess::Denied).unwrap();
    assert_eq!(extents.index_of_unit(usual[0].offset_units), 1);
    let cleaning = extents.reserve_space(Head::Relocated, [9].into_iter(), ReserveAccess::AllButOne).unwrap();
    assert_eq!(extents.index_of_unit(cleaning[0].offset_units), 2);
    extents.seal_head(Head::Relocated);
    let urgent = extents.reserve_space(Head::Relocated, [9].into_iter(), ReserveAccess::All).unwrap();
    assert_eq!(extents.index_of_unit(urgent[0].offset_units), 0);
}

#[test]
fn sparsest_counts_what_will_last_and_each_extent_once_an_epoch() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let blocks = fill(&mut extents, &[200; 16]);
    blocks[..2].iter().for_each(|block| extents.release(*block, false));
    blocks[5..9].iter().for_each(|block| extents.supersede(*block));
    assert_eq!(extents.sparsest(1, 0.875, 10_000), [1, 0]);
    assert_eq!(extents.sparsest(1, 0.875, 1), [1]);
    extents.set_cleaned(1, 1);
    assert_eq!(extents.sparsest(1, 0.875, 10_000), [0]);
    assert_eq!(extents.totals().lasting_extents, 4);
    extents.supersede(blocks[9]);
    assert_eq!(extents.totals().lasting_extents, 3);
}

#[test]
fn tails_that_no_block_fits_in_are_not_to_be_won() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    // Five of six blocks of 200 units in each extent of 1,024; the last is open.
    let blocks = fill(&mut extents, &[200; 11]);
    assert_eq!((extents.totals().lasting_extents, extents.totals().tails), (3, 48));
    assert!(extents.sparsest(1, 0.99, 10_000).is_empty(), "full but for its tail");
    extents.release(blocks[0], false);
    assert_eq!(extents.sparsest(1, 0.8, 10_000), [0]);
    blocks[1..5].iter().for_each(|block| extents.supersede(*block));
    assert_eq!((extents.totals().lasting_extents, extents.totals().tails), (2, 24));
    blocks[1..5].iter().for_each(|block| extents.release(*block, true));
    assert_eq!((extents.totals().lasting_extents, extents.totals().tails), (2, 24));
    fill(&mut extents, &[300; 4]);
    assert_eq!(extents.totals().tails, 24 + 1024 - 256 - 600, "the one that was open has been left for the first");
}

#[test]
fn what_cleaning_moved_is_not_moved_again_in_the_same_epoch() {
    let mut extents = Extents::new(EXTENT_BYTES, 0);
    let runs = extents.reserve_space(Head::Relocated, [500; 3].into_iter(), ReserveAccess::Denied).unwrap();
    extents.set_filled_by_cleaning(&runs, 7);
    let blocks = addresses(&runs, &[500; 3]);
    blocks.iter().for_each(|block| extents.settle(*block));
    extents.release(blocks[0], false);
    assert!(extents.sparsest(7, 0.875, 10_000).is_empty());
    assert_eq!(extents.sparsest(8, 0.875, 10_000), [0]);
}
