//! Failed writes and syncs close the log; a full disk does not, and heals.

use std::sync::atomic::{AtomicBool, Ordering};

use platform::{InjectedError, Operation};

use super::*;
use crate::OplogError;

fn assert_poisoned<T: std::fmt::Debug>(result: Result<T>) {
    match result {
        Err(OplogError::Poisoned { cause }) => assert_eq!(cause.raw_os_error(), Some(5)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_failed_write_or_sync_closes_the_log_for_good() {
    for operation in [Operation::Write, Operation::Sync] {
        let machine = Machine::new(1, 4096);
        let oplog = machine.open();
        let durable = append_durable(&oplog, b"durable").unwrap();
        let lost = append(&oplog, b"lost").unwrap();
        machine.disk.fail_next(operation, InjectedError::InputOutput);
        assert_poisoned(oplog.wait_durable(lost.end));
        assert_poisoned(oplog.wait_durable(lost.end));
        assert_poisoned(append(&oplog, b"more"));
        assert_poisoned(oplog.flush_step());
        assert_eq!(oplog.durable_position(), durable.end);
        // What was durable before is still acknowledged.
        oplog.wait_durable(durable.end).unwrap();
    }
}

#[test]
fn no_space_at_a_sync_closes_the_log() {
    let machine = Machine::new(1, 4096);
    let oplog = machine.open();
    append(&oplog, b"entry").unwrap();
    machine.disk.fail_next(Operation::Sync, InjectedError::NoSpace);
    assert!(matches!(oplog.flush_step(), Err(OplogError::Poisoned { .. })));
    assert!(matches!(oplog.flush_step(), Err(OplogError::Poisoned { .. })));
}

#[test]
fn after_a_failed_sync_a_restart_makes_durable_what_it_shows() {
    for seed in 0..100 {
        let machine = Machine::new(seed, 4096);
        let oplog = machine.open();
        append_durable(&oplog, &payload(0, 600)).unwrap();
        (1..5).for_each(|number| {
            append(&oplog, &payload(number, 600)).unwrap();
        });
        machine.disk.fail_next(Operation::Sync, InjectedError::InputOutput);
        assert_poisoned(oplog.flush_step());
        machine.disk.process_crash();
        let shown = read_all(&machine.open()).unwrap();
        assert_eq!(shown.len(), 5, "the system still shows what it wrote");
        machine.disk.power_loss();
        assert_eq!(read_all(&machine.open()).unwrap(), shown);
    }
}

#[test]
fn a_write_that_finds_no_space_loses_nothing_and_heals() {
    let machine = Machine::new(1, 4096);
    let oplog = machine.open();
    let first = append(&oplog, &payload(1, 300)).unwrap();
    machine.disk.fail_always(Operation::Write, InjectedError::NoSpace);
    assert!(matches!(oplog.wait_durable(first.end), Err(OplogError::DiskFull)));
    assert!(matches!(append(&oplog, b"refused"), Err(OplogError::DiskFull)));
    assert!(oplog.statistics().disk_full);
    assert_eq!(read_all(&oplog).unwrap().len(), 1, "it can still be read");
    machine.disk.clear_faults();
    oplog.wait_durable(first.end).unwrap();
    assert!(!oplog.statistics().disk_full);
    append_durable(&oplog, &payload(2, 300)).unwrap();
    machine.disk.power_loss();
    assert_eq!(read_all(&machine.open()).unwrap().len(), 2);
}

/// Appends until the log refuses.
fn fill(oplog: &LocalOplog) -> usize {
    for count in 0..100_000 {
        match append_durable(oplog, &payload(count, 200)) {
            Ok(_) => {}
            Err(OplogError::DiskFull) => return count,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk never became full");
}

#[test]
fn a_full_disk_refuses_appends_before_they_are_accepted_and_heals() {
    let machine = Machine::new(1, 8192);
    machine.disk.set_capacity_bytes(Some(100_000));
    let oplog = machine.open();
    let count = fill(&oplog);
    assert!(count > 200, "{count} entries");
    assert!(matches!(append(&oplog, &payload(0, 200)), Err(OplogError::DiskFull)));
    assert!(oplog.statistics().disk_full);
    // Everything accepted is durable: a sync never met the full disk.
    assert_eq!(oplog.durable_position(), oplog.end_position());
    assert_eq!(read_all(&oplog).unwrap().len(), count);
    // Old segments are given up, as after a checkpoint.
    oplog.truncate_before(OplogPosition(20_000)).unwrap();
    oplog.flush_step().unwrap();
    assert!(fill(&oplog) > 50);
    machine.disk.power_loss();
    assert!(matches!(append(&machine.open(), &[0; 8100]), Err(OplogError::DiskFull)));
    machine.disk.set_capacity_bytes(None);
    append_durable(&machine.open(), &[0; 8100]).unwrap();
}

#[test]
fn a_full_disk_at_the_first_start_is_reported_and_leaves_nothing_that_hinders_the_next() {
    let machine = Machine::new(1, 8192);
    machine.disk.set_capacity_bytes(Some(4096));
    assert!(matches!(machine.try_open(), Err(OplogError::DiskFull)));
    machine.disk.set_capacity_bytes(None);
    append_durable(&machine.open(), b"entry").unwrap();
}

#[test]
fn an_entry_too_large_for_the_space_left_does_not_keep_smaller_ones_out() {
    let machine = Machine::new(1, 8192);
    machine.disk.set_capacity_bytes(Some(60_000));
    let oplog = machine.open();
    assert!(matches!(append(&oplog, &[0; 100_000]), Err(OplogError::DiskFull)));
    (0..100).for_each(|number| {
        append_durable(&oplog, &payload(number, 200)).unwrap();
    });
    assert_eq!(read_all(&oplog).unwrap().len(), 100);
}

#[test]
fn a_segment_that_cannot_be_created_for_another_reason_refuses_and_heals() {
    let machine = Machine::new(1, 1000);
    let oplog = machine.open();
    machine.disk.fail_always(Operation::Open, InjectedError::TooManyOpenFiles);
    let refused = (0..20).find_map(|number| append_durable(&oplog, &payload(number, 200)).err());
    assert!(matches!(refused, Some(OplogError::SegmentUnavailable { .. })), "{refused:?}");
    machine.disk.clear_faults();
    oplog.flush_step().unwrap();
    append_durable(&oplog, &payload(0, 200)).unwrap();
}

/// A clock that panics when told to, in the middle of a flush.
struct PanickingClock {
    broken: AtomicBool,
}

impl Clock for PanickingClock {
    fn monotonic(&self) -> Duration {
        assert!(!self.broken.load(Ordering::Acquire), "the clock is broken");
        Duration::ZERO
    }

    fn wall_millis(&self) -> i64 {
        0
    }

    fn sleep(&self, _: Duration) {}
}

#[test]
fn a_flush_that_panics_closes_the_log() {
    let machine = Machine::new(1, 4096);
    let clock = Arc::new(PanickingClock { broken: AtomicBool::new(false) });
    let disk: Arc<dyn Disk> = Arc::new(machine.disk.clone());
    let oplog = LocalOplog::open(disk, Arc::clone(&clock) as Arc<dyn Clock>, machine.options.clone()).unwrap();
    append_durable(&oplog, b"durable").unwrap();
    let lost = append(&oplog, b"lost").unwrap();
    clock.broken.store(true, Ordering::Release);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| oplog.flush_step())).is_err());
    clock.broken.store(false, Ordering::Release);
    assert!(matches!(oplog.flush_step(), Err(OplogError::Poisoned { .. })));
    assert!(matches!(oplog.wait_durable(lost.end), Err(OplogError::Poisoned { .. })));
    assert!(matches!(append(&oplog, b"more"), Err(OplogError::Poisoned { .. })));
    assert_eq!(read_all(&machine.open()).unwrap().len(), 1);
}
