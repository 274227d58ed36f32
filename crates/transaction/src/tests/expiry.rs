//! TTL indexes.

use std::time::Duration;

use bson::{DateTime, rawdoc};

use super::fixture::*;

#[test]
fn expired_documents_are_deleted_and_others_kept() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    for (name, key) in [("up", rawdoc! { "up": 1 }), ("down", rawdoc! { "down": -1 })] {
        let index = rawdoc! { "key": key, "name": name, "expireAfterSeconds": 60 };
        fixture.create_index(&collection, index).unwrap();
    }
    let now = platform::Clock::wall_millis(&*fixture.clock);
    let date = |seconds: i64| DateTime::from_millis(now + seconds * 1_000);
    let documents = [
        rawdoc! { "_id": 0, "up": date(-61) },
        rawdoc! { "_id": 1, "up": date(-59) },
        rawdoc! { "_id": 2, "down": date(-3_600) },
        rawdoc! { "_id": 3, "down": date(3_600) },
        rawdoc! { "_id": 4, "up": "2001-01-01", "down": 7 },
        rawdoc! { "_id": 5, "up": [date(10), date(-100)] },
        rawdoc! { "_id": 6, "up": DateTime::MIN },
        rawdoc! { "_id": 7, "up": DateTime::MAX },
    ];
    for document in documents {
        fixture.insert(&collection, document).unwrap();
    }
    let pass = fixture.store.ttl_pass(&mut fixture.context).unwrap();
    assert_eq!((pass.indexes, pass.deleted), (2, 4));
    assert_eq!(contents(&fixture.store, &collection).into_keys().collect::<Vec<_>>(), [1, 3, 4, 7]);
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.store.ttl_pass(&mut fixture.context).unwrap().deleted, 1);
    assert_sound(&fixture.store);
}

#[test]
fn many_documents_of_one_date_go_in_batches() {
    let mut fixture = Fixture::new();
    let collection = fixture.collection("db.c");
    let index = rawdoc! { "key": { "at": 1 }, "name": "at_1", "expireAfterSeconds": 0 };
    fixture.create_index(&collection, index).unwrap();
    for id in 0..2_500 {
        let at = DateTime::from_millis(1_000 * i64::from(id / 1_200));
        fixture.insert(&collection, rawdoc! { "_id": id, "at": at }).unwrap();
    }
    assert_eq!(fixture.store.ttl_pass(&mut fixture.context).unwrap().deleted, 2_500);
    assert_eq!(collection.counts().documents(), 0);
    let figures = fixture.store.expiry_statistics();
    assert_eq!((figures.passes, figures.deleted), (1, 2_500));
    fixture.clock.advance(Duration::from_secs(90));
    assert!(fixture.store.expiry_statistics().lag.is_some_and(|lag| lag >= Duration::from_secs(90)));
    assert_sound(&fixture.store);
}
