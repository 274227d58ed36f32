//! A closed line on the sphere, and on which side of it a point is.
//!
//! A ring parts the sphere in two. Its inside is the smaller one, or, where winding counts, the one on the left.
//! Whether a point is inside is told by how often an arc to a reference point crosses the ring. Whether the reference
//! point is, the sum of the solid angles of the triangles from its antipode tells: no such triangle has the reference
//! point in it, so the sum is the area on the left, less all of the sphere if the reference point is there.

use std::f64::consts::PI;

use crate::cap::Cap;
use crate::vector::{Vector, is_on_arc, side, solid_angle};

/// A ring without the repeated first vertex; at least three.
#[derive(Debug, Clone)]
pub struct Ring {
    vertices: Vec<Vector>,
    reference: Vector,
    has_reference: bool,
    /// Has all of its inside, if that is less than half of the sphere.
    bound: Option<Cap>,
}

/// Which side of a ring is its inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Winding {
    /// The smaller one.
    Any,
    /// The one on the left.
    Strict,
}

/// Where a point is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Place {
    Inside,
    Outside,
    Border,
}

/// Where no edges are expected; of several the first that is on no edge's great circle.
const REFERENCES: [Vector; 3] = [
    Vector { x: -0.009_999_466_435_025_02, y: 0.002_592_454_260_932_4, z: 0.999_946_643_502_502 },
    Vector { x: 0.577_213_391_201_741_3, y: -0.612_374_871_209_32, z: -0.540_173_962_004_137 },
    Vector { x: -0.731_046_820_113_572, y: 0.413_905_477_321_66, z: -0.542_381_905_527_83 },
];

/// A reference point that is nearer to an edge is not taken.
const APART: f64 = 1e-6;

impl Ring {
    /// The ring of these vertices.
    pub fn new(vertices: Vec<Vector>, winding: Winding) -> Ring {
        let mut ring = Ring { vertices, reference: REFERENCES[0], has_reference: false, bound: None };
        let is_apart =
            |reference: &&Vector| ring.arcs().all(|(a, b)| side(a, b, **reference) != 0 && !is_near(**reference, a, b));
        ring.reference = REFERENCES.iter().find(is_apart).copied().unwrap_or(REFERENCES[0]);
        let apex = ring.reference.antipode();
        let sum: f64 = ring.arcs().map(|(a, b)| solid_angle(apex, a, b)).sum();
        let left = if sum >= 0.0 { sum } else { sum + 4.0 * PI };
        let is_left_inside = winding == Winding::Strict || left <= 2.0 * PI;
        ring.has_reference = (sum < 0.0) == is_left_inside;
        if winding == Winding::Any || left <= 2.0 * PI {
            ring.bound = ring.cap_of_vertices();
        }
        ring
    }

    /// The vertices, each once.
    pub fn vertices(&self) -> &[Vector] {
        &self.vertices
    }

    /// The edges, the last of which leads back to the first vertex.
    pub(crate) fn arcs(&self) -> impl Iterator<Item = (Vector, Vector)> + '_ {
        let nexts = self.vertices.iter().cycle().skip(1);
        self.vertices.iter().zip(nexts).map(|(a, b)| (*a, *b))
    }

    /// Where a point is.
    pub fn place(&self, point: Vector) -> Place {
        if self.bound.is_some_and(|bound| !bound.has(point)) {
            return Place::Outside;
        }
        document::work::count(self.vertices.len() / 4);
        let mut is_inside = self.has_reference;
        for (a, b) in self.arcs() {
            if is_on_arc(point, a, b) {
                return Place::Border;
            }
            is_inside ^= self.is_crossed(point, a, b);
        }
        if is_inside { Place::Inside } else { Place::Outside }
    }

    /// Whether the arc from a point to the reference crosses an edge. A vertex on the arc counts as left of it, so
    /// that the edges that meet there are crossed once or not at all.
    fn is_crossed(&self, point: Vector, a: Vector, b: Vector) -> bool {
        let on_left = |vertex| side(point, self.reference, vertex) >= 0;
        let is_left = on_left(a);
        if is_left == on_left(b) {
            return false;
        }
        let sign = if is_left { 1 } else { -1 };
        side(a, b, point) == -sign && side(a, b, self.reference) == sign
    }

    fn cap_of_vertices(&self) -> Option<Cap> {
        let zero = Vector { x: 0.0, y: 0.0, z: 0.0 };
        let center = self.vertices.iter().fold(zero, |sum, vertex| sum.plus(*vertex)).normalized()?;
        let radius = self.vertices.iter().map(|vertex| center.angle_to(*vertex)).fold(0.0, f64::max);
        // A cap of less than half of the sphere has with two points the arc between them.
        (radius < PI / 2.0 - 1e-9).then_some(Cap { center, radius: radius + 1e-14 })
    }

    /// A point of the inside that is not on the border: the middle of a diagonal, or of a triangle.
    pub(crate) fn inner_point(&self) -> Option<Vector> {
        let count = self.vertices.len();
        let at = |position: usize| self.vertices.get(position % count).copied();
        if let [a, b, c] = *self.vertices {
            return a.plus(b).plus(c).normalized();
        }
        let middles = (0..count).filter_map(|start| Some(at(start)?.midpoint(at(start + 2)?)));
        middles.into_iter().find(|middle| self.place(*middle) == Place::Inside)
    }
}

fn is_near(point: Vector, a: Vector, b: Vector) -> bool {
    crate::vector::distance_to_arc(point, a, b) < APART
}
