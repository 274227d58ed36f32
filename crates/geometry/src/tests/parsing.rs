//! What is a shape, and why something is none.

use bson::{Bson, RawBsonRef, RawDocumentBuf, doc};

use crate::parse::{Check, parse_geojson, parse_location};
use crate::region::Region;
use crate::shape::ShapeKind;

fn parsed(document: bson::Document) -> Result<ShapeKind, String> {
    let raw = RawDocumentBuf::try_from(&document).unwrap();
    parse_geojson(&raw, Check::Full).map(|shape| shape.kind()).map_err(|error| error.to_string())
}

fn square(from: i32, to: i32) -> Bson {
    let corner = |x: i32, y: i32| Bson::from(vec![Bson::Int32(x), Bson::Int32(y)]);
    Bson::Array(vec![corner(from, from), corner(to, from), corner(to, to), corner(from, to), corner(from, from)])
}

#[test]
fn all_kinds_are_read() {
    for (document, kind) in [
        (doc! { "type": "Point", "coordinates": [1, 2] }, ShapeKind::Point),
        (doc! { "type": "Point", "coordinates": [1, 2, 800.5] }, ShapeKind::Point),
        (doc! { "type": "LineString", "coordinates": [[1, 2], [3, 4], [3, 4]] }, ShapeKind::LineString),
        (doc! { "type": "Polygon", "coordinates": [square(0, 9)] }, ShapeKind::Polygon),
        (doc! { "type": "Polygon", "coordinates": [square(0, 9), square(1, 2)] }, ShapeKind::Polygon),
        (doc! { "type": "MultiPoint", "coordinates": [[1, 2], [3, 4]] }, ShapeKind::MultiPoint),
        (doc! { "type": "MultiLineString", "coordinates": [[[1, 2], [3, 4]]] }, ShapeKind::MultiLineString),
        (doc! { "type": "MultiPolygon", "coordinates": [[square(0, 9)], [square(10, 12)]] }, ShapeKind::MultiPolygon),
        (
            doc! { "type": "GeometryCollection", "geometries": [
                { "type": "Point", "coordinates": [1, 2] },
                { "type": "MultiPoint", "coordinates": [[1, 2], [3, 4]] },
            ] },
            ShapeKind::GeometryCollection,
        ),
        (
            doc! { "type": "Point", "coordinates": [1, 2], "crs": { "type": "name", "properties": { "name": "EPSG:4326" } } },
            ShapeKind::Point,
        ),
    ] {
        assert_eq!(parsed(document.clone()), Ok(kind), "{document}");
    }
}

