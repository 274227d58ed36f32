//! Indexes of places against scans of the collection, and `$near` against sorting by distance: at random, with poles,
//! the date line and antipodes.

use std::sync::Arc;

use bson::{Bson, Document, doc};
use planner::{Hint, Purpose, ScanDirection};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::fixture::{Fixture, drain, query, raw};
use crate::QueryExecutor;
use query_language::filter::{Filter, FilterOptions};

/// Numbers that make places meet.
fn longitude() -> impl Strategy<Value = f64> {
    prop_oneof![4 => -180.0..180.0_f64, 2 => select(vec![-180.0, 180.0, 179.9, -179.9, 0.0, 90.0]), 4 => -3.0..3.0_f64]
}

fn latitude() -> impl Strategy<Value = f64> {
    prop_oneof![4 => -90.0..90.0_f64, 2 => select(vec![-90.0, 90.0, 89.9, -89.9, 0.0]), 4 => -3.0..3.0_f64]
}

fn pair() -> impl Strategy<Value = Vec<f64>> {
    (longitude(), latitude()).prop_map(|(x, y)| vec![x, y])
}

/// A rectangle of degrees: simple, wherever it is.
fn ring() -> impl Strategy<Value = Vec<Vec<f64>>> {
    (-175.0..175.0_f64, -80.0..80.0_f64, 0.1..60.0_f64, 0.1..9.0_f64).prop_map(|(x, y, width, height)| {
        let wrapped = |x: f64| if x > 180.0 { x - 360.0 } else { x };
        let (east, north) = (wrapped(x + width), y + height);
        vec![vec![x, y], vec![east, y], vec![east, north], vec![x, north], vec![x, y]]
    })
}

fn geojson() -> BoxedStrategy<Document> {
    prop_oneof![
        3 => pair().prop_map(|at| doc! { "type": "Point", "coordinates": at }),
        1 => (pair(), pair()).prop_filter_map("antipodes", |(a, b)| {
            let apart = (a[0] - b[0]).abs();
            (a != b && !(179.0..=181.0).contains(&apart) && a[1].abs() < 89.0 && b[1].abs() < 89.0)
                .then(|| doc! { "type": "LineString", "coordinates": [a, b] })
        }),
        1 => ring().prop_map(|ring| doc! { "type": "Polygon", "coordinates": [ring] }),
        1 => vec(pair(), 1..4).prop_map(|points| doc! { "type": "MultiPoint", "coordinates": points }),
    ]
    .boxed()
}

fn on_sphere() -> BoxedStrategy<Bson> {
    prop_oneof![
        6 => geojson().prop_map(Bson::Document),
        2 => pair().prop_map(Bson::from),
        1 => pair().prop_map(|at| Bson::Document(doc! { "lng": at[0], "lat": at[1] })),
        1 => vec(pair(), 0..4).prop_map(Bson::from),
        1 => vec(geojson(), 1..3).prop_map(Bson::from),
        1 => Just(Bson::Null),
    ]
    .boxed()
}

fn in_plane() -> BoxedStrategy<Bson> {
    prop_oneof![
        4 => pair().prop_map(Bson::from),
        1 => pair().prop_map(|at| Bson::Document(doc! { "x": at[0], "y": at[1] })),
        1 => vec(pair(), 0..4).prop_map(Bson::from),
        1 => Just(Bson::Null),
    ]
    .boxed()
}

