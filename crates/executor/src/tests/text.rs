//! What a text index finds is what is found by looking at every document: random texts and searches, in batches and
//! sorted in little memory.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use planner::CanonicalQuery;
use platform::WorkingMemory;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use query_language::expression::ParseContext;
use query_language::expression::sort_pattern::SortPattern;
use query_language::filter::{Filter, FilterOptions};
use query_language::projection::{Projection, ProjectionKind};

use super::fixture::{Fixture, raw};
use crate::{ExecutorError, QueryExecutor, Target, Uninterrupted};

const WORDS: &[&str] = &["cat", "Cats", "dog", "the", "Café", "cafe", "running", "run", "x-ray", "été", "o'clock"];

fn texts() -> BoxedStrategy<Bson> {
    let text = || vec(select(WORDS.to_vec()), 0..5).prop_map(|words| words.join(" ")).boxed();
    prop_oneof![
        5 => text().prop_map(Bson::String),
        1 => vec(text(), 0..3).prop_map(Bson::from),
        1 => (text(), select(vec!["english", "french", "none"]))
            .prop_map(|(text, language)| doc! { "t": text, "language": language }.into()),
        1 => Just(Bson::Int32(5)),
    ]
    .boxed()
}

fn documents() -> BoxedStrategy<Document> {
    (0i32..3, texts(), texts(), 0i32..3).prop_map(|(a, t, u, b)| doc! { "a": a, "t": t, "u": u, "b": b }).boxed()
}

fn searches() -> BoxedStrategy<Document> {
    let part =
        (select(vec!["", "", "", "-", "\"", "-\""]), vec(select(WORDS.to_vec()), 1..3)).prop_map(|(sign, words)| {
            let close = if sign.ends_with('"') { "\"" } else { "" };
            format!("{sign}{}{close}", words.join(" "))
        });
    (vec(part, 1..4), any::<bool>(), any::<bool>(), select(vec!["", "none", "fr"]))
        .prop_map(|(parts, case, diacritics, language)| {
            doc! {
                "$search": parts.join(" "),
                "$caseSensitive": case,
                "$diacriticSensitive": diacritics,
                "$language": language,
            }
        })
        .boxed()
}

fn query(filter: &Document) -> CanonicalQuery {
    let options = FilterOptions::default().with_texts();
    CanonicalQuery::new(Filter::parse(&raw(filter), &options).unwrap())
}

fn with_score(mut query: CanonicalQuery) -> CanonicalQuery {
    let score = raw(&doc! { "score": { "$meta": "textScore" } });
    query.projection = Some(Projection::parse(&score, ProjectionKind::Find, &ParseContext::new()).unwrap());
    query
}

fn ids(documents: &[Document]) -> Vec<i32> {
    let mut ids: Vec<i32> = documents.iter().map(|document| document.get_i32("_id").unwrap()).collect();
    ids.sort_unstable();
    ids
}

/// The sum of the scores that the index has for the terms of the search.
fn score(fixture: &Fixture, terms: &[String], document: &Document) -> f64 {
    let indexes = fixture.collection.indexes();
    let definition = indexes.find("words").unwrap().pattern().text().unwrap().clone();
    let scores = text_search::scores(&definition, &raw(document), &|_| true).unwrap();
    terms.iter().filter_map(|term| scores.get(term.as_str())).sum()
}

