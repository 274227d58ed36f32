//! What the log does when nothing fails.

use std::sync::atomic::Ordering;

use super::*;
use crate::OplogError;
use crate::entry::ENTRY_HEADER_BYTES;

#[test]
fn a_new_log_is_empty() {
    let machine = Machine::new(1, 4096);
    let oplog = machine.open();
    assert_eq!((oplog.first_position(), oplog.end_position()), (OplogPosition(0), OplogPosition(0)));
    assert_eq!(oplog.last_timestamp(), Timestamp::MIN);
    assert_eq!(read_all(&oplog).unwrap(), []);
    oplog.wait_durable(OplogPosition(0)).unwrap();
    assert_eq!(machine.segment_names(), ["00000000000000000000.segment", "next.segment"]);
}

#[test]
fn entries_are_read_back_from_memory_and_from_disk_and_after_reopening() {
    let machine = Machine::new(1, 1000);
    let mut oplog = machine.open();
    let mut expected = Vec::new();
    for number in 0..100 {
        let bytes = payload(number, number * 5);
        let appended = append(&oplog, &bytes).unwrap();
        expected.push(Written { position: appended.position, timestamp: appended.timestamp, payload: bytes });
        assert_eq!(appended.end, oplog.end_position());
        assert_eq!(appended.timestamp, oplog.last_timestamp());
        if number % 7 == 0 {
            oplog.flush_step().unwrap();
        }
        assert_eq!(read_all(&oplog).unwrap(), expected);
        if number % 13 == 0 {
            oplog.flush_step().unwrap();
            oplog = machine.open();
            assert_eq!(oplog.last_timestamp(), appended.timestamp);
            assert_eq!(read_all(&oplog).unwrap(), expected);
        }
    }
    for written in &expected {
        let from = read_from(&oplog, written.position).unwrap();
        assert_eq!(from.first(), Some(written));
    }
    assert!(oplog.statistics().segments > 10);
}

#[test]
fn timestamps_follow_the_wall_clock_and_never_go_back() {
    let machine = Machine::new(1, 4096);
    let oplog = machine.open();
    let next = || append_durable(&oplog, b"x").unwrap().timestamp;
    assert_eq!(next(), Timestamp::new(1_700_000_000, 1));
    assert_eq!(next(), Timestamp::new(1_700_000_000, 2));
    machine.clock.advance(Duration::from_secs(2));
    assert_eq!(next(), Timestamp::new(1_700_000_002, 1));
    machine.clock.set_wall_millis(1_600_000_000_000);
    assert_eq!(next(), Timestamp::new(1_700_000_002, 2));
    let reopened = machine.open();
    assert_eq!(append(&reopened, b"x").unwrap().timestamp, Timestamp::new(1_700_000_002, 3));
}

#[test]
fn assigned_is_called_once_in_order_also_when_the_entry_had_to_wait_for_a_segment() {
    let machine = Machine::new(1, 300);
    let oplog = machine.open();
    let (mut assigned, mut builds) = (Vec::new(), 0);
    for number in 0..50 {
        let bytes = payload(number, 200);
        let mut build = |_: Timestamp, buffer: &mut Vec<u8>| {
            builds += 1;
            buffer.extend_from_slice(&bytes);
        };
        let appended =
            oplog.append(&mut build, &mut |timestamp, position| assigned.push((timestamp, position))).unwrap();
        assert_eq!(assigned.last(), Some(&(appended.timestamp, appended.position)));
    }
    assert_eq!(assigned.len(), 50);
    assert!(assigned.is_sorted() && builds > 50, "{builds} builds");
    assert_eq!(read_all(&oplog).unwrap().len(), 50);
}

