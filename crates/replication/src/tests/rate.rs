//! How fast a member applies beside how fast a primary of the same machine writes: a measurement, run by hand (`--ignored --nocapture`). Rates are by time and by
//! the processor time of all threads, since a machine with other work to do tells little by its time.

use collection::{IndexSpecification, RecordId};
use platform::{Clock, SystemClock, processor_time};
use transaction::{ApplyingBy, Decision};

use super::*;
use crate::Member as SetMember;

const DOCUMENTS: i32 = 100_000;

/// Opens a member whose pages all fit into memory.
fn open(machine: &Machine, log: &MemoryLog, applying_by: ApplyingBy) -> (Arc<Store>, SetMember) {
    let mut options = Machine::options();
    options.engine.cache_bytes = 512 << 20;
    options.applying_by = applying_by;
    options.oplog = OplogOptions { buffer_bytes_max: 256 << 20, ..OplogOptions::default() };
    opened_member::open(machine, log, options)
}

#[derive(Clone, Copy, PartialEq)]
enum Load {
    Inserts,
    Updates,
}

/// Inserts documents, or changes those that were inserted first.
fn write(store: &Store, numbers: std::ops::Range<i32>, load: Load) {
    let collection = store.catalog().lookup("db.c").unwrap();
    let mut context = WriteContext::new();
    for id in numbers {
        let document = rawdoc! { "_id": id, "a": id % 1_000, "b": id * 7 % 10_007, "text": "x".repeat(100) };
        if load == Load::Inserts {
            store.insert_document(&mut context, &collection, &document, Validation::Enforce).unwrap();
            continue;
        }
        let record = RecordId(i64::from(id) + 2);
        let changed = store.change_document(&mut context, &collection, record, Validation::Enforce, |old, new| {
            let id = old.get_i32("_id").unwrap();
            let changed = rawdoc! { "_id": id, "a": id % 1_001, "b": id * 7 % 10_007, "text": "x".repeat(101) };
            new.extend_from_slice(changed.as_bytes());
            Ok::<_, TransactionError>(Decision::Replace)
        });
        changed.unwrap();
    }
}

/// Seconds by the clock and of the processors.
fn timed(work: impl FnOnce()) -> (f64, f64) {
    let (clock, used) = (SystemClock::new(), processor_time());
    work();
    (clock.monotonic().as_secs_f64(), (processor_time() - used).as_secs_f64())
}

fn measure(indexes: usize, writers: i32, applying_by: ApplyingBy) {
    let log = MemoryLog::new(1);
    let (first, second) = (Machine::new(1), Machine::new(2));
    let (store, mut leads) = open(&first, &log, applying_by);
    let collection = store.collection_or_create(&Namespace::parse("db.c").unwrap()).unwrap();
    let wanted = [rawdoc! { "key": { "a": 1 }, "name": "a_1" }, rawdoc! { "key": { "b": 1 }, "name": "b_1" }];
    for wanted in wanted.into_iter().take(indexes) {
        store.create_indexes(&collection, vec![IndexSpecification::parse(&wanted).unwrap()]).unwrap();
    }
    while leads.step(&store).unwrap() {}
    let (other, mut follows) = open(&second, &log, applying_by);
    while follows.step(&other).unwrap() {}
    for load in [Load::Inserts, Load::Updates] {
        let (wrote, wrote_used) = timed(|| {
            std::thread::scope(|scope| {
                let share = DOCUMENTS / writers;
                for writer in 0..writers {
                    let store = &store;
                    scope.spawn(move || write(store, writer * share..(writer + 1) * share, load));
                }
            });
        });
        while leads.step(&store).unwrap() {}
        let (applied, applied_used) = timed(|| {
            while other.oplog().end_position() < store.oplog().end_position() {
                follows.step(&other).unwrap();
            }
        });
        let name = if load == Load::Inserts { "inserts" } else { "updates" };
        println!(
            "{indexes} indexes, {writers} writers, {applying_by:?}, {name}: wrote {:.0} a second, applied {:.0}: {:.2} times by time, {:.2} times by processor time ({:.2} processors)",
            f64::from(DOCUMENTS) / wrote,
            f64::from(DOCUMENTS) / applied,
            wrote / applied,
            wrote_used / applied_used,
            applied_used / applied
        );
    }
}

#[test]
#[ignore = "a measurement"]
fn a_member_applies_beside_a_primary_that_writes() {
    for indexes in [0, 2] {
        for (writers, threads) in [(1, 1), (2, 1), (2, 2)] {
            measure(indexes, writers, ApplyingBy::Threads(threads));
        }
    }
}
