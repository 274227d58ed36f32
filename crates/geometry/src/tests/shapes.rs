//! Poles, the date line, borders, large areas.

use bson::{RawDocumentBuf, doc};

use crate::parse::{Check, parse_geojson};
use crate::ring::{Place, Ring, Winding};
use crate::shape::Shape;
use crate::vector::Vector;
use crate::{Cap, EARTH_RADIUS_METRES};

fn shape(document: bson::Document) -> Shape {
    parse_geojson(&RawDocumentBuf::try_from(&document).unwrap(), Check::Full).unwrap()
}

fn area(ring: &[[i32; 2]]) -> Shape {
    let ring: Vec<Vec<i32>> = ring.iter().map(|pair| pair.to_vec()).collect();
    shape(doc! { "type": "Polygon", "coordinates": [ring] })
}

fn at(longitude: f64, latitude: f64) -> Shape {
    Shape::point(Vector::from_degrees(longitude, latitude))
}

#[test]
fn the_date_line_is_no_border() {
    let across = area(&[[170, -10], [-170, -10], [-170, 10], [170, 10], [170, -10]]);
    for (longitude, is_inside) in
        [(180.0, true), (-180.0, true), (175.0, true), (-175.0, true), (165.0, false), (0.0, false)]
    {
        assert_eq!(across.contains(&at(longitude, 1.0)).unwrap(), is_inside, "{longitude}");
    }
    assert!((Vector::from_degrees(180.0, 5.0).angle_to(Vector::from_degrees(-180.0, 5.0))) == 0.0);
}

#[test]
fn a_ring_around_a_pole_has_it_inside() {
    for sign in [1, -1] {
        let cap = area(&[[0, 70 * sign], [120, 70 * sign], [-120, 70 * sign], [0, 70 * sign]]);
        assert!(cap.contains(&at(33.0, 90.0 * f64::from(sign))).unwrap());
        assert!(cap.contains(&at(180.0, 89.0 * f64::from(sign))).unwrap());
        assert!(!cap.contains(&at(33.0, -90.0 * f64::from(sign))).unwrap());
        assert!(!cap.contains(&at(33.0, 10.0)).unwrap());
    }
}

#[test]
fn edges_are_arcs_of_great_circles() {
    // From one place of latitude 40 to another the arc goes further north.
    let wide = area(&[[-40, 0], [40, 0], [40, 40], [-40, 40], [-40, 0]]);
    assert!(wide.contains(&at(0.0, 46.0)).unwrap());
    assert!(!wide.contains(&at(0.0, 49.0)).unwrap());
}

#[test]
fn borders_belong_to_areas() {
    let square = area(&[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]);
    for (longitude, latitude) in [(0.0, 0.0), (10.0, 10.0), (5.0, 0.0), (0.0, 5.0), (10.0, 5.0)] {
        assert!(square.contains(&at(longitude, latitude)).unwrap(), "{longitude} {latitude}");
        assert!(square.intersects(&at(longitude, latitude)).unwrap());
    }
    let beside = area(&[[10, 0], [20, 0], [20, 10], [10, 10], [10, 0]]);
    assert!(square.intersects(&beside).unwrap());
    assert!(!square.contains(&beside).unwrap());
    assert!(square.contains(&square).unwrap());
    let along = shape(doc! { "type": "LineString", "coordinates": [[0, 0], [0, 10]] });
    assert!(square.contains(&along).unwrap());
}

#[test]
fn holes_are_outside() {
    let outer = vec![vec![0, 0], vec![10, 0], vec![10, 10], vec![0, 10], vec![0, 0]];
    let hole = vec![vec![3, 3], vec![3, 6], vec![6, 6], vec![6, 3], vec![3, 3]];
    let ring = shape(doc! { "type": "Polygon", "coordinates": [outer.clone(), hole.clone()] });
    assert!(!ring.contains(&at(4.0, 4.0)).unwrap());
    assert!(ring.contains(&at(1.0, 1.0)).unwrap());
    assert!(ring.contains(&at(3.0, 5.0)).unwrap());
    let whole = shape(doc! { "type": "Polygon", "coordinates": [outer] });
    assert!(whole.contains(&ring).unwrap());
    assert!(!ring.contains(&whole).unwrap());
    let plug = shape(doc! { "type": "Polygon", "coordinates": [hole] });
    assert!(!ring.contains(&plug).unwrap());
    assert!(ring.intersects(&plug).unwrap());
    let inner = area(&[[4, 4], [5, 4], [5, 5], [4, 5], [4, 4]]);
    assert!(!ring.intersects(&inner).unwrap());
    assert!(ring.contains(&ring).unwrap());
}

