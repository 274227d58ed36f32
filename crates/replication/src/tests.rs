//! Members on simulated machines over a shared log in memory.

mod applying;
mod deaf;
mod failover;
mod members;
mod opened_member;
mod rate;
mod restoring;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bson::rawdoc;
use collection::{Namespace, StatementDetails, Validation};
use oplog::{Oplog, OplogOptions, OplogPosition};
use platform::{Clock, Disk, SeededRandom, SimulatedClock, SimulatedDisk};
use shared_log::{
    Connection, Effect, Faults, Leader, MemoryLog, Offset, Place, Reading, Rule, SharedLog, SharedLogError,
};
use transaction::{
    Acknowledgement, CommitInfo, Leadership, OpensAs, Statement, Store, StoreOptions, TransactionError, Urgency,
    WriteContext,
};

use crate::{Joined, ReplicationError, Result, Shipper, StandingFile, join};

/// A machine that a member's process is started on again and again.
struct Machine {
    disk: Arc<SimulatedDisk>,
    clock: Arc<SimulatedClock>,
    node: u64,
    lives: u64,
}

/// A member that runs.
struct Member {
    store: Arc<Store>,
    shipper: Shipper,
    connection: Arc<Connection>,
}

impl Machine {
    fn new(node: u64) -> Machine {
        let clock = Arc::new(SimulatedClock::new(1_700_000_000_000));
        Machine { disk: Arc::new(SimulatedDisk::with_clock(node, clock.clone())), clock, node, lives: 0 }
    }

    fn options() -> StoreOptions {
        let mut options = StoreOptions { engine_threads: false, replay_threads: 0, ..StoreOptions::default() };
        options.engine.cache_bytes = 8 << 20;
        options.oplog = OplogOptions { directory: PathBuf::from("oplog"), segment_bytes: 64 << 10, ..options.oplog };
        options
    }

    fn try_start(&mut self, log: &MemoryLog) -> std::result::Result<Member, TransactionError> {
        self.lives += 1;
        let connection = Arc::new(log.connect());
        let (disk, clock): (Arc<dyn Disk>, Arc<dyn Clock>) = (self.disk.clone(), self.clock.clone());
        let me = Leader { node: self.node, incarnation: self.lives, address: format!("db{}:27017", self.node) };
        let mut joined: Option<Joined> = None;
        let random = Arc::new(SeededRandom::new(self.node * 100 + self.lives));
        let store =
            Store::open_caught_up(disk.clone(), clock.clone(), random, Self::options(), |oplog| -> Result<OpensAs> {
                joined = Some(join(&*connection, oplog, StandingFile::open(disk)?, me, &clock)?);
                Ok(OpensAs::Leader)
            })?;
        let shipper = Shipper::begin(connection.clone(), clock, joined.unwrap(), &store);
        let mut member = Member { store, shipper, connection };
        member.ship_all();
        Ok(member)
    }

    fn start(&mut self, log: &MemoryLog) -> Member {
        self.try_start(log).unwrap()
    }

    fn lose_power(&self) {
        self.disk.power_loss();
        self.disk.power_on();
    }
}

impl Member {
    fn ship_all(&mut self) {
        while self.shipper.step(&self.store).unwrap() {}
    }

    fn insert(&self, id: i32, bytes: usize) -> std::result::Result<CommitInfo, TransactionError> {
        let collection = self.store.collection_or_create(&Namespace::parse("db.c").unwrap())?;
        let document = rawdoc! { "_id": id, "a": "x".repeat(bytes) };
        let commit =
            self.store.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce)?;
        self.store.acknowledge(&commit, Acknowledgement::Visible)?;
        Ok(commit)
    }

    /// How many documents a reader sees.
    fn count(&self) -> usize {
        let Some(collection) = self.store.catalog().lookup("db.c") else { return 0 };
        let mut cursor = self.store.read_view().record_cursor(&collection);
        std::iter::from_fn(|| cursor.next().unwrap()).count()
    }
}

