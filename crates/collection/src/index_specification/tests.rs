//! Index specifications: what is accepted, refused, and written back.

use bson::{RawDocumentBuf, rawdoc};
use index_key::KeyError;

use super::*;

fn parse(document: RawDocumentBuf) -> Result<IndexSpecification> {
    IndexSpecification::parse(&document)
}

#[test]
fn options_survive_the_round_trip() {
    let given = rawdoc! {
        "v": 2, "key": { "a": 1, "b.c": -1 }, "name": "a_1_b.c_-1", "unique": true, "hidden": true,
        "partialFilterExpression": { "a": { "$exists": true } },
    };
    let specification = parse(given.clone()).unwrap();
    assert_eq!(specification.to_document(), given);
    assert!(specification.enforces_uniqueness() && !specification.is_id_index());
    let expiring = rawdoc! { "v": 2, "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 3600 };
    assert_eq!(parse(expiring.clone()).unwrap().to_document(), expiring);
}

#[test]
fn bad_specifications_are_refused() {
    use CollectionError::*;
    assert!(matches!(parse(rawdoc! { "name": "x" }), Err(FailedToParse(_))));
    assert!(matches!(parse(rawdoc! { "key": { "a": 1 } }), Err(FailedToParse(_))));
    for key in [rawdoc! {}, rawdoc! { "a": 0 }, rawdoc! { "a": true }, rawdoc! { "a..b": 1 }] {
        let refused = parse(rawdoc! { "key": key.clone(), "name": "x" });
        assert!(matches!(refused, Err(IndexKey(KeyError::CannotCreateIndex(_)))), "{key:?}: {refused:?}");
    }
    let unique = parse(rawdoc! { "key": { "a": "hashed" }, "name": "x", "unique": true });
    assert!(matches!(unique, Err(IndexKey(KeyError::UniqueHashed))));
    let expiring = parse(rawdoc! { "key": { "a": "hashed" }, "name": "x", "expireAfterSeconds": 1 });
    assert!(matches!(expiring, Err(CannotCreateIndex(_))));
    for (option, value) in [("unique", bson::RawBson::Boolean(true)), ("expireAfterSeconds", bson::RawBson::Int32(1))] {
        let mut given = rawdoc! { "key": { "$**": 1 }, "name": "x" };
        given.append(bson::raw::CString::try_from(option).unwrap(), value);
        assert!(matches!(parse(given), Err(CannotCreateIndex(_))), "{option}");
    }
    let projected = |key: RawDocumentBuf, projection: RawDocumentBuf| {
        parse(rawdoc! { "key": key, "name": "x", "wildcardProjection": projection })
    };
    assert!(projected(rawdoc! { "$**": 1 }, rawdoc! { "a": 1, "b": { "c": true }, "_id": 0 }).is_ok());
    assert!(matches!(projected(rawdoc! { "a": 1 }, rawdoc! { "a": 1 }), Err(BadValue(_))));
    assert!(matches!(projected(rawdoc! { "a.$**": 1 }, rawdoc! { "a": 1 }), Err(FailedToParse(_))));
    // A field is either one of its own or below the wildcard.
    for key in [rawdoc! { "$**": 1, "b": 1 }, rawdoc! { "a.b": 1, "a.$**": 1 }, rawdoc! { "a.b.c": 1, "a.b.$**": 1 }] {
        assert!(matches!(parse(rawdoc! { "key": key, "name": "x" }), Err(CannotCreateIndex(_))));
    }
    assert!(projected(rawdoc! { "b": 1, "$**": 1 }, rawdoc! { "b": 0 }).is_ok());
    assert!(matches!(projected(rawdoc! { "b": 1, "$**": 1 }, rawdoc! { "b.c": 1 }), Err(CannotCreateIndex(_))));
    for projection in [rawdoc! {}, rawdoc! { "a": 1, "b": 0 }, rawdoc! { "a": "x" }, rawdoc! { "a..b": 1 }] {
        let refused = projected(rawdoc! { "$**": 1 }, projection);
        assert!(matches!(refused, Err(IndexKey(KeyError::FailedToParse(_)))), "{refused:?}");
    }
    let haystack = rawdoc! { "key": { "a": "geoHaystack" }, "name": "x" };
    assert!(matches!(parse(haystack), Err(IndexKey(KeyError::NotImplemented(_)))));
    assert!(matches!(parse(rawdoc! { "key": { "a": 1 }, "name": "x", "v": 1 }), Err(NotImplemented(_))));
    assert!(matches!(
        parse(rawdoc! { "key": { "a": 1 }, "name": "x", "uniq": true }),
        Err(InvalidIndexSpecificationOption(_))
    ));
    assert!(matches!(
        parse(rawdoc! { "key": { "a": 1, "b": 1 }, "name": "x", "expireAfterSeconds": 1 }),
        Err(CannotCreateIndex(_))
    ));
    assert!(matches!(
        parse(rawdoc! { "key": { "_id": 1 }, "name": "_id_", "unique": true }),
        Err(InvalidIndexSpecificationOption(_))
    ));
    assert!(matches!(
        parse(rawdoc! { "key": { "_id": 1 }, "name": "_id_", "expireAfterSeconds": 5 }),
        Err(InvalidIndexSpecificationOption(_))
    ));
    assert!(matches!(parse(rawdoc! { "key": { "a": 1 }, "name": "_id_" }), Err(BadValue(_))));
    for option in ["name", "collation", "v", "partialFilterExpression", "expireAfterSeconds"] {
        let mut given = rawdoc! { "key": { "a": 1 } };
        given.append(bson::raw::CString::try_from(option).unwrap(), bson::RawBson::Null);
        assert!(matches!(parse(given), Err(TypeMismatch(_) | CannotCreateIndex(_))), "{option}");
    }
}

#[test]
fn null_says_nothing_of_a_flag() {
    let nothing = bson::RawBson::Null;
    let given = rawdoc! {
        "key": { "a": 1 }, "name": "a_1", "unique": nothing.clone(), "sparse": nothing.clone(), "hidden": nothing.clone(),
        "background": nothing.clone(), "dropDups": nothing.clone(), "wildcardProjection": nothing,
    };
    assert_eq!(parse(given).unwrap().to_document(), rawdoc! { "v": 2, "key": { "a": 1 }, "name": "a_1" });
}

#[test]
fn the_id_index_has_its_name_whatever_it_is_asked_for_by() {
    for name in ["_id_", "_id_1", "x"] {
        let specification = parse(rawdoc! { "key": { "_id": 1 }, "name": name }).unwrap();
        assert!(specification.is_id_index() && specification.name == ID_INDEX_NAME);
    }
    assert!(matches!(parse(rawdoc! { "key": { "_id": -1 }, "name": "x" }), Err(CollectionError::BadValue(_))));
}

#[test]
fn background_is_kept_and_drop_dups_is_not() {
    let given = rawdoc! { "v": 2, "key": { "a": 1 }, "name": "a_1", "background": true };
    assert_eq!(parse(given.clone()).unwrap().to_document(), given);
    let given = rawdoc! { "key": { "a": 1 }, "name": "a_1", "dropDups": true };
    assert_eq!(parse(given).unwrap().to_document(), rawdoc! { "v": 2, "key": { "a": 1 }, "name": "a_1" });
}

#[test]
fn equal_and_conflicting_specifications_are_told_apart() {
    let base = parse(rawdoc! { "key": { "a": 1 }, "name": "a_1" }).unwrap();
    let relation = |document| parse(document).unwrap().compare_with(&base);
    assert_eq!(relation(rawdoc! { "key": { "a": 1.0 }, "name": "a_1", "background": true }).unwrap(), Relation::Same);
    assert_eq!(relation(rawdoc! { "key": { "a": -1 }, "name": "a_-1" }).unwrap(), Relation::Different);
    for other in [
        rawdoc! { "key": { "a": 1 }, "name": "a_1", "unique": true },
        rawdoc! { "key": { "a": 1 }, "name": "a_1", "sparse": true },
        rawdoc! { "key": { "a": 1 }, "name": "a_1", "partialFilterExpression": { "b": 1 } },
    ] {
        assert!(matches!(relation(other), Err(CollectionError::IndexKeySpecsConflict(_))));
    }
    for name in ["a_1", "other"] {
        let expiring = rawdoc! { "key": { "a": 1 }, "name": name, "expireAfterSeconds": 5 };
        assert!(matches!(relation(expiring), Err(CollectionError::IndexOptionsConflict(_))));
    }
    let partial = |filter: RawDocumentBuf, name: &str| {
        parse(rawdoc! { "key": { "a": 1 }, "name": name, "partialFilterExpression": filter }).unwrap()
    };
    let base_of = partial(rawdoc! { "b": 1 }, "p");
    let same = partial(rawdoc! { "b": { "$eq": 1.0 } }, "p");
    assert_eq!(same.compare_with(&base_of).unwrap(), Relation::Same);
    let same_elsewhere = partial(rawdoc! { "$and": [{ "b": 1 }] }, "q").compare_with(&base_of);
    assert!(matches!(same_elsewhere, Err(CollectionError::IndexOptionsConflict(_))));
    assert_eq!(partial(rawdoc! { "b": 2 }, "q").compare_with(&base_of).unwrap(), Relation::Different);
    assert_eq!(relation(rawdoc! { "key": { "a": 1 }, "name": "u", "unique": true }).unwrap(), Relation::Different);
    assert!(matches!(
        relation(rawdoc! { "key": { "b": 1 }, "name": "a_1" }),
        Err(CollectionError::IndexKeySpecsConflict(_))
    ));
    assert!(matches!(
        relation(rawdoc! { "key": { "a": 1 }, "name": "other" }),
        Err(CollectionError::IndexOptionsConflict(_))
    ));
}

#[test]
fn refusals_show_the_specification() {
    let message = |document| parse(document).unwrap_err().to_string();
    let unknown = message(rawdoc! { "key": { "a": 1 }, "name": "x", "uniq": true });
    assert!(unknown.contains("Specification: { key: { a: 1 }, name: \"x\", uniq: true }"), "{unknown}");
    let of_id = message(rawdoc! { "key": { "_id": 1 }, "name": "x", "unique": true });
    assert!(of_id.contains("Specification: { key: { _id: 1 }, name: \"x\", unique: true }"), "{of_id}");
    assert!(message(rawdoc! { "key": { "_id": -1 }, "name": "x" }).contains("{ _id: -1 }"));
}
