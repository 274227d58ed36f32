//! Every plan for a query yields what a collection scan yields: random documents, indexes and filters.

use std::collections::BTreeMap;
use std::sync::Arc;

use bson::{Bson, Document, RawDocument, doc};
use index_key::{Direction, encode_value};
use planner::{
    CanonicalQuery, DistinctField, Hint, Missing, PlanNode, ProjectionUse, Purpose, ScanDirection, WhichDocument,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{EvaluationContext, Expression, ParseContext, Variables};
use query_language::projection::{Projection, ProjectionKind};

use super::fixture::{Fixture, drain, query, raw};
use crate::{QueryExecutor, Uninterrupted, count, distinct};

fn scalars() -> BoxedStrategy<Bson> {
    let rare = vec![
        Bson::Double(f64::NAN),
        Bson::Double(f64::INFINITY),
        Bson::Double(f64::NEG_INFINITY),
        Bson::Double(-0.0),
        Bson::Decimal128("2.5".parse().unwrap()),
        Bson::Decimal128("2.50000000000000000000001".parse().unwrap()),
        Bson::Decimal128("NaN".parse().unwrap()),
        Bson::Int64(1 << 60),
        Bson::MinKey,
        Bson::MaxKey,
        Bson::Undefined,
        Bson::Boolean(true),
        Bson::Boolean(false),
        Bson::DateTime(bson::DateTime::from_millis(5)),
        Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 }),
        Bson::ObjectId(bson::oid::ObjectId::from_bytes([1; 12])),
        Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![7] }),
        Bson::Symbol("ab".to_owned()),
    ];
    prop_oneof![
        6 => (-2i32..6).prop_map(Bson::Int32),
        2 => select(vec![2.0, 2.5, 4.0, -1.0]).prop_map(Bson::Double),
        2 => (0i64..4).prop_map(Bson::Int64),
        3 => select(vec!["", "a", "ab", "abc", "b\u{1}", "é"]).prop_map(|text| Bson::String(text.to_owned())),
        2 => select(vec!["", "a", "m", "z"]).prop_map(|end| Bson::String("ab".repeat(1200) + end)),
        2 => Just(Bson::Null),
        2 => select(rare),
    ]
    .boxed()
}

fn values() -> BoxedStrategy<Bson> {
    scalars()
        .prop_recursive(3, 8, 3, |inner| {
            prop_oneof![
                1 => vec(inner.clone(), 0..4).prop_map(Bson::Array),
                1 => vec((select(vec!["b", "c", "0"]), inner), 0..3)
                    .prop_map(|fields| Bson::Document(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())),
            ]
        })
        .boxed()
}

fn documents() -> BoxedStrategy<Document> {
    vec((select(vec!["a", "b", "c"]), values()), 0..4)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        .boxed()
}

const PATHS: &[&str] = &["a", "b", "c", "a.b", "a.c", "a.0", "a.0.b", "b.c", "_id"];

fn constants() -> BoxedStrategy<Bson> {
    values().prop_filter("no constant", |value| !contains_undefined(value)).boxed()
}

fn contains_undefined(value: &Bson) -> bool {
    match value {
        Bson::Undefined => true,
        Bson::Array(items) => items.iter().any(contains_undefined),
        Bson::Document(fields) => fields.values().any(contains_undefined),
        _ => false,
    }
}

fn operators() -> BoxedStrategy<Document> {
    let leaf = prop_oneof![
        6 => (select(vec!["$eq", "$lt", "$lte", "$gt", "$gte", "$ne"]), constants())
            .prop_map(|(name, value)| doc! { name: value }),
        2 => (select(vec!["$lt", "$lte", "$gt", "$gte"]), -2i32..6).prop_map(|(name, value)| doc! { name: value }),
        2 => (select(vec!["$in", "$nin"]), vec(constants(), 0..4)).prop_map(|(name, values)| doc! { name: values }),
        2 => vec(-2i32..6, 1..4).prop_map(|values| doc! { "$in": values }),
        1 => any::<bool>().prop_map(|truth| doc! { "$exists": truth }),
        1 => select(vec!["number", "string", "array", "null", "object", "int", "undefined", "bool"])
            .prop_map(|name| doc! { "$type": name }),
        1 => (1i32..4, 0i32..3).prop_map(|(divisor, remainder)| doc! { "$mod": [divisor, remainder] }),
        1 => select(vec!["^a", "^ab", "b", "^", "^a.c"]).prop_map(|pattern| doc! { "$regex": pattern }),
        1 => (0i32..3).prop_map(|size| doc! { "$size": size }),
        1 => (0i32..4).prop_map(|mask| doc! { "$bitsAllSet": mask }),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            1 => inner.clone().prop_map(|operators| doc! { "$not": operators }),
            2 => (inner.clone(), inner.clone()).prop_map(|(mut left, right)| { left.extend(right); left }),
            2 => inner.prop_map(|operators| doc! { "$elemMatch": operators }),
        ]
    })
    .boxed()
}

