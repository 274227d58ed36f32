//! Pipelines at random over rows: they give what they give over documents, in batches of one and of many, with and without memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aggregation::Pipeline;
use bson::{Bson, DateTime, Document, doc};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use query_language::rows::BATCH_ROWS;

use super::host::TestHost;
use super::optimization::{conditions, fields_of};
use super::trial::{self, numbered, outcome, parsed, raw};

/// Values of all kinds, some of them equal though they are of different types.
fn values() -> BoxedStrategy<Bson> {
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    let scalars = prop_oneof![
        4 => (-2i32..4).prop_map(Bson::Int32),
        1 => (-2i64..4).prop_map(Bson::Int64),
        1 => (-4i32..8).prop_map(|halves| Bson::Double(f64::from(halves) / 2.0)),
        1 => select(vec![Bson::Int32(i32::MAX), Bson::Int64(i64::MAX), Bson::Int64(i64::MIN), Bson::Double(f64::NAN),
            Bson::Double(-0.0), Bson::Double(f64::INFINITY), Bson::Double(1e300), Bson::Double(0.1)]),
        1 => select(vec![decimal("1"), decimal("1.5"), decimal("1.50"), decimal("NaN")]),
        2 => select(vec!["", "x", "X", "yy", "a longer text"]).prop_map(|text| Bson::String(text.to_owned())),
        1 => Just(Bson::Symbol("x".to_owned())),
        1 => select(vec![Bson::Null, Bson::Undefined, Bson::MinKey, Bson::MaxKey, Bson::Boolean(true), Bson::Boolean(false)]),
        1 => (0i64..3).prop_map(|millis| Bson::DateTime(DateTime::from_millis(millis * 86_400_000))),
        1 => Just(Bson::ObjectId(bson::oid::ObjectId::from_bytes([7; 12]))),
        1 => Just(Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 })),
    ];
    scalars
        .prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                vec(inner.clone(), 0..3).prop_map(Bson::Array),
                vec((select(vec!["a", "b", "0"]), inner), 0..3).prop_map(|fields| Bson::Document(fields_of(fields))),
            ]
        })
        .boxed()
}

fn documents() -> BoxedStrategy<Document> {
    vec((select(vec!["a", "b", "c"]), values()), 0..4).prop_map(fields_of).boxed()
}

fn operands() -> BoxedStrategy<Bson> {
    prop_oneof![
        3 => select(vec!["$a", "$b", "$c", "$x", "$a.b", "$b.a"]).prop_map(Bson::from),
        1 => (-2i32..4).prop_map(Bson::Int32),
        1 => Just(Bson::Double(0.25)),
    ]
    .boxed()
}

