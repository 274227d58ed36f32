//! A collection scan that is shared with a second thread gives what one thread gives: numbers, rows in their order, errors.

use std::cell::Cell;
use std::sync::Arc;

use bson::{Document, doc};
use platform::{Clock, Foreground, SimulatedClock, SystemClock};
use proptest::prelude::*;
use query_language::rows::{Row, RowNames, RowReader};

use super::fixture::{Fixture, query};
use crate::{
    ExecutorError, Interrupt, Interruption, QueryExecutor, QueryServices, Result, ScanSharing, Target, Uninterrupted,
    count,
};

/// Documents `{n, v}` of which some have a long text.
fn filled(documents: i32) -> Fixture {
    let mut fixture = Fixture::new();
    for number in 0..documents {
        let text = "x".repeat(if number % 7 == 0 { 700 } else { 3 });
        assert!(fixture.insert(&doc! { "_id": number, "n": number, "v": number % 10, "text": text }));
    }
    fixture
}

fn sharing(fixture: &Fixture, scan_sharing: ScanSharing) -> QueryServices {
    QueryServices { scan_sharing, ..fixture.services.clone() }
}

fn executor(fixture: &Fixture, services: &QueryServices, filter: &Document) -> QueryExecutor {
    let view = services.store.read_view();
    let target = Target::of(&fixture.collection);
    QueryExecutor::new(services, view, target, Arc::new(query(filter)), &Uninterrupted).unwrap()
}

/// The rows of all batches, as text.
fn rows(executor: &mut QueryExecutor, rows_max: usize, interrupt: &dyn Interrupt) -> Result<Vec<String>> {
    let names: RowNames = ["n", "text"].into_iter().map(Into::into).collect();
    let (mut reader, mut found) = (RowReader::new(names.clone(), rows_max), Vec::new());
    loop {
        reader.clear();
        let has_more = executor.fill(&mut reader, interrupt)?;
        let batch = reader.batch();
        assert!(batch.rows() <= rows_max);
        for row in 0..batch.rows() {
            let row = Row::new(batch, &names, row);
            found.push(format!("{:?} {:?}", row.value("n"), row.value("text")));
        }
        if !has_more {
            return Ok(found);
        }
    }
}

fn counted(fixture: &Fixture, services: &QueryServices, filter: &Document) -> Result<u64> {
    let view = services.store.read_view();
    count(services, view, Target::of(&fixture.collection), Arc::new(query(filter)), &Uninterrupted, |_| {})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn it_gives_what_one_thread_gives(
        documents in 1i32..2000, piece in 1u64..60, rows_max in 1usize..200, wanted in -1i32..10
    ) {
        let fixture = filled(documents);
        let filter = if wanted < 0 { doc! {} } else { doc! { "v": { "$gte": wanted } } };
        let (alone, shared) = (sharing(&fixture, ScanSharing::Never), sharing(&fixture, ScanSharing::Always(piece)));
        let (mut one, mut two) = (executor(&fixture, &alone, &filter), executor(&fixture, &shared, &filter));
        let expected = rows(&mut one, rows_max, &Uninterrupted).unwrap();
        prop_assert_eq!(&expected, &rows(&mut two, rows_max, &Uninterrupted).unwrap());
        prop_assert_eq!(one.statistics(), two.statistics());
        prop_assert_eq!(counted(&fixture, &shared, &filter).unwrap(), expected.len() as u64);
    }
}

#[test]
fn an_error_is_met_at_its_place() {
    let fixture = filled(1500);
    let fails = doc! { "$expr": { "$gt": [{ "$divide": [1, { "$subtract": ["$n", 1111] }] }, 0] } };
    let outcome = |sharing_of| {
        let services = sharing(&fixture, sharing_of);
        let error = |error: ExecutorError| error.to_string();
        let mut executor = executor(&fixture, &services, &fails);
        let filled = rows(&mut executor, 100, &Uninterrupted).map_err(error);
        (filled, executor.statistics(), counted(&fixture, &services, &fails).map_err(error))
    };
    let alone = outcome(ScanSharing::Never);
    assert!(alone.0.is_err());
    assert_eq!(alone, outcome(ScanSharing::Always(10)));
}

