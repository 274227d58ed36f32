//! Shapes by example; those of the manual's pages on `$queryStats` and `$querySettings` among them.

use bson::rawdoc;

use super::{Names, QueryShape};

fn shape(body: &bson::RawDocument) -> bson::Document {
    bson::Document::try_from(QueryShape::of("test", body).unwrap().unwrap().document()).unwrap()
}

#[test]
fn values_are_kinds_and_what_says_how_is_kept() {
    let body = rawdoc! {
        "find": "pizzaOrders", "filter": {"orderDate": {"$gt": bson::DateTime::from_millis(5)}},
        "sort": {"totalNumber": 1}, "hint": {"a": 1}, "batchSize": 5, "$db": "test",
    };
    let expected = bson::doc! {
        "cmdNs": {"db": "test", "coll": "pizzaOrders"}, "command": "find",
        "filter": {"orderDate": {"$gt": "?date"}}, "sort": {"totalNumber": 1},
    };
    assert_eq!(shape(&body), expected);
    let body = rawdoc! {
        "find": "c", "limit": 5, "projection": {"a": 1, "b.c": 0.0, "s": {"$slice": [1, 2]}, "t": {"$meta": "textScore"}},
        "filter": {
            "a": "x", "b": {"$in": [1, 2.5]}, "c": {"$in": [1, "x"]}, "$or": [{"d": null}, {"e": {"$not": {"$lt": 5}}}],
            "f": {"$elemMatch": {"g": true, "h": {"$exists": false}}}, "i": {"$elemMatch": {"$gt": 1}}, "$comment": "no",
            "$expr": {"$gt": ["$a.b", {"$add": [1, "$$x.y"]}]}, "j": {"k": 1}, "l": [],
        },
    };
    let filter = bson::doc! {
        "a": {"$eq": "?string"}, "b": {"$in": "?array<?number>"}, "c": {"$in": "?array<>"},
        "$or": [{"d": {"$eq": "?null"}}, {"e": {"$not": {"$lt": "?number"}}}],
        "f": {"$elemMatch": {"g": {"$eq": "?bool"}, "h": {"$exists": "?bool"}}},
        "i": {"$elemMatch": {"$gt": "?number"}},
        "$expr": {"$gt": ["$a.b", {"$add": ["?number", "$$x.y"]}]}, "j": {"$eq": "?object"}, "l": {"$eq": "[]"},
    };
    let shape = shape(&body);
    assert_eq!(shape.get_document("filter").unwrap(), &filter);
    assert_eq!(shape.get_str("limit").unwrap(), "?number");
    let projection = bson::doc! {
        "a": true, "b.c": false, "s": {"$slice": ["?number", "?number"]}, "t": {"$meta": "textScore"},
    };
    assert_eq!(shape.get_document("projection").unwrap(), &projection);
}

#[test]
fn stages_keep_their_paths() {
    let body = rawdoc! {
        "aggregate": "c",
        "pipeline": [
            {"$match": {"size": "medium"}},
            {"$lookup": {"from": "d", "localField": "a", "foreignField": "b", "as": "e", "pipeline": [{"$limit": 3}]}},
            {"$unwind": "$e"},
            {"$group": {"_id": "$type", "total": {"$sum": "$n"}, "count": {"$sum": 1}}},
            {"$project": {"total": 1, "twice": {"$multiply": ["$total", 2]}}},
            {"$sort": {"total": -1}},
            {"$merge": {"into": "out", "on": ["a"], "whenMatched": "keepExisting"}},
        ],
        "cursor": {},
    };
    let expected = bson::bson!([
        {"$match": {"size": {"$eq": "?string"}}},
        {"$lookup": {"from": "d", "localField": "a", "foreignField": "b", "as": "e", "pipeline": [{"$limit": "?number"}]}},
        {"$unwind": "$e"},
        {"$group": {"_id": "$type", "total": {"$sum": "$n"}, "count": {"$sum": "?number"}}},
        {"$project": {"total": true, "twice": {"$multiply": ["$total", "?number"]}}},
        {"$sort": {"total": -1}},
        {"$merge": {"into": "out", "on": ["a"], "whenMatched": "keepExisting"}},
    ]);
    assert_eq!(shape(&body).get("pipeline").unwrap(), &expected);
}

#[test]
fn a_shape_tells_queries_apart_by_what_they_ask() {
    let hash = |body: bson::RawDocumentBuf| QueryShape::of("test", &body).unwrap().map(|shape| shape.hash());
    let one = hash(rawdoc! {"find": "c", "filter": {"x": 1}});
    assert_eq!(one.as_ref().unwrap().len(), 64);
    assert_eq!(one, hash(rawdoc! {"find": "c", "filter": {"x": 100.5}, "hint": "x_1", "batchSize": 2}));
    assert_ne!(one, hash(rawdoc! {"find": "c", "filter": {"x": "1"}}));
    assert_ne!(one, hash(rawdoc! {"find": "c", "filter": {"y": 1}}));
    assert_ne!(one, hash(rawdoc! {"find": "d", "filter": {"x": 1}}));
    assert_eq!(hash(rawdoc! {"insert": "c"}), None);
}

#[test]
fn names_can_be_made_unreadable_afterwards() {
    let body = rawdoc! {
        "find": "c", "filter": {"a.b": {"$gt": 5}, "$expr": {"$eq": ["$a", "?number"]}}, "sort": {"a": 1}, "limit": 1,
    };
    let shape = QueryShape::of("test", &body).unwrap().unwrap();
    let made = |name: &str| format!("<{name}>");
    let hidden = bson::Document::try_from(&*shape.with_names(Names::Made(&made)).unwrap()).unwrap();
    let expected = bson::doc! {
        "cmdNs": {"db": "<test>", "coll": "<c>"}, "command": "find",
        "filter": {"<a>.<b>": {"$gt": "?number"}, "$expr": {"$eq": ["$<a>", "?number"]}},
        "sort": {"<a>": 1}, "limit": "?number",
    };
    assert_eq!(hidden, expected);
    assert_eq!(shape.with_names(Names::AsTheyAre).unwrap().as_bytes(), shape.document().as_bytes());
}
