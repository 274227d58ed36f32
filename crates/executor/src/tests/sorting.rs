//! Sorts that do not fit into their memory.

use std::sync::Arc;

use bson::{Document, doc};
use planner::{CanonicalQuery, DiskUse};
use platform::WorkingMemory;
use query_language::expression::sort_pattern::SortPattern;

use super::fixture::{Fixture, query, raw};
use crate::{ExecutorError, QueryExecutor, Target, Uninterrupted, Verbosity};

const DOCUMENTS: i32 = 2_500;

/// Documents whose `a` repeats, so that the order of arrival matters, in a share of memory that holds a few hundred of them.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    for number in 0..DOCUMENTS {
        let scattered = number.wrapping_mul(7919).rem_euclid(1000);
        assert!(fixture.insert(&doc! { "_id": number, "a": scattered, "pad": "x".repeat(40) }));
    }
    fixture.services.memory = WorkingMemory::simulated(24 << 10).unwrap();
    fixture
}

fn ordered(disk_use: DiskUse, limit: Option<u64>) -> CanonicalQuery {
    let mut ordered = query(&doc! {});
    ordered.sort = Some(SortPattern::parse(&raw(&doc! { "a": -1 })).unwrap());
    ordered.disk_use = disk_use;
    ordered.limit = limit;
    ordered
}

fn expected() -> Vec<Document> {
    let mut keys: Vec<(i32, i32)> = (0..DOCUMENTS).map(|id| (-id.wrapping_mul(7919).rem_euclid(1000), id)).collect();
    keys.sort_unstable();
    keys.into_iter().map(|(a, id)| doc! { "_id": id, "a": -a, "pad": "x".repeat(40) }).collect()
}

#[test]
fn runs_are_merged_in_order_and_equal_keys_keep_theirs() {
    let fixture = fixture();
    let expected = expected();
    assert!(fixture.find(ordered(DiskUse::Allowed, None)) == expected);
    assert!(fixture.services.memory.temporary().totals().0 > 17, "runs of one level were merged");
    assert_eq!(fixture.services.memory.budget().used(), 0);
    // Few enough to be kept in memory, and too many.
    for limit in [10, 1500] {
        assert!(fixture.find(ordered(DiskUse::Allowed, Some(limit))) == expected[..limit as usize]);
    }
}

#[test]
fn explain_says_what_went_to_disk() {
    let fixture = fixture();
    let mut executor = fixture.executor(ordered(DiskUse::Allowed, None));
    let explained = executor.explain(Verbosity::ExecutionStats, &Uninterrupted).unwrap();
    let stages = explained.get_document("executionStats").unwrap().get_document("executionStages").unwrap();
    assert_eq!((stages.get_str("stage").unwrap(), stages.get_bool("usedDisk").unwrap()), ("SORT", true));
    assert!(stages.get_i32("spills").unwrap() > 1 && stages.get_i32("spilledDataStorageSize").unwrap() > 100_000);
}

#[test]
fn without_the_disk_a_large_sort_fails() {
    let fixture = fixture();
    let view = fixture.services.store.read_view();
    let target = Target::of(&fixture.collection);
    let query = Arc::new(ordered(DiskUse::Forbidden, None));
    let mut executor = QueryExecutor::new(&fixture.services, view, target, query, &Uninterrupted).unwrap();
    let failed = loop {
        match executor.next(&Uninterrupted) {
            Ok(row) => assert!(row.is_some(), "it must fail before its end"),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, ExecutorError::MemoryLimit(_)), "{failed}");
}
