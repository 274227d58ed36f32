//! A primary that is heard and hears nothing, as when the network is cut one way: another one leads soon, and the first one follows when it hears again.

use std::sync::atomic::{AtomicBool, Ordering};

use shared_log::{AppendOutcome, Bounds, LogIdentity, Sending, StoredRecord};

use super::*;
use crate::{Entered, Member as SetMember, Standpoint, enter};

/// A connection on which requests arrive and answers do not, while it is deaf.
struct OneWay {
    connection: Connection,
    is_deaf: AtomicBool,
}

impl OneWay {
    fn hears(&self) -> shared_log::Result<()> {
        match self.is_deaf.load(Ordering::Relaxed) {
            true => Err(SharedLogError::Unreachable { cause: "no answer comes".to_owned() }),
            false => Ok(()),
        }
    }
}

impl SharedLog for OneWay {
    fn identity(&self) -> shared_log::Result<LogIdentity> {
        self.hears().and_then(|()| self.connection.identity())
    }

    fn begin_append(&self, batch: &[Sending]) {
        self.connection.begin_append(batch);
    }

    fn outcomes(&self, longest: Duration) -> Vec<AppendOutcome> {
        if self.hears().is_ok() { self.connection.outcomes(longest) } else { Vec::new() }
    }

    fn read(&self, from: Offset, bytes_max: usize, longest: Duration) -> shared_log::Result<Vec<StoredRecord>> {
        self.hears().and_then(|()| self.connection.read(from, bytes_max, longest))
    }

    fn bounds(&self) -> shared_log::Result<Bounds> {
        self.hears().and_then(|()| self.connection.bounds())
    }

    fn answers(&self, longest: Duration) -> shared_log::Result<()> {
        self.hears().and_then(|()| self.connection.answers(longest))
    }

    fn trim_before(&self, offset: Offset) -> shared_log::Result<Offset> {
        self.connection.trim_before(offset)
    }

    fn post(&self, node: u64, notice: &[u8]) -> shared_log::Result<()> {
        self.connection.post(node, notice)
    }

    fn notices(&self) -> shared_log::Result<Vec<Vec<u8>>> {
        self.connection.notices()
    }

    fn withdraw(&self, node: u64) -> shared_log::Result<()> {
        self.connection.withdraw(node)
    }

    fn check(&self) -> shared_log::Result<Vec<String>> {
        self.connection.check()
    }
}

struct Running {
    store: Arc<Store>,
    member: SetMember,
    line: Arc<OneWay>,
    clock: Arc<SimulatedClock>,
}

fn open(machine: &Machine, log: &MemoryLog) -> Running {
    let line = Arc::new(OneWay { connection: log.connect(), is_deaf: AtomicBool::new(false) });
    let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) = (machine.disk.clone(), machine.clock.clone());
    let me = Leader { node: machine.node, incarnation: 1, address: format!("db{}:1", machine.node) };
    let random = Arc::new(SeededRandom::new(machine.node));
    let mut entered = None;
    let opened = Store::open_caught_up(disk.clone(), clock.clone(), random.clone(), Machine::options(), |oplog| {
        let found = enter(&*line, oplog, StandingFile::open(disk)?, me.clone(), &clock)?;
        let opens_as = if matches!(found, Entered::Leads(_)) { OpensAs::Leader } else { OpensAs::Follower };
        entered = Some(found);
        Ok::<_, ReplicationError>(opens_as)
    });
    let store = opened.unwrap();
    let member = SetMember::begin(line.clone(), clock, random, me, entered.unwrap(), &store);
    Running { store, member, line, clock: machine.clock.clone() }
}

/// Both go on until it holds; how long that took.
fn until(members: &mut [Running; 2], holds: impl Fn(&[Running; 2]) -> bool) -> Duration {
    let mut taken = Duration::ZERO;
    while !holds(members) {
        assert!(taken < Duration::from_secs(60), "{:?}", members.each_ref().map(|running| running.member.standpoint()));
        for running in members.iter_mut() {
            running.member.step(&running.store).unwrap();
            running.clock.advance(Duration::from_millis(20));
        }
        taken += Duration::from_millis(20);
    }
    taken
}

fn leads(running: &Running) -> bool {
    matches!(running.member.standpoint(), Standpoint::Leads { .. })
}

#[test]
fn a_primary_that_hears_nothing_is_not_heard_for_long() {
    let (log, machines) = (MemoryLog::new(1), [Machine::new(1), Machine::new(2)]);
    let mut members = machines.each_ref().map(|machine| open(machine, &log));
    assert!(leads(&members[0]) && !leads(&members[1]));
    let hears =
        |members: &[Running; 2]| members[1].store.oplog().end_position() == members[0].store.oplog().end_position();
    until(&mut members, hears);
    members[0].line.is_deaf.store(true, Ordering::Relaxed);
    let taken = until(&mut members, |members| leads(&members[1]));
    assert!(taken < Duration::from_secs(8), "{taken:?}");
    assert_eq!(members[0].store.leadership(), Leadership::Stalled);
    members[0].line.is_deaf.store(false, Ordering::Relaxed);
    until(&mut members, |members| matches!(members[0].member.standpoint(), Standpoint::Follows { .. }));
    assert!(leads(&members[1]));
}

/// Nobody writes, and the log does not answer for a while: the same primary goes on.
#[test]
fn a_log_that_is_away_for_a_while_changes_nothing() {
    let (log, machines) = (MemoryLog::new(1), [Machine::new(1), Machine::new(2)]);
    let mut members = machines.each_ref().map(|machine| open(machine, &log));
    until(&mut members, |members| members[0].store.leadership() == Leadership::Held);
    members.iter().for_each(|running| running.line.is_deaf.store(true, Ordering::Relaxed));
    until(&mut members, |members| members[0].store.leadership() == Leadership::Stalled);
    members.iter().for_each(|running| running.line.is_deaf.store(false, Ordering::Relaxed));
    let term = members[0].member.standpoint();
    until(&mut members, |members| members[0].store.leadership() == Leadership::Held);
    assert_eq!(members[0].member.standpoint(), term);
}