#[test]
fn an_entry_larger_than_a_segment_gets_a_larger_segment() {
    let machine = Machine::new(1, 1000);
    let oplog = machine.open();
    let sizes = [10, 5_000, 10, 300_000, 999, 2_000, 1];
    sizes.iter().enumerate().for_each(|(number, size)| {
        append(&oplog, &payload(number, *size)).unwrap();
    });
    oplog.flush_step().unwrap();
    for oplog in [oplog, machine.open()] {
        let read = read_all(&oplog).unwrap();
        let expected: Vec<_> = sizes.iter().enumerate().map(|(number, size)| payload(number, *size)).collect();
        assert_eq!(read.into_iter().map(|entry| entry.payload).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn truncation_removes_whole_segments_and_positions_stay() {
    let machine = Machine::new(1, 1000);
    let oplog = machine.open();
    let written: Vec<_> = (0..40).map(|number| append_durable(&oplog, &payload(number, 200)).unwrap()).collect();
    let target = written[20].position;
    let first = oplog.truncate_before(target).unwrap();
    assert!(first <= target && first.0 > target.0 - 1000);
    assert_eq!(oplog.first_position(), first);
    assert!(matches!(oplog.read_from(OplogPosition(0)), Err(OplogError::PositionTruncated { .. })));
    assert_eq!(read_from(&oplog, target).unwrap().len(), 20);
    let reopened = machine.open();
    assert_eq!(reopened.first_position(), first);
    assert_eq!(read_from(&reopened, target).unwrap().len(), 20);
    // The segment in use stays even if all of it is given up, and with it the time.
    reopened.truncate_before(reopened.end_position()).unwrap();
    assert_eq!(reopened.statistics().segments, 1);
    assert_eq!(machine.open().last_timestamp(), written[39].timestamp);
}

#[test]
fn a_reader_that_is_truncated_away_says_so() {
    let machine = Machine::new(1, 1000);
    let oplog = machine.open();
    (0..40).for_each(|number| {
        append_durable(&oplog, &payload(number, 200)).unwrap();
    });
    let mut reader = oplog.read_from(OplogPosition(0)).unwrap();
    reader.next_entry().unwrap().unwrap();
    oplog.truncate_before(oplog.end_position()).unwrap();
    let error = loop {
        match reader.next_entry() {
            Ok(entry) => assert!(entry.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, OplogError::PositionTruncated { .. }), "{error}");
}

#[test]
fn a_reader_goes_on_after_the_end_when_entries_come() {
    let machine = Machine::new(1, 2000);
    let oplog = machine.open();
    let mut reader = oplog.read_from(OplogPosition(0)).unwrap();
    for number in 0..200 {
        assert!(reader.next_entry().unwrap().is_none());
        append(&oplog, &payload(number, 90)).unwrap();
        if number % 3 == 0 {
            oplog.flush_step().unwrap();
        }
        assert_eq!(reader.next_entry().unwrap().unwrap().payload, payload(number, 90));
    }
}

#[test]
fn positions_that_are_no_entry_are_refused() {
    let machine = Machine::new(1, 4096);
    let oplog = machine.open();
    append(&oplog, &[1; 100]).unwrap();
    let refused = |oplog: &LocalOplog, position| {
        let result = read_from(oplog, OplogPosition(position));
        assert!(matches!(result, Err(OplogError::InvalidPosition { .. })), "{result:?}");
    };
    refused(&oplog, 3);
    refused(&oplog, 1000);
    oplog.flush_step().unwrap();
    refused(&oplog, 3);
    assert!(matches!(oplog.wait_durable(OplogPosition(1000)), Err(OplogError::InvalidPosition { .. })));
}

#[test]
fn the_buffer_is_bounded() {
    let machine = Machine::new(1, 1 << 20);
    let oplog = machine.open();
    for number in 0..1000 {
        append(&oplog, &payload(number, 500)).unwrap();
        let buffered = oplog.statistics().buffered_bytes;
        assert!(buffered < (8 << 10) + 500 + ENTRY_HEADER_BYTES as u64, "{buffered} bytes");
    }
    assert!(oplog.statistics().append_waits > 0);
    assert_eq!(read_all(&oplog).unwrap().len(), 1000);
}

#[test]
fn one_flush_makes_everything_before_it_durable_with_one_write_and_one_sync() {
    let machine = Machine::new(1, 1 << 20);
    let oplog = machine.open();
    machine.disk.reset_counts();
    let ends: Vec<_> = (0..50).map(|number| append(&oplog, &payload(number, 50)).unwrap().end).collect();
    ends.iter().for_each(|end| oplog.wait_durable(*end).unwrap());
    let counts = machine.disk.counts();
    assert_eq!((counts.of(platform::Operation::Write), counts.of(platform::Operation::Sync)), (1, 1));
    assert_eq!(oplog.statistics().flushes, 1);
}

#[test]
fn a_wait_for_durability_can_have_an_end() {
    let machine = Machine::new(3, 64 << 10);
    let log = machine.open();
    let appended = append(&log, b"slow").unwrap();
    // As if a flusher were at a sync that takes its time.
    log.shared.flushers.fetch_add(1, Ordering::Relaxed);
    let longest = Duration::from_millis(1);
    assert!(!log.wait_durable_within(appended.end, longest).unwrap());
    log.flush_step().unwrap();
    assert!(log.wait_durable_within(appended.end, longest).unwrap());
}