/// The bytes that count in a log, and where they begin.
fn counted(log: &MemoryLog) -> (u64, Vec<u8>) {
    let connection = log.connect();
    let mut reading = Reading::new(connection.identity().unwrap(), Place::default());
    let (mut begins, mut bytes) = (None, Vec::new());
    for record in connection.read(Offset(0), usize::MAX, Duration::ZERO).unwrap() {
        match reading.step(record.offset, &record.bytes).unwrap() {
            Effect::Accepted { bytes: new, .. } => bytes.extend_from_slice(new),
            Effect::Claimed { cut_at, .. } => bytes.truncate((cut_at - *begins.get_or_insert(cut_at)) as usize),
            _ => {}
        }
    }
    (begins.unwrap(), bytes)
}

fn logged(store: &Store, from: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.oplog().read_canonical(OplogPosition(from)).unwrap().read(&mut bytes, usize::MAX).unwrap();
    bytes
}

/// The cause of a store's not having been opened.
fn cause(result: std::result::Result<Member, TransactionError>) -> ReplicationError {
    match result.map(drop) {
        Err(TransactionError::SharedLog(error)) => *error.downcast().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_logged_is_in_the_shared_log_and_confirmed_from_then_on() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    let mut member = machine.start(&log);
    for id in 0..50 {
        // Some entries are larger than a record.
        member.insert(id, if id % 20 == 7 { 2_500_000 } else { 100 }).unwrap();
        assert_eq!(member.count() as i32, id);
        member.ship_all();
        assert_eq!(member.count() as i32, id + 1);
    }
    let (begins, bytes) = counted(&log);
    assert!(bytes == logged(&member.store, begins));
}

/// A client is told once the log has its write; this machine's disk may not have it yet.
#[test]
fn what_was_confirmed_and_lost_here_comes_back_from_the_log() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    let mut member = machine.start(&log);
    for life in 1..6 {
        for id in 0..20 {
            member.insert(life * 100 + id, 300).unwrap();
        }
        if life % 2 == 0 {
            member.ship_all();
            member.store.checkpoint_step(Urgency::Now).unwrap();
            member.insert(life * 100 + 50, 10).unwrap();
        }
        let before = member.count();
        member.ship_all();
        let told = member.count();
        assert!(told > before);
        drop(member);
        machine.lose_power();
        member = machine.start(&log);
        assert_eq!(member.count(), told, "life {life}");
    }
    let (begins, bytes) = counted(&log);
    assert!(bytes == logged(&member.store, begins));
}

/// Nobody was told of it, so it may be there or not. It is kept, as this member's oplog has it.
#[test]
fn what_was_logged_here_and_never_shipped_is_shipped_in_the_next_term() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    let member = machine.start(&log);
    member.insert(1, 10).unwrap();
    member.store.oplog().wait_durable(member.store.oplog().end_position()).unwrap();
    assert_eq!(member.count(), 0);
    drop(member);
    machine.lose_power();
    let member = machine.start(&log);
    assert_eq!(member.count(), 1);
    let (begins, bytes) = counted(&log);
    assert!(bytes == logged(&member.store, begins));
}

#[test]
fn a_store_that_has_been_in_use_becomes_the_first_member() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    {
        let random = Arc::new(SeededRandom::new(5));
        let alone = Store::open(machine.disk.clone(), machine.clock.clone(), random, Machine::options()).unwrap();
        let collection = alone.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
        let document = rawdoc! { "_id": 1 };
        alone.insert_document(&mut WriteContext::new(), &collection, &document, Validation::Enforce).unwrap();
        alone.shutdown().unwrap();
    }
    let member = machine.start(&log);
    assert_eq!(member.count(), 1);
    assert!(counted(&log).0 > 0, "what was before is in the data only");
    drop(member);
    machine.lose_power();
    assert_eq!(machine.start(&log).count(), 1);
    // Another machine has nothing of that.
    assert!(matches!(cause(Machine::new(2).try_start(&log)), ReplicationError::NeedsCopy { .. }));
}