fn check(index: &Document, filter: &Document, documents: &[Document]) {
    let mut fixture = Fixture::new();
    for (id, document) in documents.iter().enumerate() {
        let mut with_id = doc! { "_id": id as i32 };
        with_id.extend(document.clone());
        assert!(fixture.insert(&with_id));
    }
    assert!(fixture.create_index(index));
    let plain = query(filter);
    let text = plain.filter.text().unwrap().clone();
    let condition = plain.filter.clone();
    let found = fixture.find(plain);
    // Planning has bound the condition to the index: now it can be asked of each document.
    let all = fixture.find(CanonicalQuery::new(Filter::parse(&raw(&doc! {}), &FilterOptions::default()).unwrap()));
    let expected: Vec<Document> =
        all.into_iter().filter(|document| condition.matches(&raw(document)).unwrap()).collect();
    assert_eq!(ids(&found), ids(&expected), "{filter}");
    let scored = fixture.find(with_score(query(filter)));
    assert_eq!(ids(&scored), ids(&expected), "{filter} with scores");
    let definition = fixture.collection.indexes().find("words").unwrap().pattern().text().unwrap().clone();
    let terms: Vec<String> = text.bind(&definition).unwrap().query.index_terms().iter().cloned().collect();
    for mut document in scored {
        let shown = document.remove("score").unwrap().as_f64().unwrap();
        assert!((shown - score(&fixture, &terms, &document)).abs() < 1e-9, "{filter}: {document} has {shown}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_index_finds_what_matches(
        documents in vec(documents(), 0..20), search in searches(), kind in 0..4usize, a in 0i32..3
    ) {
        let (index, filter) = match kind {
            0 => (doc! { "key": { "t": "text" }, "name": "words" }, doc! { "$text": search }),
            1 => (
                doc! { "key": { "$**": "text" }, "name": "words", "weights": { "u": 7 }, "default_language": "fr" },
                doc! { "$text": search, "b": { "$gt": 0 } },
            ),
            2 => (
                doc! { "key": { "a": 1, "t": "text", "u": "text", "b": -1 }, "name": "words", "weights": { "t": 3 } },
                doc! { "$text": search, "a": a, "b": { "$lt": 2 } },
            ),
            _ => (
                doc! { "key": { "t": "text" }, "name": "words", "partialFilterExpression": { "a": { "$gte": 1 } } },
                doc! { "$text": search, "a": { "$gte": 1 } },
            ),
        };
        check(&index, &filter, &documents);
    }
}

fn many() -> Fixture {
    let mut fixture = Fixture::new();
    for id in 0..2_000 {
        let text = format!("{}{}", "cat ".repeat(1 + id % 3), "dog ".repeat(id / 3 % 4));
        assert!(fixture.insert(&doc! { "_id": id as i32, "t": text }));
    }
    assert!(fixture.create_index(&doc! { "key": { "t": "text" }, "name": "words" }));
    fixture
}

#[test]
fn a_sort_by_score_may_spill() {
    let mut fixture = many();
    let ordered = |fixture: &Fixture| {
        let mut query = with_score(query(&doc! { "$text": { "$search": "cat dog" } }));
        query.disk_use = planner::DiskUse::Allowed;
        query.sort = Some(SortPattern::parse(&raw(&doc! { "s": { "$meta": "textScore" }, "_id": 1 })).unwrap());
        fixture.find(query)
    };
    let in_memory = ordered(&fixture);
    assert_eq!(in_memory.len(), 2_000);
    let scores: Vec<f64> = in_memory.iter().map(|document| document.get_f64("score").unwrap()).collect();
    assert!(scores.is_sorted_by(|left, right| left >= right) && scores.first() != scores.last());
    // Enough for the scores, and not for the documents.
    fixture.services.memory = WorkingMemory::simulated(160 << 10).unwrap();
    assert_eq!(ordered(&fixture), in_memory);
}

#[test]
fn scores_take_bounded_memory() {
    let mut fixture = many();
    fixture.services.memory = WorkingMemory::simulated(16 << 10).unwrap();
    let query = Arc::new(with_score(query(&doc! { "$text": { "$search": "cat" } })));
    let view = fixture.services.store.read_view();
    let target = Target::of(&fixture.collection);
    let mut executor = QueryExecutor::new(&fixture.services, view, target, query, &Uninterrupted).unwrap();
    let outcome = executor.next(&Uninterrupted).map(|row| row.is_some());
    assert!(matches!(outcome, Err(ExecutorError::MemoryLimit(_))), "{outcome:?}");
}