fn area_on_sphere() -> BoxedStrategy<Document> {
    let strict = doc! { "type": "name", "properties": { "name": "urn:x-mongodb:crs:strictwinding:EPSG:4326" } };
    prop_oneof![
        2 => ring().prop_map(|ring| doc! { "$geoWithin": { "$geometry": { "type": "Polygon", "coordinates": [ring] } } }),
        1 => ring().prop_map(move |mut ring| {
            ring.reverse();
            let large = doc! { "type": "Polygon", "coordinates": [ring], "crs": strict.clone() };
            doc! { "$geoWithin": { "$geometry": large } }
        }),
        2 => geojson().prop_map(|shape| doc! { "$geoIntersects": { "$geometry": shape } }),
        2 => (pair(), 0.0..3.3_f64).prop_map(|(center, radius)| doc! { "$geoWithin": { "$centerSphere": [center, radius] } }),
        1 => (pair(), 0.0..0.05_f64).prop_map(|(center, radius)| doc! { "$geoWithin": { "$centerSphere": [center, radius] } }),
    ]
    .boxed()
}

fn area_in_plane() -> BoxedStrategy<Document> {
    prop_oneof![
        2 => (pair(), pair()).prop_map(|(a, b)| doc! { "$geoWithin": { "$box": [a, b] } }),
        2 => vec(pair(), 3..7).prop_map(|corners| doc! { "$geoWithin": { "$polygon": corners } }),
        2 => (pair(), 0.0..200.0_f64).prop_map(|(center, radius)| doc! { "$geoWithin": { "$center": [center, radius] } }),
        1 => (pair(), 0.0..3.3_f64).prop_map(|(center, radius)| doc! { "$geoWithin": { "$centerSphere": [center, radius] } }),
    ]
    .boxed()
}

fn fixture(indexes: &[Document], places: &[Bson]) -> Fixture {
    let mut fixture = Fixture::new();
    for (ordinal, index) in indexes.iter().enumerate() {
        let mut index = index.clone();
        index.insert("name", format!("i{ordinal}"));
        assert!(fixture.create_index(&index));
    }
    for (id, place) in places.iter().enumerate() {
        let id = id as i32;
        assert!(fixture.insert(&doc! { "_id": id, "at": place.clone(), "a": id % 3, "b": [id % 2, 7] }), "{place}");
    }
    fixture
}

