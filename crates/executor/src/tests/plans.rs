//! Which plans are made, and what stages do at their edges.

use std::sync::Arc;

use bson::doc;
use planner::{Hint, PlanNode, Purpose, ScanDirection};
use query_language::expression::sort_pattern::SortPattern;

use super::fixture::{Fixture, query, raw};
use crate::or_stage::OrStage;
use crate::stage::{PlanStage, Step, total};
use crate::{IdLookup, Target, Uninterrupted, Verbosity, count, distinct};

fn numbered(count: i32) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.create_index(&doc! { "v": 2, "key": { "a": 1, "b": -1 }, "name": "a_1_b_-1" });
    for id in 0..count {
        assert!(fixture.insert(&doc! { "_id": id, "a": id % 7, "b": id % 3, "c": id }));
    }
    fixture
}

#[test]
fn id_equality_is_a_lookup() {
    let fixture = numbered(50);
    let executor = fixture.executor(query(&doc! { "_id": 7 }));
    assert_eq!(executor.plan_summary(), "IDHACK");
    assert_eq!(fixture.find(query(&doc! { "_id": 7.0 })), [doc! { "_id": 7, "a": 0, "b": 1, "c": 7 }]);
    let view = fixture.services.store.read_view();
    let mut lookup = IdLookup::default();
    let found = lookup.fetch(&view, &fixture.collection, bson::RawBsonRef::Int32(49)).unwrap();
    assert_eq!(found.unwrap().1.get_i32("c").unwrap(), 49);
    assert!(lookup.find(&view, &fixture.collection, bson::RawBsonRef::Int32(50)).unwrap().is_none());
}

#[test]
fn mod_is_decided_on_keys() {
    let fixture = numbered(1000);
    let mut executor = fixture.executor(query(&doc! { "_id": { "$mod": [100, 3] } }));
    assert_eq!(executor.plan_summary(), "IXSCAN { _id: 1 }");
    assert_eq!(super::fixture::drain(&mut executor).len(), 10);
    let statistics = executor.statistics();
    assert_eq!((statistics.keys_examined, statistics.docs_examined), (1000, 10));
}

/// A filter with so many branches, each of which an index serves.
fn branches(count: i32) -> bson::Document {
    let branch = |number: i32| bson::Bson::Document(doc! { "_id": number, "c": { "$gte": number } });
    doc! { "$or": (0..count).map(branch).collect::<Vec<_>>() }
}

#[test]
fn of_many_branches_one_has_a_cursor() {
    let fixture = numbered(100);
    assert_eq!(fixture.find(query(&branches(300))).len(), 100);
    let (view, wanted) = (fixture.services.store.read_view(), query(&branches(300)));
    let target = planner::Target { collection: &fixture.collection, view: &view, filter: None };
    let plans = planner::candidates(&target, &wanted, Purpose::Documents).unwrap();
    let or = plans.iter().find_map(|plan| match &plan.root {
        PlanNode::Or { inputs } => Some(inputs),
        _ => None,
    });
    let inputs = or.unwrap();
    assert_eq!(inputs.len(), 300);
    let memory = fixture.services.memory.clone();
    let context = fixture.services.context(&view, &fixture.collection, &wanted);
    let (mut stage, mut found) = (OrStage::new(inputs, memory.begin()), 0);
    loop {
        match stage.next(&context).unwrap() {
            Step::Advanced => found += 1,
            Step::Working => {}
            Step::End => break,
        }
        assert!(stage.open_branches() <= 1);
    }
    assert_eq!((found, stage.open_branches(), stage.inputs().len()), (100, 0, 300));
    assert_eq!(total(&stage).docs_examined, 100);
    // So many that the plans of all are too much.
    let executor = fixture.executor(query(&branches(17_000)));
    assert_eq!(executor.plan_summary(), "COLLSCAN");
}

#[test]
fn bounds_and_order_come_from_the_index() {
    let fixture = numbered(100);
    let mut ordered = query(&doc! { "a": 3, "b": { "$gte": 1 } });
    ordered.sort = Some(SortPattern::parse(&raw(&doc! { "b": 1 })).unwrap());
    let mut executor = fixture.executor(ordered);
    let explained = executor.explain(Verbosity::ExecutionStats, &Uninterrupted).unwrap();
    let winning = explained.get_document("queryPlanner").unwrap().get_document("winningPlan").unwrap();
    assert_eq!(winning.get_str("stage").unwrap(), "FETCH");
    let scan = winning.get_document("inputStage").unwrap();
    assert_eq!(scan.get_str("direction").unwrap(), "backward");
    let bounds = doc! { "a": ["[3, 3]"], "b": ["[1, inf.0]"] };
    assert_eq!(scan.get_document("indexBounds").unwrap(), &bounds);
    let stats = explained.get_document("executionStats").unwrap();
    assert_eq!(stats.get_i32("nReturned").unwrap(), 9);
    assert_eq!(stats.get_i32("totalDocsExamined").unwrap(), 9);
}