/// Stops after so many questions.
struct StopsAfter(Cell<u32>);

impl Interrupt for StopsAfter {
    fn check(&self) -> std::result::Result<(), Interruption> {
        match self.0.get().checked_sub(1) {
            Some(left) => self.0.set(left),
            None => return Err(Interruption { code: 11601, code_name: "Interrupted", message: "killed".to_owned() }),
        }
        Ok(())
    }
}

#[test]
fn it_ends_when_it_is_killed_and_so_does_the_second_thread() {
    let fixture = filled(2000);
    let services = sharing(&fixture, ScanSharing::Always(10));
    for questions in [0, 1, 5, 20] {
        let mut executor = executor(&fixture, &services, &doc! {});
        let outcome = rows(&mut executor, 10, &StopsAfter(Cell::new(questions)));
        assert!(matches!(outcome, Err(ExecutorError::Interrupted(_))), "{outcome:?}");
        drop(executor);
        assert_eq!(services.store.foreground().long_running(), 0);
    }
}

#[test]
fn what_is_inserted_meanwhile_is_not_seen_by_either_thread() {
    let mut fixture = filled(1000);
    let services = sharing(&fixture, ScanSharing::Always(10));
    let mut executor = executor(&fixture, &services, &doc! {});
    let names: RowNames = ["n"].into_iter().map(Into::into).collect();
    let mut reader = RowReader::new(names, 5);
    let (mut found, mut inserted) = (0, 0);
    loop {
        reader.clear();
        let has_more = executor.fill(&mut reader, &Uninterrupted).unwrap();
        inserted -= 1;
        found += reader.batch().rows();
        assert!(fixture.insert(&doc! { "_id": inserted, "n": -1 }));
        if !has_more {
            break;
        }
    }
    assert_eq!(found, 1000);
}

/// A store and a clock by which it becomes quiet.
fn quiet_fixture() -> (Fixture, Arc<SimulatedClock>, Arc<Foreground>) {
    let clock = Arc::new(SimulatedClock::new(1_700_000_000_000));
    let foreground = Arc::new(Foreground::new(2));
    let mut fixture = Fixture::with(clock.clone(), foreground.clone());
    for number in 0..60_000 {
        assert!(fixture.insert(&doc! { "_id": number, "n": number }));
    }
    (fixture, clock, foreground)
}

/// By then nobody has come for long, at 4 ms a batch.
const QUIET_FROM_BATCH: i32 = 30;

/// The machine may have no processor for a new thread for a while, in which a short scan would end.
fn wait_for_second_thread(foreground: &Foreground) {
    for _ in 0..1_000 {
        if foreground.second_threads_begun() > 0 {
            return;
        }
        SystemClock::new().sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn it_is_shared_only_while_it_is_quiet() {
    let (fixture, clock, foreground) = quiet_fixture();
    let services = sharing(&fixture, ScanSharing::WhenSpare);
    foreground.note_begun();
    let names: RowNames = ["n"].into_iter().map(Into::into).collect();
    let run = |comes: bool| {
        let (mut executor, mut reader) = (executor(&fixture, &services, &doc! {}), RowReader::new(names.clone(), 1024));
        let (mut found, mut batches) = (0, 0);
        loop {
            reader.clear();
            let has_more = executor.fill(&mut reader, &Uninterrupted).unwrap();
            (found, batches) = (found + reader.batch().rows(), batches + 1);
            clock.advance(std::time::Duration::from_millis(4));
            if comes {
                foreground.note_finished();
            } else if batches == QUIET_FROM_BATCH {
                wait_for_second_thread(&foreground);
            }
            if !has_more {
                assert_eq!(found, 60_000);
                return foreground.second_threads_begun();
            }
        }
    };
    assert_eq!(run(true), 0, "somebody comes all the time");
    assert!(run(false) >= 1);
    assert_eq!(foreground.long_running(), 0);
}