#[test]
fn what_is_no_shape_says_why() {
    for (document, reason) in [
        (doc! { "type": "Circle", "coordinates": [1, 2] }, "unknown GeoJSON type: Circle"),
        (doc! { "type": "Point" }, "must have an array \"coordinates\""),
        (doc! { "type": "Point", "coordinates": [1] }, "at least two numeric elements"),
        (doc! { "type": "Point", "coordinates": ["a", 2] }, "only contain numeric elements"),
        (doc! { "type": "Point", "coordinates": [f64::NAN, 2] }, "finite"),
        (doc! { "type": "Point", "coordinates": [181, 2] }, "longitude/latitude is out of bounds, lng: 181 lat: 2"),
        (doc! { "type": "Point", "coordinates": [1, -91] }, "longitude/latitude is out of bounds, lng: 1 lat: -91"),
        (doc! { "type": "LineString", "coordinates": [[1, 2], [1, 2]] }, "at least 2 vertices"),
        (doc! { "type": "LineString", "coordinates": [[0, 0], [180, 0]] }, "antipodal"),
        (doc! { "type": "Polygon", "coordinates": [] }, "Polygon has no loops."),
        (doc! { "type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]] }, "Loop is not closed"),
        (doc! { "type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 0]]] }, "at least 3 different vertices"),
        (doc! { "type": "Polygon", "coordinates": [[[0, 0], [9, 9], [9, 0], [0, 9], [0, 0]]] }, "Edges 0 and 2 cross"),
        (
            doc! { "type": "Polygon", "coordinates": [[[0, 0], [9, 0], [5, 5], [9, 9], [5, 5], [0, 9], [0, 0]]] },
            "Duplicate vertices: 2 and 4",
        ),
        (doc! { "type": "Polygon", "coordinates": [square(0, 9), square(20, 21)] }, "must be holes"),
        (doc! { "type": "Polygon", "coordinates": [square(0, 9), square(5, 12)] }, "crosses loop"),
        (doc! { "type": "MultiPoint", "coordinates": [] }, "at least 1 element"),
        (doc! { "type": "GeometryCollection", "geometries": [] }, "at least 1 element"),
        (
            doc! { "type": "GeometryCollection", "geometries": [{ "type": "GeometryCollection", "geometries": [] }] },
            "cannot be nested",
        ),
        (
            doc! { "type": "Point", "coordinates": [1, 2], "crs": { "type": "name", "properties": { "name": "EPSG:1" } } },
            "Unknown CRS name: EPSG:1",
        ),
    ] {
        let refused = parsed(document.clone()).expect_err(&document.to_string());
        assert!(refused.contains(reason), "{document}: {refused}");
    }
}

#[test]
fn pairs_are_places() {
    let place = |value: Bson| {
        let holder = RawDocumentBuf::try_from(&doc! { "v": value }).unwrap();
        let value = document::get_field(&holder, "v").unwrap();
        parse_location(value, Check::Full)
    };
    for (value, is_on_sphere) in [
        (Bson::from(vec![1.0, 2.0]), true),
        (Bson::from(doc! { "lng": 1, "lat": 2 }), true),
        (Bson::from(vec![1.0, 200.0]), false),
    ] {
        let found = place(value).unwrap();
        assert_eq!(found.flat.map(|point| point.x), Some(1.0));
        assert_eq!(found.shape.is_some(), is_on_sphere);
    }
    for value in [Bson::Int32(1), Bson::from(vec![1.0]), Bson::from("a"), Bson::from(doc! {}), Bson::Null] {
        assert!(place(value).is_err());
    }
    assert!(parse_location(RawBsonRef::Null, Check::Numbers).is_err());
}

#[test]
fn regions_are_read() {
    let region = |document: bson::Document| {
        Region::parse(&RawDocumentBuf::try_from(&document).unwrap()).map(|_| ()).map_err(|error| error.to_string())
    };
    for document in [
        doc! { "$box": [[0, 0], [1, 1]] },
        doc! { "$polygon": [[0, 0], [1, 1], [1, 0]] },
        doc! { "$polygon": { "a": { "x": 0, "y": 0 }, "b": [1, 1], "c": [1, 0] } },
        doc! { "$center": [[0, 0], 0] },
        doc! { "$centerSphere": [[0, 0], 0.1] },
        doc! { "$geometry": { "type": "Point", "coordinates": [0, 0] } },
    ] {
        assert_eq!(region(document.clone()), Ok(()), "{document}");
    }
    for (document, reason) in [
        (doc! { "$box": [[0, 0]] }, "Box must have exactly 2 points"),
        (doc! { "$polygon": [[0, 0], [1, 1]] }, "Polygon must have at least 3 points"),
        (doc! { "$center": [[0, 0], -1] }, "radius must be a non-negative number"),
        (doc! { "$center": [[0, 0]] }, "needs a point and a radius"),
        (doc! { "$centerSphere": [[0, 100], 1] }, "out of bounds"),
        (doc! { "$circle": [[0, 100], 1] }, "unknown geo specifier: $circle"),
        (doc! {}, "exactly one geometry"),
    ] {
        let refused = region(document.clone()).expect_err(&document.to_string());
        assert!(refused.contains(reason), "{document}: {refused}");
    }
}