#[test]
fn hints_are_followed_or_refused() {
    let fixture = numbered(10);
    let mut hinted = query(&doc! { "_id": { "$gte": 0 } });
    hinted.hint = Hint::Name("a_1_b_-1".to_owned());
    assert_eq!(fixture.executor(hinted).plan_summary(), "IXSCAN { a: 1, b: -1 }");
    let mut natural = query(&doc! {});
    natural.hint = Hint::Natural(ScanDirection::Backward);
    assert_eq!(fixture.find(natural).first().unwrap().get_i32("_id").unwrap(), 9);
    let mut wrong = query(&doc! {});
    wrong.hint = Hint::Name("none".to_owned());
    let view = fixture.services.store.read_view();
    let target = Target::of(&fixture.collection);
    let refused = crate::QueryExecutor::new(&fixture.services, view, target, Arc::new(wrong), &Uninterrupted);
    let message = refused.err().unwrap().to_string();
    assert!(message.contains("hint provided does not correspond to an existing index"), "{message}");
}

#[test]
fn min_and_max_bound_the_scan() {
    let fixture = numbered(70);
    let mut bounded = query(&doc! {});
    bounded.hint = Hint::KeyPattern(raw(&doc! { "a": 1, "b": -1 }));
    bounded.min = Some(raw(&doc! { "a": 2, "b": 1 }));
    bounded.max = Some(raw(&doc! { "a": 3, "b": 2 }));
    let found = fixture.find(bounded);
    assert!(found.iter().all(|document| document.get_i32("a").unwrap() == 2 && document.get_i32("b").unwrap() <= 1));
    assert_eq!(found.len(), (0..70).filter(|id| id % 7 == 2 && id % 3 <= 1).count());
}

#[test]
fn rows_survive_reseating_and_unreading() {
    let mut fixture = numbered(20);
    for filter in [doc! { "a": { "$gte": 0 } }, doc! { "c": { "$gte": 0 } }] {
        let mut executor = fixture.executor(query(&filter));
        let mut ids = Vec::new();
        while let Some(row) = executor.next(&Uninterrupted).unwrap() {
            let id = row.document.get_i32("_id").unwrap();
            executor.unread().unwrap();
            executor.reseat(fixture.services.store.read_view()).unwrap();
            assert_eq!(executor.next(&Uninterrupted).unwrap().unwrap().document.get_i32("_id").unwrap(), id);
            executor.reseat(fixture.services.store.read_view()).unwrap();
            ids.push(id);
        }
        assert_eq!(executor.statistics().returned, ids.len() as u64);
        ids.sort_unstable();
        assert_eq!(ids, (0..20).collect::<Vec<_>>());
    }
    // An index that becomes multikey keeps the executor in its view.
    let mut executor = fixture.executor(query(&doc! { "a": { "$gte": 0 } }));
    executor.next(&Uninterrupted).unwrap();
    assert!(fixture.insert(&doc! { "_id": 100, "a": [100, 200] }));
    executor.reseat(fixture.services.store.read_view()).unwrap();
    assert_eq!(super::fixture::drain(&mut executor).len(), 19);
}

#[test]
fn counting_and_distinct_values() {
    let mut fixture = numbered(70);
    let view = fixture.services.store.read_view();
    let target = Target::of(&fixture.collection);
    let counted = |filter, view: &transaction::ReadView| {
        count(&fixture.services, view.clone(), target.clone(), Arc::new(query(&filter)), &Uninterrupted, |_| ())
            .unwrap()
    };
    assert_eq!((counted(doc! {}, &view), counted(doc! { "a": { "$lt": 2 } }, &view)), (70, 20));
    let values = |fixture: &Fixture, filter, field: &str| {
        let view = fixture.services.store.read_view();
        let target = Target::of(&fixture.collection);
        let found = distinct(&fixture.services, view, target, query(&filter), field, &Uninterrupted, |_| ());
        found.unwrap().iter().map(|value| format!("{value:?}")).collect::<Vec<_>>()
    };
    assert_eq!(values(&fixture, doc! {}, "a").len(), 7);
    assert_eq!(values(&fixture, doc! { "c": { "$lt": 3 } }, "b").len(), 3);
    assert!(fixture.insert(&doc! { "_id": "none" }));
    assert_eq!(values(&fixture, doc! {}, "a").len(), 7);
    assert!(fixture.insert(&doc! { "_id": "null", "a": null }));
    assert_eq!(values(&fixture, doc! {}, "a").len(), 8);
    assert!(fixture.insert(&doc! { "_id": "array", "a": [1, 50, [3]] }));
    assert_eq!(values(&fixture, doc! {}, "a").len(), 10);
}

#[test]
fn missing_collections_are_empty() {
    let fixture = numbered(1);
    let missing = Target::missing(collection::Namespace::parse("test.none").unwrap());
    let view = fixture.services.store.read_view();
    let query = Arc::new(query(&doc! { "a": 1 }));
    let mut executor = crate::QueryExecutor::new(&fixture.services, view, missing, query, &Uninterrupted).unwrap();
    assert!(executor.next(&Uninterrupted).unwrap().is_none());
    assert_eq!(executor.plan_summary(), "EOF");
}