#[test]
fn who_is_overtaken_confirms_nothing_more_and_writes_nothing_more() {
    let log = MemoryLog::new(1);
    let (mut machine, mut other) = (Machine::new(1), Machine::new(2));
    let mut first = machine.start(&log);
    first.insert(1, 10).unwrap();
    first.ship_all();
    let unconfirmed = first.insert(2, 10).unwrap();
    let mut second = other.start(&log);
    assert_eq!(second.count(), 1);
    second.insert(3, 10).unwrap();
    second.ship_all();
    first.ship_all();
    assert!(!first.shipper.leads() && first.store.leadership() == Leadership::Lost);
    assert!(matches!(first.insert(4, 10), Err(TransactionError::TermLost)));
    let told = first.store.acknowledge(&unconfirmed, Acknowledgement::Durable);
    assert!(matches!(told, Err(TransactionError::TermLost)));
    assert_eq!(first.count(), 1, "what it reads stays as it was");
    first.store.oplog().wait_durable(first.store.oplog().end_position()).unwrap();
    drop(first);
    // What it has logged beyond the others' is noticed.
    assert!(matches!(cause(machine.try_start(&log)), ReplicationError::Differs { .. }));
    second.insert(5, 10).unwrap();
    second.ship_all();
    assert_eq!(second.count(), 3);
}

#[test]
fn a_silent_log_holds_writers_and_lets_them_go_again() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    let mut member = machine.start(&log);
    member.insert(1, 10).unwrap();
    member.ship_all();
    member.connection.cut(true);
    member.insert(2, 10).unwrap();
    for _ in 0..60 {
        machine.clock.advance(Duration::from_millis(100));
        member.shipper.step(&member.store).unwrap();
    }
    assert_eq!(member.store.leadership(), Leadership::Stalled);
    assert!(matches!(member.insert(3, 10), Err(TransactionError::LogUnreachable)));
    assert_eq!(member.count(), 1);
    member.connection.cut(false);
    member.connection.give_up();
    member.ship_all();
    assert_eq!((member.store.leadership(), member.count()), (Leadership::Held, 2));
    member.insert(3, 10).unwrap();
    // An idle primary shows itself, and hears itself.
    for _ in 0..100 {
        machine.clock.advance(Duration::from_millis(200));
        member.ship_all();
    }
    assert_eq!((member.store.leadership(), member.count()), (Leadership::Held, 3));
}

#[test]
fn another_log_is_not_taken_for_the_one_that_was_followed() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    let mut member = machine.start(&log);
    member.insert(1, 10).unwrap();
    member.ship_all();
    drop(member);
    assert!(matches!(cause(machine.try_start(&MemoryLog::new(2))), ReplicationError::OtherLog { .. }));
    // It has noted what it has read by now, with the heartbeat that is the last record.
    let mut member = machine.start(&log);
    member.insert(2, 10).unwrap();
    member.ship_all();
    member.store.oplog().wait_durable(member.store.oplog().end_position()).unwrap();
    machine.clock.advance(Duration::from_secs(11));
    member.ship_all();
    drop(member);
    log.lose_newest(2);
    assert!(matches!(cause(machine.try_start(&log)), ReplicationError::Log(SharedLogError::Shorter { .. })));
}

#[test]
fn a_start_is_given_up_when_the_log_does_not_answer() {
    let (log, mut machine) = (MemoryLog::new(1), Machine::new(1));
    log.set_faults(Faults { failed_read: 1.0, is_slow: true, ..Faults::none() });
    assert!(matches!(cause(machine.try_start(&log)), ReplicationError::NoAnswer { .. }));
    log.set_faults(Faults::none());
    // The first one's claim comes now.
    let member = machine.start(&log);
    assert!(member.shipper.leads() && log.connect().bounds().unwrap().end > Offset(1));
}

/// Its client sends a write again, not knowing whether it was done.
#[test]
fn a_retry_finds_its_record_with_whoever_leads_next() {
    let log = MemoryLog::new(1);
    let (mut machine, mut other) = (Machine::new(1), Machine::new(2));
    let mut first = machine.start(&log);
    let collection = first.store.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
    let id = bson::Uuid::from_bytes([7; 16]);
    let session = first.store.sessions().refresh(id).unwrap();
    first.store.begin_retryable_write(&session, 3).unwrap();
    let mut context = WriteContext::new();
    let details = StatementDetails::None;
    context.set_statement(Some(Statement { session, txn_number: 3, id: 0, details }));
    first.store.insert_document(&mut context, &collection, &rawdoc! { "_id": 1 }, Validation::Enforce).unwrap();
    first.ship_all();
    let second = other.start(&log);
    let session = second.store.sessions().refresh(id).unwrap();
    second.store.begin_retryable_write(&session, 3).unwrap();
    assert!(session.executed(0).is_some() && session.executed(1).is_none());
    assert_eq!(second.count(), 1);
}