fn filters() -> BoxedStrategy<Document> {
    let field = (select(PATHS.to_vec()), operators()).prop_map(|(path, operators)| doc! { path: operators });
    let inner = (select(vec!["b", "c", "0"]), operators(), select(vec!["b", "c"]), operators())
        .prop_map(|(left, first, right, second)| doc! { left: first, right: second });
    let element =
        (select(vec!["a", "b", "a.b"]), inner).prop_map(|(path, inner)| doc! { path: { "$elemMatch": inner } });
    prop_oneof![5 => field, 2 => element]
        .prop_recursive(3, 10, 3, |inner| {
            prop_oneof![
                4 => vec(inner.clone(), 1..4).prop_map(|filters| doc! { "$and": filters }),
                2 => vec(inner.clone(), 1..4).prop_map(|filters| doc! { "$or": filters }),
                1 => vec(inner, 1..3).prop_map(|filters| doc! { "$nor": filters }),
            ]
        })
        .boxed()
}

fn indexes() -> BoxedStrategy<Vec<Document>> {
    let known = vec![
        doc! { "key": { "a": 1 } },
        doc! { "key": { "a": -1 } },
        doc! { "key": { "b": 1, "a": -1 } },
        doc! { "key": { "a.b": 1 } },
        doc! { "key": { "a.b": 1, "a.c": 1 } },
        doc! { "key": { "a.b": 1, "a.c": -1, "c": 1 } },
        doc! { "key": { "a": 1, "b": 1, "c": 1 } },
        doc! { "key": { "c": -1, "b": -1 } },
        doc! { "key": { "a.0": 1 } },
        doc! { "key": { "a.0.b": 1, "b": 1 } },
        doc! { "key": { "b.c": 1, "a": 1 } },
        doc! { "key": { "a": 1, "_id": 1 } },
        doc! { "key": { "$**": 1 } },
        doc! { "key": { "$**": -1 } },
        doc! { "key": { "a.$**": 1 } },
        doc! { "key": { "$**": 1 }, "wildcardProjection": { "a.b": 1, "c": 1, "_id": 1 } },
        doc! { "key": { "$**": 1 }, "wildcardProjection": { "a.c": 0, "b": 0 } },
        doc! { "key": { "$**": 1 }, "partialFilterExpression": { "a": { "$gt": 1 } } },
        doc! { "key": { "a": 1, "$**": 1 }, "wildcardProjection": { "a": 0 } },
        doc! { "key": { "b": -1, "a.$**": -1, "c": 1 } },
        doc! { "key": { "$**": 1, "b.c": 1 }, "wildcardProjection": { "a": 1, "c": 1, "_id": 1 } },
        doc! { "key": { "a": "hashed" } },
        doc! { "key": { "b": "hashed", "a": 1 } },
        doc! { "key": { "c": -1, "a.b": "hashed" } },
        doc! { "key": { "a.0": "hashed" }, "sparse": true },
        doc! { "key": { "a": 1 }, "sparse": true },
        doc! { "key": { "a.b": 1 }, "sparse": true },
        doc! { "key": { "b": 1, "a.b": 1 }, "sparse": true },
        doc! { "key": { "a": 1 }, "partialFilterExpression": { "a": { "$gt": 1 } } },
        doc! { "key": { "b": 1 }, "partialFilterExpression": { "a": { "$exists": true } } },
        doc! { "key": { "a.b": 1 }, "partialFilterExpression": { "c": 2, "a": { "$lte": 3 } } },
    ];
    vec(select(known), 1..4)
        .prop_map(|mut indexes| {
            for (ordinal, index) in indexes.iter_mut().enumerate() {
                index.insert("name", format!("i{ordinal}"));
                index.insert("v", 2);
            }
            indexes
        })
        .boxed()
}

#[derive(Debug, Clone)]
struct Case {
    filter: Document,
    sort: Option<Document>,
    projection: Option<Document>,
    /// Whether the projection only says what is needed.
    is_needed: bool,
}

