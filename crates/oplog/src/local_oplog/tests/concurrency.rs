//! Many threads on one log, with a flusher thread: group commit, order, back-pressure, stopping.

#![allow(clippy::disallowed_methods, reason = "tests of threads on a real disk")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use platform::{InjectedError, Operation, RealDisk, SystemClock};

use super::*;
use crate::OplogError;

/// Runs `body` beside a flusher thread, which is stopped afterwards.
fn with_flusher(oplog: &LocalOplog, body: impl FnOnce()) {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| oplog.run_flusher(&stop));
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        stop.store(true, Ordering::Release);
        if let Err(panic) = result {
            std::panic::resume_unwind(panic);
        }
    });
}

fn open_real(directory: &Path, options: OplogOptions) -> LocalOplog {
    LocalOplog::open(Arc::new(RealDisk::new(directory).unwrap()), Arc::new(SystemClock::new()), options).unwrap()
}

#[test]
fn waiting_threads_share_flushes_and_order_is_kept() {
    const THREADS: usize = 8;
    const ENTRIES: usize = 200;
    let directory = tempfile::tempdir().unwrap();
    let options = OplogOptions { segment_bytes: 64 << 10, buffer_bytes_max: 16 << 10, ..Default::default() };
    let oplog = open_real(directory.path(), options.clone());
    let assigned = Mutex::new(Vec::new());
    with_flusher(&oplog, || {
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (oplog, assigned) = (&oplog, &assigned);
                scope.spawn(move || {
                    for number in 0..ENTRIES {
                        let bytes = payload(thread * ENTRIES + number, 100 + thread * 40);
                        let mut build = |_: Timestamp, buffer: &mut Vec<u8>| buffer.extend_from_slice(&bytes);
                        let mut record = |timestamp, position| {
                            assigned.lock().push(Written { position, timestamp, payload: bytes.clone() });
                        };
                        let appended = oplog.append(&mut build, &mut record).unwrap();
                        oplog.wait_durable(appended.end).unwrap();
                        assert!(oplog.durable_position() >= appended.end);
                    }
                });
            }
        });
    });
    let assigned = assigned.into_inner();
    assert_eq!(read_all(&oplog).unwrap(), assigned);
    let statistics = oplog.statistics();
    assert!(statistics.flushes < statistics.appended_entries, "{statistics:?}");
    assert_eq!(read_all(&open_real(directory.path(), options)).unwrap(), assigned);
}

#[test]
fn a_tailing_reader_sees_every_entry_once_while_others_append() {
    let machine = Machine::new(1, 16 << 10);
    let oplog = machine.open();
    let done = AtomicBool::new(false);
    with_flusher(&oplog, || {
        std::thread::scope(|scope| {
            let tailing = scope.spawn(|| {
                let mut reader = oplog.read_from(OplogPosition(0)).unwrap();
                let mut count = 0;
                loop {
                    let last_round = done.load(Ordering::Acquire);
                    while let Some(entry) = reader.next_entry().unwrap() {
                        assert_eq!(entry.payload, payload(count, 150));
                        count += 1;
                    }
                    if last_round {
                        return count;
                    }
                }
            });
            (0..20_000).for_each(|number| {
                append(&oplog, &payload(number, 150)).unwrap();
            });
            done.store(true, Ordering::Release);
            assert_eq!(tailing.join().unwrap(), 20_000);
        });
    });
}

#[test]
fn a_failing_sync_is_reported_to_all_who_wait() {
    let machine = Machine::new(1, 1 << 20);
    let oplog = machine.open();
    let (acknowledged_end, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    machine.disk.fail_after(Operation::Sync, 20, InjectedError::InputOutput);
    with_flusher(&oplog, || {
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    loop {
                        match append_durable(&oplog, b"some entry") {
                            Ok(appended) => {
                                acknowledged_end.fetch_max(appended.end.0, Ordering::AcqRel);
                            }
                            Err(OplogError::Poisoned { .. }) => break,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    failed.fetch_add(1, Ordering::AcqRel);
                });
            }
        });
    });
    assert_eq!(failed.load(Ordering::Acquire), 6);
    machine.disk.power_loss();
    assert!(machine.open().end_position().0 >= acknowledged_end.load(Ordering::Acquire));
}

#[test]
fn a_flusher_heals_a_full_disk_by_itself_and_flushes_what_nobody_waits_for() {
    let machine = Machine::new(1, 1 << 20);
    let oplog = machine.open();
    let clock = SystemClock::new();
    let wait_until = |condition: &dyn Fn() -> bool| {
        while !condition() {
            assert!(clock.monotonic() < Duration::from_secs(20), "it never happened");
            clock.sleep(Duration::from_millis(1));
        }
    };
    with_flusher(&oplog, || {
        let unawaited = append(&oplog, b"nobody waits").unwrap();
        wait_until(&|| oplog.durable_position() >= unawaited.end);
        machine.disk.fail_always(Operation::Write, InjectedError::NoSpace);
        let kept = append(&oplog, b"kept").unwrap();
        assert!(matches!(oplog.wait_durable(kept.end), Err(OplogError::DiskFull)));
        machine.disk.clear_faults();
        wait_until(&|| oplog.durable_position() >= kept.end);
        append_durable(&oplog, b"and on").unwrap();
    });
}

#[test]
fn stopping_the_flusher_flushes_and_releases_those_who_wait() {
    for _ in 0..50 {
        let machine = Machine::new(1, 4096);
        let oplog = machine.open();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| oplog.run_flusher(&stop));
            for thread in 0..4 {
                let oplog = &oplog;
                scope.spawn(move || {
                    (0..50).for_each(|number| {
                        append_durable(oplog, &payload(thread * 50 + number, 120)).unwrap();
                    });
                });
            }
            stop.store(true, Ordering::Release);
        });
        assert_eq!(oplog.durable_position(), oplog.end_position());
        assert_eq!(read_all(&oplog).unwrap().len(), 200);
    }
}
