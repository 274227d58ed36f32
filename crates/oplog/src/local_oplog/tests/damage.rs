//! Damage of durable bytes: found and reported, never taken for the end of the log.

use platform::{OpenMode, Random, SeededRandom};

use super::*;
use crate::OplogError;
use crate::entry::ENTRY_HEADER_BYTES;
use crate::local_oplog::Checkpointed;
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

/// The log is damaged after a checkpoint that has everything up to its end.
fn open_behind(machine: &Machine, written: &[Written], behind_entries: usize) -> Result<LocalOplog> {
    let position = written.get(behind_entries).map_or(ENTRY_BYTES * written.len() as u64, |entry| entry.position.0);
    let position = OplogPosition(position);
    let timestamp = written[behind_entries - 1].timestamp;
    let checkpointed = Checkpointed { position, oplog_end: position, timestamp };
    let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
    LocalOplog::open_behind(
        disk,
        Arc::clone(&machine.clock) as Arc<dyn Clock>,
        machine.options.clone(),
        Some(checkpointed),
    )
}

#[test]
fn damage_that_a_checkpoint_has_all_of_is_put_aside_and_the_log_goes_on() {
    // In one segment and in several, in any byte, the last entry and headers of segments included.
    for (segment_bytes, segments) in [(1 << 16, 1), (10 * ENTRY_BYTES, 2)] {
        for seed in 0..60 {
            let machine = Machine::new(seed, segment_bytes);
            let written = written_log(&machine, 20);
            let random = SeededRandom::new(seed);
            let segment = random.below(segments);
            let entries = if segments == 1 { 20 } else { 10 };
            let at = if seed % 5 == 0 {
                random.below(40)
            } else {
                SEGMENT_HEADER_BYTES + random.below(entries * ENTRY_BYTES)
            };
            let path = machine.segment_path(segment * 10 * ENTRY_BYTES);
            machine.disk.flip_bit(&path, at, random.below(8) as u8).unwrap();
            // An earlier segment's entries are looked at only when they are read; a version is no damage.
            let oplog = match open_behind(&machine, &written, 20) {
                Err(OplogError::UnsupportedVersion { .. }) => continue,
                oplog => oplog.unwrap(),
            };
            let Some(aside) = oplog.set_aside().cloned() else {
                assert!(segment + 1 < segments || (8..16).contains(&at), "seed {seed}");
                continue;
            };
            assert!(matches!(aside.damage, OplogError::Corrupt { .. }));
            assert_eq!((aside.begins_at.0, aside.files.len() as u64), (20 * ENTRY_BYTES, segments), "seed {seed}");
            assert_eq!((oplog.first_position().0, oplog.end_position().0), (20 * ENTRY_BYTES, 20 * ENTRY_BYTES));
            let more = append_durable(&oplog, b"more").unwrap();
            assert!(more.timestamp > written[19].timestamp);
            drop(oplog);
            machine.disk.power_loss();
            assert_eq!(read_all(&machine.open()).unwrap().len(), 1);
            for name in aside.files {
                assert!(machine.segment_names().contains(&name), "it is kept as {name}");
            }
        }
    }
}

#[test]
fn damage_with_something_behind_the_checkpoint_is_refused_and_nothing_is_changed() {
    let machine = Machine::new(1, 1 << 16);
    let written = written_log(&machine, 20);
    machine.disk.flip_bit(&machine.segment_path(0), SEGMENT_HEADER_BYTES + 3 * ENTRY_BYTES + 40, 2).unwrap();
    for entries in [1, 3] {
        assert!(matches!(open_behind(&machine, &written, entries), Err(OplogError::Corrupt { .. })));
    }
    assert!(open_behind(&machine, &written, 20).unwrap().set_aside().is_some());
    // The last entries are not those of a torn write when a checkpoint has them.
    let machine = Machine::new(1, 1 << 16);
    let written = written_log(&machine, 20);
    machine.disk.flip_bit(&machine.segment_path(0), SEGMENT_HEADER_BYTES + 19 * ENTRY_BYTES + 40, 2).unwrap();
    let (position, oplog_end) = (written[10].position, OplogPosition(20 * ENTRY_BYTES));
    let checkpointed = Checkpointed { position, oplog_end, timestamp: written[9].timestamp };
    let open = || {
        let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
        LocalOplog::open_behind(
            disk,
            Arc::clone(&machine.clock) as Arc<dyn Clock>,
            machine.options.clone(),
            Some(checkpointed),
        )
    };
    assert!(matches!(open(), Err(OplogError::Corrupt { .. })));
    machine.disk.flip_bit(&machine.segment_path(0), SEGMENT_HEADER_BYTES + 19 * ENTRY_BYTES + 40, 2).unwrap();
    assert_eq!(read_all(&open().unwrap()).unwrap(), written, "nothing was cleared");
}

#[test]
fn damage_before_the_checkpoint_is_passed_over_and_what_is_behind_it_is_read() {
    for entries in [4, 5, 19] {
        let machine = Machine::new(1, 1 << 16);
        let written = written_log(&machine, 20);
        machine.disk.flip_bit(&machine.segment_path(0), SEGMENT_HEADER_BYTES + 3 * ENTRY_BYTES + 40, 2).unwrap();
        let oplog = open_behind(&machine, &written, entries).unwrap();
        assert!(oplog.set_aside().is_some(), "{entries}");
        assert_eq!(oplog.end_position().0, 20 * ENTRY_BYTES);
        assert_eq!(read_from(&oplog, written[entries].position).unwrap(), written[entries..]);
    }
}

#[test]
fn a_segment_that_was_removed_is_not_taken_for_damage() {
    let machine = Machine::new(1, 10 * ENTRY_BYTES);
    let written = written_log(&machine, 15);
    machine.disk.remove(&machine.segment_path(10 * ENTRY_BYTES)).unwrap();
    assert!(matches!(open_behind(&machine, &written, 15), Err(OplogError::Corrupt { .. })));
}

#[test]
fn the_power_may_fail_at_any_moment_of_putting_aside() {
    let mut interrupted = 0;
    for operations in 0..60 {
        let machine = Machine::new(operations, 10 * ENTRY_BYTES);
        let written = written_log(&machine, 25);
        machine.disk.flip_bit(&machine.segment_path(20 * ENTRY_BYTES), SEGMENT_HEADER_BYTES + 30, 1).unwrap();
        machine.disk.power_loss_after(operations);
        let first = open_behind(&machine, &written, 25).is_err();
        machine.disk.power_on();
        machine.disk.power_loss();
        interrupted += u64::from(first);
        let oplog = open_behind(&machine, &written, 25).unwrap();
        assert_eq!(oplog.end_position().0, 25 * ENTRY_BYTES, "after {operations} operations");
        append_durable(&oplog, b"more").unwrap();
    }
    assert!(interrupted > 10, "{interrupted}");
}
