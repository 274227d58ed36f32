//! Against the crate `geo`. Seen from the midst of the sphere on a plane that touches it, arcs are straight lines:
//! what the crate says of the projected shapes in the plane must be what is said of shapes on the sphere.

use geo::{Contains, Coord, Distance, Haversine, Intersects, LineString, Point, Polygon as FlatArea};
use proptest::prelude::*;

use super::cells::star;
use crate::plane::{FlatPoint, FlatPolygon};
use crate::polygon::Polygon;
use crate::ring::{Ring, Winding};
use crate::shape::{Part, Shape, ShapeKind};
use crate::vector::{Vector, distance_to_arc};

/// Where a vector is on the plane that touches the sphere at `center`.
fn projected(center: Vector, point: Vector) -> Coord<f64> {
    let aside =
        if center.z.abs() < 0.9 { Vector { x: 0.0, y: 0.0, z: 1.0 } } else { Vector { x: 1.0, y: 0.0, z: 0.0 } };
    let east = aside.cross(center).normalized().unwrap();
    let north = center.cross(east);
    let depth = center.dot(point);
    Coord { x: east.dot(point) / depth, y: north.dot(point) / depth }
}

fn line(center: Vector, vertices: &[Vector]) -> LineString<f64> {
    LineString(vertices.iter().map(|vertex| projected(center, *vertex)).collect())
}

fn area(center: Vector, outer: &[Vector], hole: &[Vector]) -> FlatArea<f64> {
    FlatArea::new(line(center, outer), if hole.is_empty() { Vec::new() } else { vec![line(center, hole)] })
}

fn shape_of_area(outer: &[Vector], hole: &[Vector]) -> Shape {
    let hole = (!hole.is_empty()).then(|| Ring::new(hole.to_vec(), Winding::Any));
    let polygon = Polygon::new(Ring::new(outer.to_vec(), Winding::Any), hole);
    Shape::one(ShapeKind::Polygon, Part::Polygon(polygon))
}

/// Poles and the date line among them.
fn centers() -> impl Strategy<Value = Vector> {
    prop_oneof![
        (-180.0..180.0_f64, -90.0..90.0_f64).prop_map(|(x, y)| Vector::from_degrees(x, y)),
        prop::sample::select(vec![(0.0, 90.0), (0.0, -90.0), (180.0, 0.0), (-180.0, 70.0), (0.0, 0.0)])
            .prop_map(|(x, y)| Vector::from_degrees(x, y)),
    ]
}

fn radii() -> impl Strategy<Value = Vec<f64>> {
    prop_oneof![prop::collection::vec(0.05..0.6_f64, 3..10), prop::collection::vec(1e-6..1e-5_f64, 3..10),]
}

/// Near enough to `center` to be seen on its plane.
fn aside(center: Vector, turn: f64, radius: f64) -> Vector {
    let around = star(center, &[radius; 64]);
    around[(turn * 63.0) as usize]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn areas_contain_and_meet_what_they_do_in_the_plane(
        center in centers(),
        first in radii(),
        (scale, turn, off) in (0.05..1.5_f64, 0.0..1.0_f64, 0.0..0.5_f64),
        second in radii(),
        has_hole in any::<bool>(),
        ends in (0.0..1.0_f64, 0.0..0.8_f64, 0.0..1.0_f64, 0.0..0.8_f64),
    ) {
        let size = first.iter().copied().fold(0.0, f64::max);
        let least = first.iter().copied().fold(f64::INFINITY, f64::min);
        let outer = star(center, &first);
        // Within the narrowest of the star, whatever its corners.
        let hole = if has_hole { star(center, &[least * 0.1; 5]) } else { Vec::new() };
        let flat = area(center, &outer, &hole);
        let shape = shape_of_area(&outer, &hole);

        let beside = aside(center, turn, off * size);
        let widest = second.iter().copied().fold(0.0, f64::max);
        let other: Vec<f64> = second.iter().map(|radius| radius / widest * size * scale).collect();
        let other = star(beside, &other);
        prop_assume!(other.iter().all(|vertex| center.dot(*vertex) > 0.05));
        let (flat_other, shape_other) = (area(center, &other, &[]), shape_of_area(&other, &[]));
        prop_assert_eq!(shape.intersects(&shape_other).unwrap(), flat.intersects(&flat_other));
        prop_assert_eq!(shape.contains(&shape_other).unwrap(), flat.contains(&flat_other));
        prop_assert_eq!(shape_other.contains(&shape).unwrap(), flat_other.contains(&flat));

        let path = [aside(center, ends.0, ends.1 * size), aside(center, ends.2, ends.3 * size)];
        prop_assume!(path[0] != path[1]);
        let flat_path = line(center, &path);
        let shape_path = Shape::one(ShapeKind::LineString, Part::Line(path.to_vec()));
        prop_assert_eq!(shape.intersects(&shape_path).unwrap(), flat.intersects(&flat_path));
        prop_assert_eq!(shape.contains(&shape_path).unwrap(), flat.contains(&flat_path));
        for point in path {
            let flat_point = Point::from(projected(center, point));
            prop_assert_eq!(shape.contains(&Shape::point(point)).unwrap(), flat.contains(&flat_point));
        }
    }

    #[test]
    fn distances_are_those_of_haversines(
        (x, y) in (-180.0..180.0_f64, -90.0..90.0_f64),
        (other_x, other_y) in (-180.0..180.0_f64, -90.0..90.0_f64),
    ) {
        let own = Vector::from_degrees(x, y).angle_to(Vector::from_degrees(other_x, other_y));
        // The crate's earth is somewhat smaller.
        let haversine = Haversine.distance(Point::new(x, y), Point::new(other_x, other_y)) / 6_371_008.8;
        prop_assert!((own - haversine).abs() < 1e-6, "{own} {haversine}");
    }

    #[test]
    fn the_nearest_of_an_arc_is_nearer_than_others(a in centers(), b in centers(), point in centers(), part in 0.0..1.0_f64) {
        prop_assume!(a.plus(b).length() > 1e-3 && a != b);
        let along = Vector {
            x: a.x + (b.x - a.x) * part,
            y: a.y + (b.y - a.y) * part,
            z: a.z + (b.z - a.z) * part,
        };
        let along = along.normalized().unwrap();
        prop_assert!(distance_to_arc(point, a, b) <= point.angle_to(along) + 1e-12);
        prop_assert!(distance_to_arc(along, a, b) < 1e-12);
    }

    #[test]
    fn polygons_in_the_plane_have_what_the_crate_says(
        corners in prop::array::uniform3((-9.0..9.0_f64, -9.0..9.0_f64)),
        (x, y) in (-9.0..9.0_f64, -9.0..9.0_f64),
    ) {
        // Where a border crosses itself the crate counts differently: three corners never do.
        let flat = FlatArea::new(LineString(corners.map(|(x, y)| Coord { x, y }).to_vec()), Vec::new());
        let polygon = FlatPolygon::new(corners.map(|(x, y)| FlatPoint { x, y }).to_vec());
        prop_assert_eq!(polygon.has(FlatPoint { x, y }), flat.contains(&Point::new(x, y)));
    }
}