/// A range behind a range of the same index is checked key by key, whichever way the scan goes and however many values it has.
#[test]
fn lists_behind_a_range_are_sought_in_both_directions() {
    let fixture = numbered(60);
    for wanted in [vec![1], vec![-5, 1, 9], vec![-9, -8], vec![7, 8, 9], (0..50_000).map(|n| n * 3 + 1).collect()] {
        for direction in [1, -1] {
            let mut sorted = query(&doc! { "a": { "$gte": 2 }, "b": { "$in": wanted.clone() } });
            sorted.sort = Some(SortPattern::parse(&raw(&doc! { "a": direction, "b": -direction })).unwrap());
            let found: Vec<(i32, i32)> = fixture
                .find(sorted)
                .iter()
                .map(|document| (document.get_i32("a").unwrap(), document.get_i32("b").unwrap()))
                .collect();
            let mut expected: Vec<(i32, i32)> = (0..60).map(|id| (id % 7, id % 3)).collect();
            expected.retain(|(a, b)| *a >= 2 && wanted.contains(b));
            expected.sort_by_key(|(a, b)| (a * direction, -b * direction));
            assert_eq!(found, expected, "{direction} {}", wanted.len());
        }
    }
}

#[test]
fn what_is_very_long_is_not_remembered() {
    let fixture = numbered(100);
    assert!(fixture.create_index(&doc! { "v": 2, "key": { "c": 1 }, "name": "c_1" }));
    let remembered = || fixture.services.plan_cache.entries(&fixture.collection).len();
    let mut filter = doc! { "a": { "$gt": 1 }, "c": { "$gt": 1 } };
    fixture.find(query(&filter));
    assert_eq!(remembered(), 1);
    filter.extend((0..2_000).map(|number| (format!("x{number}"), bson::Bson::from(doc! { "$ne": 1 }))));
    fixture.find(query(&filter));
    assert_eq!(remembered(), 1);
}

#[test]
fn decisions_are_counted_and_bounded() {
    let fixture = Fixture::new();
    let budget = platform::MemoryBudget::new(4 << 20);
    let cache = planner::PlanCache::new(&budget);
    let origin =
        Arc::new(planner::DecisionOrigin::of(&fixture.collection, &query(&doc! { "a": 1 }), || None, false, 0));
    let plan = || planner::CachedPlan { signature: "IXSCAN a_1".to_owned(), works: 1, origin: origin.clone() };
    for number in 0..2_000 {
        cache.remember(&fixture.collection, format!("shape {number}"), plan());
        cache.remember(&fixture.collection, "shape again".to_owned(), plan());
    }
    assert!((1..=64 << 10).contains(&budget.used()), "{}", budget.used());
    assert_eq!(cache.find(&fixture.collection, "shape 1999"), Some(plan()));
    let large = "x".repeat(64 << 10);
    cache.remember(&fixture.collection, large.clone(), plan());
    assert_eq!(cache.find(&fixture.collection, &large), None, "too large to be kept");
    for (shape, _) in cache.entries(&fixture.collection).into_iter().skip(1) {
        cache.forget_shape(&fixture.collection, &shape);
    }
    cache.forget(fixture.collection.uuid());
    assert_eq!(budget.used(), 0);
}

/// Of the values in front of a sort, and of a `$or`.
#[test]
fn so_many_scans_are_merged_and_no_more() {
    let mut fixture = numbered(10);
    for id in 10..260 {
        assert!(fixture.insert(&doc! { "_id": id, "a": id, "b": 260 - id }));
    }
    let view = fixture.services.store.read_view();
    let target = planner::Target { collection: &fixture.collection, view: &view, filter: None };
    let merges = |filter: bson::Document| {
        let mut sorted = query(&filter);
        sorted.sort = Some(SortPattern::parse(&raw(&doc! { "b": 1 })).unwrap());
        let plans = planner::candidates(&target, &sorted, Purpose::Documents).unwrap();
        let is_merged = plans.iter().any(|plan| matches!(plan.root, PlanNode::SortMerge { .. }));
        let found: Vec<i32> = fixture.find(sorted).iter().map(|found| found.get_i32("b").unwrap()).collect();
        assert!(found.is_sorted(), "{found:?}");
        (is_merged, found.len())
    };
    let listed = |count: i32| doc! { "a": { "$in": (10..10 + count).collect::<Vec<_>>() } };
    // However many values there are, it is one decision.
    assert_eq!(merges(listed(3)), (true, 3));
    assert_eq!(merges(listed(200)), (true, 200));
    assert_eq!(fixture.services.plan_cache.entries(&fixture.collection).len(), 1);
    assert_eq!(merges(listed(201)), (false, 201));
    let branches = |count: i32| {
        let branch = |number: i32| bson::Bson::Document(doc! { "a": number, "_id": { "$gte": 0 } });
        doc! { "$or": (10..10 + count).map(branch).collect::<Vec<_>>() }
    };
    assert_eq!(merges(branches(200)), (true, 200));
    assert_eq!(merges(branches(201)), (false, 201));
}
