//! Damage of durable bytes: found and reported, never taken for the end of the log.

use platform::{OpenMode, Random, SeededRandom};

use super::*;
use crate::OplogError;
use crate::entry::ENTRY_HEADER_BYTES;
use crate::local_oplog::segment::SEGMENT_HEADER_BYTES;

const ENTRY_BYTES: u64 = 100 + ENTRY_HEADER_BYTES as u64;

/// A log of flushes of one entry each; returns them.
fn written_log(machine: &Machine, entries: usize) -> Vec<Written> {
    let oplog = machine.open();
    (0..entries).for_each(|number| {
        append_durable(&oplog, &payload(number, 100)).unwrap();
    });
    read_all(&oplog).unwrap()
}

/// Opens and reads all, as a start does.
fn open_and_read(machine: &Machine) -> Result<Vec<Written>> {
    read_all(&machine.try_open()?)
}

#[test]
fn a_flipped_bit_in_any_entry_that_another_flush_followed_is_reported() {
    for seed in 0..150 {
        let machine = Machine::new(seed, 1 << 16);
        written_log(&machine, 20);
        let random = SeededRandom::new(seed);
        let offset = SEGMENT_HEADER_BYTES + random.below(19 * ENTRY_BYTES);
        machine.disk.flip_bit(&machine.segment_path(0), offset, random.below(8) as u8).unwrap();
        let result = open_and_read(&machine);
        assert!(matches!(result, Err(OplogError::Corrupt { .. })), "seed {seed} offset {offset}: {result:?}");
    }
}

#[test]
fn a_flipped_bit_in_an_earlier_segment_is_reported_when_it_is_read() {
    for seed in 0..100 {
        let machine = Machine::new(seed, 10 * ENTRY_BYTES);
        let written = written_log(&machine, 35);
        let random = SeededRandom::new(seed);
        let offset = SEGMENT_HEADER_BYTES + random.below(10 * ENTRY_BYTES);
        machine.disk.flip_bit(&machine.segment_path(10 * ENTRY_BYTES), offset, 3).unwrap();
        let result = open_and_read(&machine);
        let Err(OplogError::Corrupt { segment, .. }) = &result else {
            panic!("seed {seed} offset {offset}: {result:?}");
        };
        assert_eq!(*segment, "00000000000000001240.segment");
        // What follows is still readable.
        assert_eq!(read_from(&machine.open(), written[20].position).unwrap().len(), 15);
    }
}

#[test]
fn a_flipped_bit_in_the_last_flush_looks_like_a_torn_write() {
    let machine = Machine::new(1, 1 << 16);
    let written = written_log(&machine, 5);
    machine.disk.flip_bit(&machine.segment_path(0), SEGMENT_HEADER_BYTES + 4 * ENTRY_BYTES + 50, 0).unwrap();
    assert_eq!(open_and_read(&machine).unwrap(), written[..4]);
}

fn is_zero_from(machine: &Machine, offset: u64) -> bool {
    let file = machine.disk.open(&machine.segment_path(0), OpenMode::Read).unwrap();
    let mut bytes = vec![1; (file.length().unwrap() - offset) as usize];
    file.read_exact_at(&mut bytes, offset).unwrap();
    bytes.iter().all(|byte| *byte == 0)
}

#[test]
fn a_flipped_bit_behind_the_end_does_no_harm() {
    for seed in 0..50 {
        let machine = Machine::new(seed, 1 << 16);
        let mut written = written_log(&machine, 5);
        let behind = SEGMENT_HEADER_BYTES + 5 * ENTRY_BYTES;
        let offset = behind + SeededRandom::new(seed).below(3 * ENTRY_BYTES);
        machine.disk.flip_bit(&machine.segment_path(0), offset, 5).unwrap();
        let oplog = machine.open();
        assert_eq!(read_all(&oplog).unwrap(), written);
        assert!(is_zero_from(&machine, behind), "what is behind the end is cleared");
        append_durable(&oplog, b"more").unwrap();
        written.push(read_all(&oplog).unwrap()[5].clone());
        assert_eq!(open_and_read(&machine).unwrap(), written);
    }
}

#[test]
fn a_damaged_segment_header_is_reported() {
    for segment in [0, 10 * ENTRY_BYTES, 30 * ENTRY_BYTES] {
        for offset in [0, 9, 17, 25, 33, 41] {
            let machine = Machine::new(1, 10 * ENTRY_BYTES);
            written_log(&machine, 35);
            machine.disk.flip_bit(&machine.segment_path(segment), offset, 2).unwrap();
            let result = open_and_read(&machine);
            assert!(matches!(result, Err(OplogError::Corrupt { .. })), "{result:?}");
        }
    }
}

#[test]
fn a_missing_segment_is_reported() {
    let machine = Machine::new(1, 10 * ENTRY_BYTES);
    written_log(&machine, 35);
    machine.disk.remove(&machine.segment_path(10 * ENTRY_BYTES)).unwrap();
    let result = open_and_read(&machine);
    assert!(matches!(result, Err(OplogError::Corrupt { reason: "entries are missing before the next segment", .. })));
}

#[test]
fn a_segment_under_another_name_is_reported() {
    let machine = Machine::new(1, 10 * ENTRY_BYTES);
    written_log(&machine, 35);
    let (from, to) = (machine.segment_path(10 * ENTRY_BYTES), machine.segment_path(9 * ENTRY_BYTES));
    machine.disk.rename(&from, &to).unwrap();
    assert!(matches!(open_and_read(&machine), Err(OplogError::Corrupt { .. })));
}

#[test]
fn a_zeroed_stretch_of_durable_entries_is_reported() {
    let machine = Machine::new(1, 1 << 16);
    written_log(&machine, 200);
    let file = machine.disk.open(&machine.segment_path(0), OpenMode::ReadWrite).unwrap();
    file.punch_hole(8192, 4096).unwrap();
    assert!(matches!(open_and_read(&machine), Err(OplogError::Corrupt { .. })));
}

#[test]
fn a_copy_of_an_entry_in_another_place_is_no_entry() {
    let machine = Machine::new(1, 1 << 16);
    let written = written_log(&machine, 5);
    let file = machine.disk.open(&machine.segment_path(0), OpenMode::ReadWrite).unwrap();
    let mut entry = vec![0; ENTRY_BYTES as usize];
    file.read_exact_at(&mut entry, SEGMENT_HEADER_BYTES + 4 * ENTRY_BYTES).unwrap();
    file.write_all_at(&entry, SEGMENT_HEADER_BYTES + 5 * ENTRY_BYTES).unwrap();
    assert_eq!(open_and_read(&machine).unwrap(), written);
}

#[test]
fn read_errors_are_reported_and_nothing_is_cut_off() {
    let machine = Machine::new(1, 1 << 16);
    let written = written_log(&machine, 5);
    for successes in 0..5 {
        let (operation, error) = (platform::Operation::Read, platform::InjectedError::InputOutput);
        machine.disk.fail_after(operation, successes, error);
        let result = open_and_read(&machine);
        assert!(result.as_ref().is_ok_and(|read| *read == written) || matches!(result, Err(OplogError::Io { .. })));
        machine.disk.clear_faults();
        assert_eq!(open_and_read(&machine).unwrap(), written);
    }
}
