//! How fast a member applies beside how fast one thread of a primary writes: a measurement, run by hand (`--ignored --nocapture`).

use std::time::Instant;

use collection::IndexSpecification;
use platform::SystemClock;

use super::*;
use crate::{Entered, Member as SetMember, enter};

const DOCUMENTS: i32 = 100_000;

/// Opens a member whose pages all fit into memory.
fn open(machine: &Machine, log: &MemoryLog) -> (Arc<Store>, SetMember) {
    let (connection, clock) = (Arc::new(log.connect()), Arc::new(SystemClock::new()) as Arc<dyn Clock>);
    let me = Leader { node: machine.node, incarnation: 1, address: format!("db{}:1", machine.node) };
    let mut options = Machine::options();
    options.engine.cache_bytes = 512 << 20;
    options.oplog = OplogOptions { buffer_bytes_max: 256 << 20, ..OplogOptions::default() };
    let mut entered = None;
    let random = Arc::new(SeededRandom::new(machine.node));
    let disk: Arc<dyn Disk> = machine.disk.clone();
    let store =
        Store::open_caught_up(disk.clone(), clock.clone(), random.clone(), options, |oplog| -> Result<OpensAs> {
            let found = enter(&*connection, oplog, StandingFile::open(disk)?, me.clone(), &clock)?;
            let opens_as = if matches!(found, Entered::Leads(_)) { OpensAs::Leader } else { OpensAs::Follower };
            entered = Some(found);
            Ok(opens_as)
        });
    let store = store.unwrap();
    let member = SetMember::begin(connection, clock, random, me, entered.unwrap(), &store);
    (store, member)
}

#[test]
#[ignore = "a measurement"]
fn a_member_applies_beside_a_primary_that_writes() {
    for indexes in [0, 2] {
        let log = MemoryLog::new(1);
        let (first, second) = (Machine::new(1), Machine::new(2));
        let (store, mut leads) = open(&first, &log);
        let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
        let wanted = [rawdoc! { "key": { "a": 1 }, "name": "a_1" }, rawdoc! { "key": { "b": 1 }, "name": "b_1" }];
        for wanted in wanted.into_iter().take(indexes) {
            store.create_indexes(&collection, vec![IndexSpecification::parse(&wanted).unwrap()]).unwrap();
        }
        while leads.step(&store).unwrap() {}
        let (other, mut follows) = open(&second, &log);
        while follows.step(&other).unwrap() {}
        let began = Instant::now();
        let mut context = WriteContext::new();
        for id in 0..DOCUMENTS {
            let document = rawdoc! { "_id": id, "a": id % 1_000, "b": id * 7 % 10_007, "text": "x".repeat(100) };
            store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
        }
        let wrote = began.elapsed();
        while leads.step(&store).unwrap() {}
        let began = Instant::now();
        while other.oplog().end_position() < store.oplog().end_position() {
            follows.step(&other).unwrap();
        }
        let applied = began.elapsed();
        let rate = |took: Duration| f64::from(DOCUMENTS) / took.as_secs_f64();
        println!(
            "{indexes} indexes: wrote {:.0} a second, applied {:.0} a second: {:.2} times",
            rate(wrote),
            rate(applied),
            rate(applied) / rate(wrote)
        );
    }
}
