//! Key patterns: what `createIndexes` accepts, and its messages.

use bson::{Bson, RawDocumentBuf, doc};

use crate::{Direction, KeyError, KeyPattern};

fn parse(document: bson::Document) -> Result<KeyPattern, KeyError> {
    let raw: RawDocumentBuf = (&document).try_into().unwrap();
    KeyPattern::parse(&raw)
}

#[test]
fn accepted() {
    let pattern = parse(doc! {"a": 1, "b.c": -1.0, "d": 7i64}).unwrap();
    let directions: Vec<Direction> = pattern.fields().iter().map(|field| field.direction).collect();
    assert_eq!(directions, [Direction::Ascending, Direction::Descending, Direction::Ascending]);
    assert_eq!(pattern.fields()[1].path.as_str(), "b.c");
    assert_eq!(pattern.default_name(), "a_1_b.c_-1_d_7");
    assert_eq!(pattern, parse(doc! {"a": 2, "b.c": -3, "d": 1}).unwrap());
    assert_ne!(pattern, parse(doc! {"a": 1}).unwrap());
    assert!(parse(doc! {"_id": 1}).unwrap().is_id() && parse(doc! {"_id": 1.0}).unwrap().is_id());
    assert!(!parse(doc! {"_id": 1, "a": 1}).unwrap().is_id() && !parse(doc! {"a": 1}).unwrap().is_id());
    assert!(KeyPattern::id().is_id() && KeyPattern::id().default_name() == "_id_1");
    assert!(parse(doc! {"ref.$id": 1}).is_ok());
    let wildcard = parse(doc! {"a.$**": -1}).unwrap();
    assert!(wildcard.wildcard().is_some() && wildcard.default_name() == "a.$**_-1");
    assert_ne!(wildcard, parse(doc! {"$**": -1}).unwrap());
    let hashed = parse(doc! {"a": 1, "b": "hashed"}).unwrap();
    assert!(hashed.is_hashed() && hashed.default_name() == "a_1_b_hashed");
    assert_ne!(hashed, parse(doc! {"a": 1, "b": 1}).unwrap());
    assert!(!parse(doc! {"_id": "hashed"}).unwrap().is_id());
}

#[test]
fn refused() {
    let message = |document| parse(document).unwrap_err().to_string();
    assert_eq!(message(doc! {}), "Index keys cannot be empty.");
    assert_eq!(message(doc! {"a": 0}), "Values in the index key pattern cannot be 0.");
    assert_eq!(message(doc! {"a": f64::NAN}), "Values in the index key pattern cannot be NaN.");
    assert_eq!(
        message(doc! {"a": {"b": 1}}),
        "Values in v:2 index key pattern cannot be of type object. Only numbers > 0, numbers < 0, and strings are \
         allowed."
    );
    assert_eq!(message(doc! {"a": "wild"}), "Unknown index plugin 'wild'");
    assert_eq!(message(doc! {"": 1}), "Index keys cannot be an empty field.");
    assert_eq!(message(doc! {"a..b": 1}), "Index keys cannot contain an empty field.");
    assert_eq!(message(doc! {"a.": 1}), "Index keys cannot contain an empty field.");
    assert_eq!(message(doc! {"a.$b": 1}), "Index key contains an illegal field name: field name starts with '$'.");
    for plugin in ["geoHaystack", "columnstore"] {
        assert!(matches!(parse(doc! {"a": plugin}), Err(KeyError::NotImplemented(text)) if text.contains(plugin)));
    }
    assert!(parse(doc! {"$**": 1, "a": 1}).is_ok());
    for refused in [doc! {"a.$**": 1, "b.$**": 1}, doc! {"a.$**": 1, "b": "hashed"}] {
        assert!(matches!(parse(refused), Err(KeyError::CannotCreateIndex(_))));
    }
    assert!(matches!(parse(doc! {"a.$**": "text"}), Err(KeyError::CannotCreateIndex(_))));
    assert!(matches!(parse(doc! {"a": "text", "b": 1, "c": "text"}), Err(KeyError::CannotCreateIndex(_))));
    assert!(matches!(parse(doc! {"a": "text", "b": "hashed"}), Err(KeyError::CannotCreateIndex(_))));
    assert!(matches!(parse(doc! {"$**": "hashed"}), Err(KeyError::CannotCreateIndex(_))));
    assert!(matches!(parse(doc! {"a..$**": 1}), Err(KeyError::CannotCreateIndex(_))));
    let message = parse(doc! {"a": "hashed", "b": "hashed"}).unwrap_err().to_string();
    assert_eq!(message, "A maximum of one index field is allowed to be hashed but found 2");
    let many = (0..33).map(|field| (format!("f{field}"), Bson::Int32(1))).collect();
    assert_eq!(parse(many).unwrap_err(), KeyError::TooManyFields);
}