fn cases() -> BoxedStrategy<Case> {
    let sorts = vec![
        doc! { "a": 1 },
        doc! { "a": -1 },
        doc! { "b": 1, "a": -1 },
        doc! { "b": -1, "a": 1 },
        doc! { "a.b": 1 },
        doc! { "c": -1 },
        doc! { "b": 1 },
        doc! { "a": 1, "b": 1 },
        doc! { "_id": -1 },
        doc! { "a.0": 1 },
    ];
    let projections = vec![
        doc! { "a": 1, "_id": 0 },
        doc! { "b": 1, "a": 1, "_id": 0 },
        doc! { "a.b": 1, "_id": 0 },
        doc! { "a.b": 1, "a.c": 1, "_id": 0 },
        doc! { "_id": 1 },
        doc! { "a": 1 },
        doc! { "a": 0 },
    ];
    let (sort, projection) =
        (prop::option::weighted(0.4, select(sorts)), prop::option::weighted(0.3, select(projections)));
    (filters(), sort, projection, any::<bool>())
        .prop_map(|(filter, sort, projection, is_needed)| Case { filter, sort, projection, is_needed })
        .boxed()
}

fn canonical(case: &Case) -> CanonicalQuery {
    let mut canonical = query(&case.filter);
    canonical.sort = case.sort.as_ref().map(|sort| SortPattern::parse(&raw(sort)).unwrap());
    canonical.projection = case
        .projection
        .as_ref()
        .map(|projection| Projection::parse(&raw(projection), ProjectionKind::Find, &ParseContext::new()).unwrap());
    if case.is_needed {
        canonical.projection_use = ProjectionUse::Needed;
    }
    canonical
}

/// What a row is once all is projected that may have come whole.
fn shown_row(row: bson::RawDocumentBuf, query: &CanonicalQuery) -> Vec<u8> {
    match (&query.projection, query.projection_use) {
        (Some(projection), ProjectionUse::Needed) => normal(&projection.apply(&row, None, &query.variables).unwrap()),
        _ => normal(&row),
    }
}

/// Fields in the order of their names, since a covered document has them in the order of the index.
fn normal(document: &RawDocument) -> Vec<u8> {
    fn sorted(document: Document) -> Document {
        let mut fields: Vec<(String, Bson)> = document
            .into_iter()
            .map(|(name, value)| match value {
                Bson::Document(inner) => (name, Bson::Document(sorted(inner))),
                value => (name, value),
            })
            .collect();
        fields.sort_by(|left, right| left.0.cmp(&right.0));
        fields.into_iter().collect()
    }
    raw(&sorted(Document::try_from(document).unwrap())).into_bytes()
}

fn check(fixture: &Fixture, case: &Case) {
    let view = fixture.services.store.read_view();
    let mut reference = canonical(&Case { sort: None, is_needed: false, ..case.clone() });
    reference.hint = Hint::Natural(ScanDirection::Forward);
    let mut expected: Vec<Vec<u8>> = fixture.find_raw(reference).iter().map(|document| normal(document)).collect();
    expected.sort();
    let target = planner::Target { collection: &fixture.collection, view: &view, filter: None };
    let query = Arc::new(canonical(case));
    for plan in planner::candidates(&target, &query, Purpose::Documents).unwrap() {
        let signature = plan.root.signature();
        let is_ordered_whole = case.projection.is_none();
        let mut executor =
            QueryExecutor::with_plan(&fixture.services, view.clone(), &fixture.collection, query.clone(), plan)
                .unwrap();
        let found = drain(&mut executor);
        let mut normalized: Vec<Vec<u8>> = found.iter().map(|row| shown_row(row.clone(), &query)).collect();
        normalized.sort();
        assert_eq!(
            shown(&normalized),
            shown(&expected),
            "plan {signature} of {case:?}\n{:#?}",
            executor
                .explain(crate::Verbosity::QueryPlanner, &Uninterrupted)
                .unwrap()
                .get_document("queryPlanner")
                .unwrap()
                .get("winningPlan")
        );
        if let (true, Some(sort)) = (is_ordered_whole, &query.sort) {
            let keys: Vec<_> = found.iter().map(|document| sort.key(document).unwrap()).collect();
            assert!(
                keys.windows(2).all(|pair| sort.compare(&pair[0], &pair[1]).is_le()),
                "order of plan {signature} of {case:?}: {found:?}"
            );
        }
    }
    let counted =
        count(&fixture.services, view.clone(), crate::Target::of(&fixture.collection), query, &Uninterrupted, |_| ());
    assert_eq!(counted.unwrap(), expected.len() as u64, "count of {case:?}");
    for path in ["a", "b", "c", "a.b", "a.0", "_id"] {
        check_distinct(fixture, case, path);
    }
}