#[test]
fn an_area_is_the_smaller_side_unless_winding_counts() {
    let clockwise = vec![vec![0, 0], vec![0, 10], vec![10, 10], vec![10, 0], vec![0, 0]];
    let small = shape(doc! { "type": "Polygon", "coordinates": [clockwise.clone()] });
    assert!(small.contains(&at(5.0, 5.0)).unwrap());
    assert!(!small.contains(&at(50.0, 5.0)).unwrap());
    let system = doc! { "type": "name", "properties": { "name": "urn:x-mongodb:crs:strictwinding:EPSG:4326" } };
    let large = shape(doc! { "type": "Polygon", "coordinates": [clockwise], "crs": system });
    assert!(large.is_strict());
    assert!(!large.contains(&at(5.0, 5.0)).unwrap());
    assert!(large.contains(&at(50.0, 5.0)).unwrap());
    assert!(large.contains(&at(-175.0, -5.0)).unwrap());
    // Its border is inside, and so is all that is outside of the large one.
    let around = area(&[[-1, -1], [11, -1], [11, 11], [-1, 11], [-1, -1]]);
    assert!(!large.contains(&around).unwrap());
    assert!(large.intersects(&around).unwrap());
    assert!(!large.intersects(&area(&[[4, 4], [5, 4], [5, 5], [4, 4]])).unwrap());
}

/// Nearly half of the sphere, either way round.
#[test]
fn large_rings_know_their_inside() {
    for reversed in [false, true] {
        let mut vertices: Vec<Vector> = (0..8).map(|turn| Vector::from_degrees(f64::from(turn) * 45.0, 1.0)).collect();
        if reversed {
            vertices.reverse();
        }
        let ring = Ring::new(vertices, Winding::Any);
        assert_eq!(ring.place(Vector::from_degrees(10.0, 80.0)), Place::Inside);
        assert_eq!(ring.place(Vector::from_degrees(10.0, -80.0)), Place::Outside);
    }
}

#[test]
fn circles_have_arcs_only_as_a_whole() {
    let line = shape(doc! { "type": "LineString", "coordinates": [[-40, 40], [40, 40]] });
    let cap = |center: (f64, f64), degrees: f64| Cap {
        center: Vector::from_degrees(center.0, center.1),
        radius: degrees.to_radians(),
    };
    assert!(cap((0.0, 40.0), 35.0).contains(&line));
    assert!(!cap((0.0, 40.0), 25.0).contains(&line));
    // More than half of the sphere: the ends are in it, but not the midst of the line.
    let far = shape(doc! { "type": "LineString", "coordinates": [[-60, 0], [60, 0]] });
    assert!(!cap((180.0, 0.0), 130.0).contains(&far));
    assert!(cap((180.0, 0.0), 180.0).contains(&far));
    let square = area(&[[-10, -10], [10, -10], [10, 10], [-10, 10], [-10, -10]]);
    assert!(!cap((180.0, 0.0), 172.0).contains(&square));
    assert!(!cap((180.0, 0.0), 179.0).contains(&square));
    assert!(cap((0.0, 0.0), 15.0).contains(&square));
}

#[test]
fn the_nearest_counts() {
    let square = area(&[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]]);
    assert!(square.distance(Vector::from_degrees(5.0, 5.0)) == 0.0);
    let metres = square.distance(Vector::from_degrees(-1.0, 0.0)) * EARTH_RADIUS_METRES;
    assert!((metres - 111_319.0).abs() < 1.0, "{metres}");
    let metres = square.distance(Vector::from_degrees(-1.0, 5.0)) * EARTH_RADIUS_METRES;
    assert!((metres - 111_319.0 * 5_f64.to_radians().cos()).abs() < 20.0, "{metres}");
}
