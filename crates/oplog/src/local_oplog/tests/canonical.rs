//! Canonical bytes are the same whatever this machine has flushed when, and another log takes them.

use std::time::Duration;

use platform::{Clock, Random, SeededRandom, SystemClock};

use super::*;
use crate::OplogError;

/// Everything, in pieces of such a size, with the ends of whole entries that were told on the way.
fn canonical(oplog: &LocalOplog, piece_bytes: usize) -> (Vec<u8>, Vec<u64>) {
    let mut reader = oplog.read_canonical(OplogPosition(0)).unwrap();
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    loop {
        let mut piece = Vec::new();
        let whole = reader.read(&mut piece, piece_bytes).unwrap();
        if piece.is_empty() {
            assert_eq!(reader.position(), oplog.end_position());
            return (all, ends);
        }
        assert!(piece.len() <= piece_bytes);
        if whole > 0 {
            ends.push((all.len() + whole) as u64);
        }
        all.extend(piece);
    }
}

#[test]
fn canonical_bytes_do_not_depend_on_flushes_and_make_the_same_log_elsewhere() {
    let random = SeededRandom::new(3);
    let (machine, other) = (Machine::new(1, 2_000), Machine::new(2, 5_000));
    let oplog = machine.open();
    let mut entry_ends = Vec::new();
    let mut written_in_part = Vec::new();
    for number in 0..80 {
        let length = [0, 1, 30, 700, 3_000][random.below(5) as usize];
        entry_ends.push(append(&oplog, &payload(number, length)).unwrap().end.0);
        if random.chance(0.2) {
            oplog.flush_step().unwrap();
        }
        if number == 40 {
            written_in_part = canonical(&oplog, 100_000).0;
        }
    }
    let (all, ends) = canonical(&oplog, usize::MAX);
    assert_eq!((all.len() as u64, ends), (oplog.end_position().0, vec![oplog.end_position().0]));
    assert!(all.starts_with(&written_in_part));
    for piece_bytes in [1, 7, 100, 1_000, 2_999] {
        let (same, ends) = canonical(&oplog, piece_bytes);
        assert!(same == all && ends.iter().all(|end| entry_ends.contains(end)));
        assert_eq!(ends.last(), entry_ends.last());
    }
    oplog.flush_step().unwrap();
    assert_eq!(canonical(&oplog, 500).0, all);
    drop(oplog);
    assert_eq!(canonical(&machine.open(), 500).0, all);
    // Elsewhere, with segments of its own, in two lives.
    let half = entry_ends[30] as usize;
    let received = other.open();
    received.append_received(&all[..half]).unwrap();
    received.wait_durable(received.end_position()).unwrap();
    drop(received);
    other.disk.power_loss();
    other.disk.power_on();
    let received = other.open();
    received.append_received(&all[half..]).unwrap();
    assert_eq!(read_all(&received).unwrap(), read_all(&machine.open()).unwrap());
    assert_eq!(canonical(&received, 999).0, all);
    assert!(
        append(&received, b"next").unwrap().timestamp > read_all(&machine.open()).unwrap().last().unwrap().timestamp
    );
}

#[test]
fn what_is_no_entry_of_this_place_is_not_appended() {
    let (machine, other) = (Machine::new(1, 50_000), Machine::new(2, 50_000));
    let oplog = machine.open();
    let first = append(&oplog, &payload(1, 40)).unwrap().end.0 as usize;
    append(&oplog, &payload(2, 40)).unwrap();
    let all = canonical(&oplog, usize::MAX).0;
    let received = other.open();
    let refused = |bytes: &[u8]| matches!(received.append_received(bytes), Err(OplogError::NotAsLogged { .. }));
    assert!(refused(&all[first..]), "the second is not the first");
    for bit in 0..first * 8 {
        let mut damaged = all[..first].to_vec();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(refused(&damaged), "bit {bit}");
    }
    assert!(refused(&all[..first - 1]));
    assert_eq!(received.end_position(), OplogPosition(0));
    assert!(refused(&all[..all.len() - 1]));
    assert_eq!(received.end_position().0 as usize, first, "what was whole before is appended");
    received.append_received(&all[first..]).unwrap();
    assert_eq!(read_all(&received).unwrap(), read_all(&oplog).unwrap());
}

#[test]
fn who_follows_is_woken_by_an_append() {
    let machine = Machine::new(1, 50_000);
    let oplog = machine.open();
    oplog.wait_appended(OplogPosition(0), Duration::from_millis(1));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| oplog.wait_appended(OplogPosition(0), Duration::from_secs(600)));
        SystemClock::new().sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        append(&oplog, b"a").unwrap();
        waiting.join().unwrap();
    });
    oplog.wait_appended(OplogPosition(0), Duration::from_secs(600));
}