/// The values of a field, and the first and the last document of each, are those that a collection scan finds.
fn check_distinct(fixture: &Fixture, case: &Case, path: &str) {
    let values = |hint: Hint| {
        let (view, target) = (fixture.services.store.read_view(), crate::Target::of(&fixture.collection));
        let query = CanonicalQuery { hint, ..query(&case.filter) };
        let found = distinct(&fixture.services, view, target, query, path, &Uninterrupted, |_| ()).unwrap();
        found.iter().map(|(kind, value)| key_of(kind, value)).collect::<Vec<_>>()
    };
    let expected = values(Hint::Natural(ScanDirection::Forward));
    assert_eq!(values(Hint::None), expected, "distinct {path} of {case:?}");
    let Some(sort) = &case.sort else { return };
    let order = SortPattern::parse(&raw(sort)).unwrap();
    for which in [WhichDocument::First, WhichDocument::Last] {
        let found = |hint: Hint| {
            let distinct =
                DistinctField { path: document::FieldPath::new(path), missing: Missing::Null, which: Some(which) };
            let query = CanonicalQuery {
                hint,
                distinct: Some(distinct),
                sort: Some(order.clone()),
                disk_use: planner::DiskUse::Allowed,
                ..query(&case.filter)
            };
            one_of_each(&drain(&mut fixture.executor(query)), path, &order, which)
        };
        let expected = found(Hint::Natural(ScanDirection::Forward));
        assert_eq!(found(Hint::None), expected, "{which:?} of each {path} of {case:?}");
    }
}

/// What tells a value from others: of equal numbers of different types each plan may meet another one first.
fn key_of(kind: bson::spec::ElementType, value: &[u8]) -> Vec<u8> {
    let length = i32::try_from(value.len() + 7).unwrap();
    let bytes = [&length.to_le_bytes()[..], &[kind as u8, 0], value, &[0]].concat();
    let document = bson::RawDocumentBuf::from_bytes(bytes).unwrap();
    let (_, value) = document.iter().next().unwrap().unwrap();
    let mut key = Vec::new();
    encode_value(&mut key, value, Direction::Ascending);
    key
}

/// By the value of a path, as a group tells values apart, the sort key of the first or last document that has it.
fn one_of_each(
    documents: &[bson::RawDocumentBuf],
    path: &str,
    order: &SortPattern,
    which: WhichDocument,
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let expression = Expression::parse(bson::RawBsonRef::String(&format!("${path}")), &ParseContext::new()).unwrap();
    let variables = Variables::new(bson::DateTime::from_millis(0), None, 0);
    let mut found = BTreeMap::new();
    for document in documents {
        let value = expression.evaluate(&EvaluationContext::new(document, &variables)).unwrap();
        let (mut key, mut place) = (Vec::new(), Vec::new());
        let value = if value.is_nullish() { bson::RawBsonRef::Null } else { value.or_null() };
        encode_value(&mut key, value, Direction::Ascending);
        for (part, value) in order.parts().iter().zip(order.key(document).unwrap()) {
            let direction = if part.descending { Direction::Descending } else { Direction::Ascending };
            encode_value(&mut place, value.as_raw_bson_ref(), direction);
        }
        match which {
            WhichDocument::First => drop(found.entry(key).or_insert(place)),
            WhichDocument::Last => drop(found.insert(key, place)),
        }
    }
    found
}

fn shown(documents: &[Vec<u8>]) -> Vec<String> {
    documents.iter().map(|document| format!("{:?}", RawDocument::from_bytes(document).unwrap())).collect()
}

impl Fixture {
    fn find_raw(&self, query: CanonicalQuery) -> Vec<bson::RawDocumentBuf> {
        let mut executor = self.executor(query);
        assert!(!matches!(executor.plan.root, PlanNode::IndexScan(_)));
        drain(&mut executor)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 3000, failure_persistence: None, ..ProptestConfig::with_cases(cases_wanted()) })]
    #[test]
    fn plans_agree_with_collection_scans(
        documents in vec(documents(), 1..14),
        indexes in indexes(),
        cases in vec(cases(), 8),
    ) {
        let mut fixture = Fixture::new();
        for index in &indexes {
            // The same pattern twice is refused.
            fixture.create_index(index);
        }
        for (id, fields) in documents.iter().enumerate() {
            let mut document = doc! { "_id": id as i32 };
            document.extend(fields.clone());
            fixture.insert(&document);
        }
        for case in &cases {
            check(&fixture, case);
        }
    }
}

/// A few hundred in CI; set `PROPTEST_CASES` for more.
fn cases_wanted() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(200)
}
