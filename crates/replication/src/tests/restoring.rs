//! A log that is made again from a member's oplog: who goes on with it, and who is refused.

use super::*;
use crate::restore;

/// A member that is stopped, as what `restore` looks at.
fn restored_from(machine: &Machine, log: &MemoryLog) -> Result<crate::RestoredLog> {
    let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) = (machine.disk.clone(), machine.clock.clone());
    let standing = StandingFile::open(disk.clone()).unwrap();
    let oplog = oplog::LocalOplog::open(disk, clock.clone(), Machine::options().oplog).unwrap();
    restore(&log.connect(), &oplog, standing.stored().unwrap(), (&clock, &SeededRandom::new(5)))
}

fn filled(machine: &mut Machine, log: &MemoryLog, ids: std::ops::Range<i32>) {
    let mut member = machine.start(log);
    for id in ids {
        member.insert(id, 3_000).unwrap();
    }
    member.ship_all();
    member.store.oplog().wait_durable(member.store.oplog().end_position()).unwrap();
}

#[test]
fn a_member_goes_on_with_the_log_that_was_made_of_its_oplog() {
    let (former, mut machine) = (MemoryLog::new(1), Machine::new(1));
    filled(&mut machine, &former, 0..700);
    let (begun, bytes) = counted(&former);
    let log = MemoryLog::new(2);
    let made = restored_from(&machine, &log).unwrap();
    assert_eq!(made.former, former.connect().identity().unwrap());
    assert_eq!(made.ends, begun + bytes.len() as u64);
    assert!(matches!(restored_from(&machine, &log), Err(ReplicationError::NotEmpty { .. })), "only once");
    let mut member = machine.start(&log);
    assert!(member.shipper.leads() && member.count() == 700);
    let term = member.shipper.writer().term();
    assert!(term > made.term, "{term} after {}", made.term);
    member.insert(700, 10).unwrap();
    member.ship_all();
    drop(member);
    // It has followed the new one since, and is done with the former.
    assert_eq!(machine.start(&log).count(), 701);
    assert!(matches!(cause(machine.try_start(&former)), ReplicationError::OtherLog { .. }));
}

#[test]
fn who_has_less_takes_what_it_lacks_and_who_has_more_is_refused() {
    let former = MemoryLog::new(1);
    let (mut most, mut less) = (Machine::new(1), Machine::new(2));
    filled(&mut most, &former, 0..50);
    // The second takes the lead, so it has all of that; then it is away while the first goes on.
    filled(&mut less, &former, 50..60);
    filled(&mut most, &former, 60..90);
    let log = MemoryLog::new(2);
    restored_from(&most, &log).unwrap();
    assert_eq!(less.start(&log).count(), 90);
    // Made from the one that lacks something: the other one keeps it.
    let (mut most, mut less) = (Machine::new(1), Machine::new(2));
    let former = MemoryLog::new(3);
    filled(&mut most, &former, 0..50);
    filled(&mut less, &former, 50..60);
    filled(&mut most, &former, 60..90);
    let log = MemoryLog::new(4);
    restored_from(&less, &log).unwrap();
    assert!(matches!(cause(most.try_start(&log)), ReplicationError::NotRestored { .. }));
    let better = MemoryLog::new(5);
    restored_from(&most, &better).unwrap();
    assert_eq!(most.start(&better).count(), 90);
    assert_eq!(less.start(&better).count(), 90);
}

#[test]
fn who_has_logged_something_else_is_refused_and_a_stranger_too() {
    let former = MemoryLog::new(1);
    let (mut one, mut other, mut stranger) = (Machine::new(1), Machine::new(2), Machine::new(3));
    filled(&mut one, &former, 0..20);
    // What is never shipped is nobody's but its own.
    let member = one.start(&former);
    member.insert(500, 10).unwrap();
    member.store.oplog().wait_durable(member.store.oplog().end_position()).unwrap();
    drop(member);
    filled(&mut other, &former, 20..40);
    filled(&mut stranger, &MemoryLog::new(9), 0..3);
    let log = MemoryLog::new(2);
    restored_from(&other, &log).unwrap();
    assert!(matches!(cause(one.try_start(&log)), ReplicationError::NotRestored { .. }));
    assert!(matches!(cause(stranger.try_start(&log)), ReplicationError::OtherLog { .. }));
    assert_eq!(other.start(&log).count(), 40);
    // A new one needs nothing else: the log has everything.
    assert_eq!(Machine::new(4).start(&log).count(), 40);
}
