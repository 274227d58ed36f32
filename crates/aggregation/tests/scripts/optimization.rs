//! Pipelines at random: whatever order their stages are brought into, they give what they give as they are written.

use std::sync::Arc;

use aggregation::Pipeline;
use bson::{Bson, Document, doc};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::host::TestHost;
use super::trial::{self, numbered, parsed};
use super::{run, run_pushed_down_over};

fn values() -> BoxedStrategy<Bson> {
    let scalars = prop_oneof![
        5 => (0i32..4).prop_map(Bson::Int32),
        1 => Just(Bson::Null),
        1 => Just(Bson::Undefined),
        1 => Just(Bson::Double(1.0)),
        1 => Just(Bson::String("x".to_owned())),
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

pub(crate) fn fields_of(fields: Vec<(&'static str, Bson)>) -> Document {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn documents() -> BoxedStrategy<Document> {
    vec((select(vec!["a", "b", "c"]), values()), 0..4).prop_map(fields_of).boxed()
}

const PATHS: &[&str] = &["a", "b", "c", "x", "a.b", "b.a", "x.a", "a.0", "a.b.a"];

pub(crate) fn conditions() -> BoxedStrategy<Document> {
    let leaf = prop_oneof![
        4 => (select(vec!["$eq", "$gt", "$lte", "$ne"]), 0i32..4).prop_map(|(name, value)| doc! { name: value }),
        1 => Just(doc! { "$eq": null }),
        1 => any::<bool>().prop_map(|is_there| doc! { "$exists": is_there }),
        1 => (0i32..3).prop_map(|size| doc! { "$size": size }),
        1 => (0i32..4).prop_map(|value| doc! { "$elemMatch": { "$gte": value } }),
        1 => Just(doc! { "$elemMatch": { "b": 1 } }),
        1 => select(vec!["array", "null", "object", "undefined"]).prop_map(|name| doc! { "$type": name }),
    ];
    let field = (select(PATHS.to_vec()), leaf).prop_map(|(path, condition)| doc! { path: condition });
    let expression = (select(vec!["$a", "$b.a", "$x"]), 0i32..3)
        .prop_map(|(path, value)| doc! { "$expr": { "$eq": [path, value] } });
    prop_oneof![6 => field, 1 => expression]
        .prop_recursive(2, 6, 3, |inner| {
            prop_oneof![
                3 => vec(inner.clone(), 1..4).prop_map(|all| doc! { "$and": all }),
                1 => vec(inner.clone(), 1..3).prop_map(|any| doc! { "$or": any }),
                1 => vec(inner, 1..3).prop_map(|none| doc! { "$nor": none }),
            ]
        })
        .boxed()
}

fn stages() -> BoxedStrategy<Document> {
    let expressions = select(vec![
        Bson::from("$a"),
        Bson::from("$b"),
        Bson::from("$a.b"),
        Bson::Document(doc! { "$ifNull": ["$c", 1] }),
        Bson::Document(doc! { "$type": "$a" }),
    ]);
    let kept = vec((select(vec!["a", "b", "c", "_id"]), Just(Bson::Int32(1))), 1..3);
    let computed = vec((select(vec!["x", "y"]), expressions.clone()), 0..2);
    let inclusion = (kept, computed).prop_map(|(mut fields, computed)| {
        fields.extend(computed);
        doc! { "$project": fields_of(fields) }
    });
    let excluded = vec((select(vec!["a", "b.a", "c", "x"]), Just(Bson::Int32(0))), 1..3);
    let added = vec((select(vec!["a", "x", "c"]), expressions), 1..3);
    let order = select(vec![doc! { "a": 1, "_id": 1 }, doc! { "x": -1, "_id": 1 }, doc! { "b.a": 1, "_id": -1 }]);
    prop_oneof![
        4 => conditions().prop_map(|filter| doc! { "$match": filter }),
        2 => inclusion,
        2 => excluded.prop_map(|fields| doc! { "$project": fields_of(fields) }),
        2 => added.prop_map(|fields| doc! { "$addFields": fields_of(fields) }),
        1 => select(vec!["$a", "$b", "$x"]).prop_map(|path| doc! { "$unwind": path }),
        1 => Just(doc! { "$unset": ["b.a", "x"] }),
        2 => order.prop_map(|order| doc! { "$sort": order }),
        1 => (1i64..5).prop_map(|count| doc! { "$limit": count }),
        1 => (0i64..3).prop_map(|count| doc! { "$skip": count }),
        1 => select(vec!["$a", "$x", "$b.a"]).prop_map(|path| doc! { "$group": { "_id": path } }),
        1 => Just(doc! { "$group": { "_id": null, "n": { "$sum": 1 } } }),
        1 => Just(doc! { "$lookup": { "from": "other", "localField": "a", "foreignField": "a", "as": "x" } }),
    ]
    .boxed()
}

fn check(documents: &[Document], stages: &[Document]) {
    let (documents, context) = (numbered(documents), trial::context());
    // Fields may be named twice.
    let Ok(written) = parsed(stages, &context, Pipeline::parse_as_written) else { return };
    let host = Arc::new(TestHost::new(documents.clone(), documents.clone()));
    // A value that cannot be compared fails a join, whatever its place.
    let Ok(expected) = run(&written, documents.clone(), &host) else { return };
    let optimised = parsed(stages, &context, Pipeline::parse).unwrap();
    let shown = format!("{stages:?} as {:?}", optimised.to_bson().unwrap());
    assert_eq!(run(&optimised, documents.clone(), &host).unwrap(), expected, "{shown}");
    let pushed =
        run_pushed_down_over(optimised.split_pushdown().unwrap(), documents, &trial::variables(), &host).unwrap();
    assert_eq!(pushed, expected, "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(600) })]
    #[test]
    fn optimised_pipelines_give_the_same(documents in vec(documents(), 0..8), stages in vec(stages(), 1..6)) {
        check(&documents, &stages);
    }
}
