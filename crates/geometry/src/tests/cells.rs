//! Cells have the numbers that S2 publishes, and coverings leave nothing out.

use proptest::prelude::*;

use crate::cap::Annulus;
use crate::cell::Cell;
use crate::covering::{CellLevels, Target, covering};
use crate::grid::Grid;
use crate::grid_covering::{PlaneTarget, grid_covering};
use crate::plane::{Circle, FlatPoint, FlatPolygon, Rectangle};
use crate::ring::{Ring, Winding};
use crate::shape::{Part, Shape, ShapeKind};
use crate::vector::Vector;
use crate::{Cap, Polygon};

/// From the tests of S2's libraries.
#[test]
fn cells_have_the_numbers_of_s2() {
    for (latitude, longitude, number) in [
        (49.703_498_679, 11.770_681_595, 0x47a1_cbd5_9552_2b39_u64),
        (55.685_376_759, 12.588_490_937, 0x4652_5318_b63b_e0f9),
        (45.486_546_517, -93.449_700_022, 0x52b3_0b71_698e_729d),
        (58.299_984_854, 23.049_300_056, 0x46ed_8886_cfad_da85),
        (34.364_439_040, 108.330_699_969, 0x3663_f18a_24cb_e857),
        (-30.694_551_352, -30.048_758_753, 0x010a_06c0_a948_cf5d),
        (-25.285_264_027, 133.823_116_966, 0x2b2b_fd07_6787_c5df),
    ] {
        let cell = Cell::of_point(Vector::from_degrees(longitude, latitude));
        assert_eq!(format!("{:x}", cell.number()), format!("{number:x}"));
    }
}

fn point() -> impl Strategy<Value = Vector> {
    prop_oneof![
        8 => (-180.0..180.0_f64, -90.0..90.0_f64).prop_map(|(x, y)| Vector::from_degrees(x, y)),
        1 => (-180.0..180.0_f64, prop::sample::select(vec![-90.0, 90.0, 0.0])).prop_map(|(x, y)| Vector::from_degrees(x, y)),
        1 => (prop::sample::select(vec![-180.0, 180.0, 0.0, 45.0, 90.0]), -90.0..90.0_f64)
            .prop_map(|(x, y)| Vector::from_degrees(x, y)),
    ]
}

/// Vertices around a point, so that edges do not cross.
pub(super) fn star(center: Vector, radii: &[f64]) -> Vec<Vector> {
    let aside =
        if center.z.abs() < 0.9 { Vector { x: 0.0, y: 0.0, z: 1.0 } } else { Vector { x: 1.0, y: 0.0, z: 0.0 } };
    let east = aside.cross(center).normalized().unwrap();
    let north = center.cross(east);
    let turn = std::f64::consts::TAU / radii.len() as f64;
    let vertex = |(number, radius): (usize, &f64)| {
        let (sin, cos) = (turn * number as f64).sin_cos();
        let (height, reach) = (radius.cos(), radius.sin());
        let at = |c: f64, e: f64, n: f64| c * height + (e * cos + n * sin) * reach;
        Vector { x: at(center.x, east.x, north.x), y: at(center.y, east.y, north.y), z: at(center.z, east.z, north.z) }
    };
    radii.iter().enumerate().map(vertex).collect()
}

fn shape() -> impl Strategy<Value = Shape> {
    let radii = prop_oneof![prop::collection::vec(0.001..0.02, 3..9), prop::collection::vec(0.1..1.4, 3..9)];
    prop_oneof![
        point().prop_map(Shape::point),
        prop::collection::vec(point(), 2..5).prop_map(|line| Shape::one(ShapeKind::LineString, Part::Line(line))),
        (point(), radii).prop_map(|(center, radii)| {
            let polygon = Polygon::new(Ring::new(star(center, &radii), Winding::Any), []);
            Shape::one(ShapeKind::Polygon, Part::Polygon(polygon))
        }),
    ]
}

fn is_covered(cells: &[Cell], point: Vector) -> bool {
    let number = Cell::of_point(point).number();
    cells.iter().any(|cell| (cell.range().0..=cell.range().1).contains(&number))
}

const LEVELS: CellLevels = CellLevels { coarsest: 0, finest: 23 };

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn coverings_have_all_of_a_shape(shape in shape(), points in prop::collection::vec(point(), 20)) {
        let cells = covering(Target::Shape(&shape), LEVELS, 20).unwrap();
        prop_assert!(cells.len() <= 24, "{} cells", cells.len());
        let own: Vec<Vector> = shape.parts().iter().flat_map(|part| part.arcs().flat_map(|(a, b)| [a, a.midpoint(b)])).collect();
        for point in points.into_iter().chain(own) {
            if shape.distance(point) < 1e-15 {
                prop_assert!(is_covered(&cells, point), "{point:?} of {shape:?}");
            }
        }
    }

    #[test]
    fn coverings_have_all_of_a_ring(center in point(), inner in 0.0..3.2_f64, width in 0.0..1.0_f64, points in prop::collection::vec(point(), 20)) {
        let annulus = Annulus { center, inner, outer: inner + width };
        let cells = covering(Target::Annulus(annulus), LEVELS, 20).unwrap();
        for point in points.into_iter().chain(star(center, &[inner, inner + width])) {
            if (inner..=inner + width).contains(&center.angle_to(point)) {
                prop_assert!(is_covered(&cells, point));
            }
        }
    }

    #[test]
    fn a_cell_is_in_its_parents(point in point(), level in 0..30_u8) {
        let leaf = Cell::of_point(point);
        let parent = leaf.parent(level);
        let (low, high) = parent.range();
        prop_assert!((low..=high).contains(&leaf.number()));
        prop_assert!(parent.has(point));
        prop_assert!(leaf.parent(level + 1) == parent.children().find(|child| child.has(leaf.center())).unwrap());
    }

    #[test]
    fn coverings_of_a_grid_have_all(
        bits in 1..=32_u8,
        numbers in prop::collection::vec((-180.0..180.0_f64, -180.0..180.0_f64), 3..12),
        radius in 0.0..200.0_f64,
        inner in 0.0..100.0_f64,
    ) {
        let grid = Grid { bits, ..Grid::default() };
        let points: Vec<FlatPoint> = numbers.iter().map(|(x, y)| FlatPoint { x: *x, y: *y }).collect();
        let rectangle = Rectangle::of_corners(points[0], points[1]);
        let polygon = FlatPolygon::new(points.clone());
        let circle = Circle { center: points[0], radius };
        let cap = Cap { center: Vector::from_degrees(points[0].x, points[0].y / 2.0), radius: radius / 100.0 };
        let rectangles = cap.rectangles();
        let in_cap = |point: FlatPoint| point.y.abs() <= 90.0 && cap.has(Vector::from_degrees(point.x, point.y));
        for (target, has) in [
            (PlaneTarget::Rectangles(&[rectangle]), &(|point| rectangle.has(point)) as &dyn Fn(FlatPoint) -> bool),
            (PlaneTarget::Polygon(&polygon), &|point| polygon.has(point)),
            (PlaneTarget::Ring(circle, inner), &|point| circle.has(point) && circle.center.distance(point) >= inner),
            (PlaneTarget::Rectangles(&rectangles), &in_cap),
        ] {
            let cells = grid_covering(&grid, target, 20).unwrap();
            for point in points.iter().copied().filter(|point| has(*point)) {
                let key = grid.cell(point).unwrap().first_key();
                prop_assert!(cells.iter().any(|cell| (cell.first_key()..=cell.last_key()).contains(&key)), "{point:?} {target:?}");
            }
        }
    }
}