/// Some fail for some values: then all ways fail.
fn expressions() -> BoxedStrategy<Bson> {
    operands()
        .prop_recursive(2, 6, 3, |inner| {
            let pair = vec(inner.clone(), 2..3);
            prop_oneof![
                2 => inner.clone(),
                2 => (select(vec!["$add", "$multiply"]), vec(inner.clone(), 0..4)).prop_map(|(name, all)| Bson::Document(doc! { name: all })),
                2 => (select(vec!["$subtract", "$divide", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$cmp"]), pair.clone())
                    .prop_map(|(name, pair)| Bson::Document(doc! { name: pair })),
                1 => vec(inner.clone(), 3..4).prop_map(|three| Bson::Document(doc! { "$cond": three })),
                1 => (select(vec!["$ifNull", "$concat", "$and", "$or"]), pair).prop_map(|(name, pair)| Bson::Document(doc! { name: pair })),
                1 => (select(vec!["$type", "$isArray", "$toUpper", "$not"]), inner.clone()).prop_map(|(name, one)| Bson::Document(doc! { name: [one] })),
                1 => (inner.clone(), inner.clone()).prop_map(|(left, right)| Bson::Document(doc! { "p": left, "q": right })),
                1 => vec(inner.clone(), 0..3).prop_map(Bson::Array),
                1 => inner.prop_map(|value| Bson::Document(doc! { "$let": { "vars": { "v": value }, "in": "$$v" } })),
            ]
        })
        .boxed()
}

fn passing() -> BoxedStrategy<Document> {
    let kept = vec((select(vec!["a", "b", "c", "_id", "b.a"]), Just(Bson::Int32(1))), 1..3);
    let computed = vec((select(vec!["x", "y", "a"]), expressions()), 0..3);
    let inclusion = (kept, computed.clone()).prop_map(|(mut fields, computed)| {
        fields.extend(computed);
        doc! { "$project": fields_of(fields) }
    });
    let excluded = vec((select(vec!["a", "b.a", "c", "x"]), Just(Bson::Int32(0))), 1..3);
    prop_oneof![
        3 => conditions().prop_map(|filter| doc! { "$match": filter }),
        1 => expressions().prop_map(|expression| doc! { "$match": { "$expr": expression } }),
        2 => inclusion,
        1 => excluded.prop_map(|fields| doc! { "$project": fields_of(fields) }),
        2 => computed.prop_filter("none", |fields| !fields.is_empty()).prop_map(|fields| doc! { "$addFields": fields_of(fields) }),
        1 => Just(doc! { "$unset": ["a", "x"] }),
        1 => select(vec!["x", "a", "b.a"]).prop_map(|output| {
            doc! { "$lookup": { "from": "other", "localField": "a", "foreignField": "b", "as": output } }
        }),
    ]
    .boxed()
}

fn groups() -> BoxedStrategy<Document> {
    let accumulators =
        select(vec!["$sum", "$avg", "$min", "$max", "$first", "$last", "$push", "$addToSet", "$stdDevPop"]);
    let given = (accumulators, expressions()).prop_map(|(name, argument)| match argument {
        Bson::Array(_) => doc! { name: "$a" },
        argument => doc! { name: argument },
    });
    let more = select(vec![
        doc! { "$count": {} },
        doc! { "$sum": 1 },
        doc! { "$firstN": { "n": 2, "input": "$a" } },
        doc! { "$topN": { "n": 2, "sortBy": { "a": 1, "b": -1 }, "output": "$b" } },
        doc! { "$push": "$$ROOT" },
    ]);
    let accumulators = vec((select(vec!["p", "q", "r"]), prop_oneof![4 => given, 1 => more]), 0..4);
    let keys = prop_oneof![
        4 => expressions(),
        1 => Just(Bson::Null),
        1 => expressions().prop_map(|value| Bson::Document(doc! { "k": value })),
    ];
    (keys, accumulators)
        .prop_map(|(key, accumulators)| {
            let mut group = doc! { "_id": key };
            group.extend(
                accumulators.into_iter().map(|(name, accumulator)| (name.to_owned(), Bson::Document(accumulator))),
            );
            doc! { "$group": group }
        })
        .boxed()
}

fn gathering() -> BoxedStrategy<Document> {
    let one = prop_oneof![4 => groups(), 1 => Just(doc! { "$count": "n" })].boxed();
    let facet = (vec(passing(), 0..2), one.clone(), vec(passing(), 0..2), one.clone()).prop_map(
        |(mut first, one, mut second, two)| {
            first.push(one);
            second.push(two);
            doc! { "$facet": { "f": first, "g": second } }
        },
    );
    prop_oneof![4 => one, 1 => facet].boxed()
}

fn sorted(outcome: Result<Vec<String>, String>) -> Result<Vec<String>, String> {
    outcome.map(|mut lines| {
        lines.sort();
        lines
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1500) })]
    #[test]
    fn rows_give_what_documents_give(
        documents in vec(documents(), 0..12),
        stages in vec(passing(), 0..3),
        gathering in gathering(),
    ) {
        let mut stages = stages;
        stages.push(gathering);
        let expected = outcome(numbered(&documents), &stages, Some(0), None);
        for rows in [1, 3, BATCH_ROWS] {
            let found = outcome(numbered(&documents), &stages, Some(rows), None);
            match (&expected, &found) {
                (Err(_), Err(_)) => {}
                _ => prop_assert_eq!(&found, &expected, "{} rows: {:?}", rows, stages),
            }
        }
        // Groups in runs come in the order of their keys. What is summed up in parts may differ in its last bits.
        let written = format!("{stages:?}");
        if written.contains("$stdDevPop") {
            return Ok(());
        }
        let expected = sorted(expected);
        let is_exact = ["$sum", "$avg", "$facet"].iter().all(|name| !written.contains(name));
        let spilled = sorted(outcome(numbered(&documents), &stages, Some(0), Some(64)));
        if let (Ok(expected), Ok(spilled), true) = (&expected, &spilled, is_exact) {
            prop_assert_eq!(spilled, expected, "spilled: {}", written);
        }
        for rows in [1, BATCH_ROWS] {
            let found = sorted(outcome(numbered(&documents), &stages, Some(rows), Some(64)));
            if let (Ok(spilled), Ok(found)) = (&spilled, found) {
                prop_assert_eq!(&found, spilled, "spilled, {} rows: {}", rows, written);
            }
        }
    }
}

/// Wants the command to stop when it has been asked so often.
struct StopAfter(AtomicU64);

impl document::work::Watch for StopAfter {
    fn interruption(&self) -> Option<document::Interruption> {
        let is_over = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err();
        is_over.then_some(document::Interruption { name: "Interrupted", message: "operation was interrupted" })
    }
}

#[test]
fn rows_ask_whether_to_stop() {
    let pipelines = [
        vec![doc! { "$match": { "a": { "$gte": 0 } } }, doc! { "$count": "n" }],
        vec![doc! { "$group": { "_id": "$a", "n": { "$sum": "$b" } } }],
        vec![doc! { "$facet": { "n": [{ "$count": "n" }] } }],
    ];
    for stages in pipelines {
        let given = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&given);
        let documents = (0..200_000).map(move |number| {
            counted.fetch_add(1, Relaxed);
            raw(&doc! { "a": number % 100, "b": 1 })
        });
        let pipeline = parsed(&stages, &trial::context(), Pipeline::parse).unwrap();
        let host = Arc::new(TestHost::new(Vec::new(), Vec::new()));
        let mut cursor = pipeline.run(aggregation::source_of(documents), host).unwrap();
        let _watching = document::work::watch(Arc::new(StopAfter(AtomicU64::new(10))));
        assert!(cursor.next_document().is_err(), "{stages:?}");
        assert!(given.load(Relaxed) < 20_000, "{} of {stages:?}", given.load(Relaxed));
    }
}