fn ids(documents: &[bson::RawDocumentBuf]) -> Vec<i32> {
    documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

/// All plans of a filter find what the scan of the collection does; at least one is by the index.
fn check(fixture: &Fixture, filter: &Document) {
    let mut reference = query(filter);
    reference.hint = Hint::Natural(ScanDirection::Forward);
    let mut expected = ids(&drain(&mut fixture.executor(reference)));
    expected.sort_unstable();
    let view = fixture.services.store.read_view();
    let target = planner::Target { collection: &fixture.collection, view: &view, filter: None };
    let asked = Arc::new(query(filter));
    for plan in planner::candidates(&target, &asked, Purpose::Documents).unwrap() {
        let signature = plan.root.signature();
        assert!(!signature.starts_with("COLLSCAN"), "{signature} {filter}");
        let mut executor =
            QueryExecutor::with_plan(&fixture.services, view.clone(), &fixture.collection, asked.clone(), plan)
                .unwrap();
        let mut found = ids(&drain(&mut executor));
        found.sort_unstable();
        assert_eq!(found, expected, "{signature} {filter}");
    }
}

/// `$near` gives what there is, the nearest first.
fn check_near(fixture: &Fixture, near: &Document, extra: &Document) {
    let mut filter = doc! { "at": near.clone() };
    filter.extend(extra.clone());
    let options = FilterOptions::default().with_nearness();
    let parsed = Filter::parse(&raw(&filter), &options).unwrap();
    let mut all = query(&doc! {});
    all.hint = Hint::Natural(ScanDirection::Forward);
    let mut expected: Vec<(f64, i32)> = drain(&mut fixture.executor(all))
        .iter()
        .filter(|document| parsed.matches(document).unwrap())
        .filter_map(|document| {
            let nearest = parsed.near().unwrap().nearest(document).unwrap()?;
            Some((nearest.distance, document.get_i32("_id").unwrap()))
        })
        .collect();
    expected.sort_by(|left, right| left.0.total_cmp(&right.0).then(left.1.cmp(&right.1)));
    let mut asked = planner::CanonicalQuery::new(parsed);
    asked.passes_metadata.nearness = true;
    let mut executor = fixture.executor(asked);
    let mut found = Vec::new();
    while executor.next(&crate::Uninterrupted).unwrap().is_some_and(|row| {
        found.push(row.document.get_i32("_id").unwrap());
        true
    }) {
        assert!(executor.metadata().distance.is_some());
    }
    let expected: Vec<i32> = expected.into_iter().map(|(_, id)| id).collect();
    assert_eq!(found, expected, "{filter}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn areas_on_the_sphere_are_found(
        places in vec(on_sphere(), 1..25),
        index in select(vec![
            doc! { "key": { "at": "2dsphere" } },
            doc! { "key": { "at": "2dsphere", "a": 1, "b": -1 } },
            doc! { "key": { "at": "2dsphere" }, "2dsphereIndexVersion": 2, "finestIndexedLevel": 9, "coarsestIndexedLevel": 2 },
            doc! { "key": { "at": "2dsphere" }, "partialFilterExpression": { "a": { "$gte": 1 } } },
        ]),
        areas in vec(area_on_sphere(), 8),
        (center, min, max) in (pair(), 0.0..2e7_f64, 0.0..2.1e7_f64),
    ) {
        let fixture = fixture(&[index], &places);
        for area in &areas {
            check(&fixture, &doc! { "at": area.clone(), "a": 1 });
            check(&fixture, &doc! { "at": area.clone(), "b": 7, "a": { "$gte": 1 } });
        }
        let point = doc! { "type": "Point", "coordinates": center.clone() };
        let a = doc! { "a": { "$gte": 1 } };
        check_near(&fixture, &doc! { "$near": { "$geometry": point.clone() } }, &a);
        check_near(&fixture, &doc! { "$near": { "$geometry": point, "$minDistance": min, "$maxDistance": max } }, &a);
        check_near(&fixture, &doc! { "$nearSphere": center, "$maxDistance": max / 6.4e6 }, &a);
    }

    #[test]
    fn areas_in_the_plane_are_found(
        places in vec(in_plane(), 1..25),
        index in select(vec![
            doc! { "key": { "at": "2d" } },
            doc! { "key": { "at": "2d", "a": 1 } },
            doc! { "key": { "at": "2d" }, "bits": 3 },
            doc! { "key": { "at": "2d" }, "bits": 32, "min": -200, "max": 1000.5 },
        ]),
        areas in vec(area_in_plane(), 8),
        (center, min, max) in (pair(), 0.0..300.0_f64, 0.0..300.0_f64),
    ) {
        let fixture = fixture(&[index], &places);
        for area in &areas {
            check(&fixture, &doc! { "at": area.clone() });
            check(&fixture, &doc! { "at": area.clone(), "a": { "$in": [0, 2] } });
            check(&fixture, &doc! { "$or": [{ "at": area.clone() }, { "at": { "$geoWithin": { "$box": [[0, 0], [5, 5]] } } }] });
        }
        check_near(&fixture, &doc! { "$near": center.clone() }, &doc! {});
        check_near(&fixture, &doc! { "$near": center.clone(), "$minDistance": min, "$maxDistance": max }, &doc! { "a": 1 });
        check_near(&fixture, &doc! { "$nearSphere": center, "$maxDistance": max / 100.0 }, &doc! {});
    }
}

/// More than a ring may have, most of them at one place.
#[test]
fn very_many_neighbours_come_in_order() {
    let fixture = {
        let mut fixture = Fixture::new();
        assert!(fixture.create_index(&doc! { "key": { "at": "2d" }, "name": "i" }));
        for id in 0..12_500 {
            let x = if id % 5 == 0 { f64::from(id) / 1000.0 } else { 1.0 };
            assert!(fixture.insert(&doc! { "_id": id, "at": [x, 0.0] }));
        }
        fixture
    };
    check_near(&fixture, &doc! { "$near": [0, 0] }, &doc! {});
}
