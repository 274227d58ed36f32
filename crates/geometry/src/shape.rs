//! A shape on the sphere: points, lines and polygons together.

use crate::polygon::Polygon;
use crate::vector::{Vector, distance_to_arc};

/// What a shape consists of.
#[derive(Debug, Clone)]
pub enum Part {
    /// A single place.
    Point(Vector),
    /// Arcs from each vertex to the next; at least two vertices.
    Line(Vec<Vector>),
    /// An area.
    Polygon(Polygon),
}

/// What a shape was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ShapeKind {
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    GeometryCollection,
}

impl ShapeKind {
    /// By GeoJSON's name.
    pub fn parse(name: &str) -> Option<ShapeKind> {
        Some(match name {
            "Point" => ShapeKind::Point,
            "LineString" => ShapeKind::LineString,
            "Polygon" => ShapeKind::Polygon,
            "MultiPoint" => ShapeKind::MultiPoint,
            "MultiLineString" => ShapeKind::MultiLineString,
            "MultiPolygon" => ShapeKind::MultiPolygon,
            "GeometryCollection" => ShapeKind::GeometryCollection,
            _ => return None,
        })
    }

    /// Whether it is an area, or some.
    pub fn is_area(self) -> bool {
        matches!(self, ShapeKind::Polygon | ShapeKind::MultiPolygon)
    }
}

/// One part, which costs no allocation, or many.
#[derive(Debug, Clone)]
enum Parts {
    One(Part),
    Many(Vec<Part>),
}

/// A shape on the sphere.
#[derive(Debug, Clone)]
pub struct Shape {
    kind: ShapeKind,
    parts: Parts,
    is_strict: bool,
}

impl Shape {
    /// A point.
    pub fn point(point: Vector) -> Shape {
        Shape::one(ShapeKind::Point, Part::Point(point))
    }

    pub(crate) fn one(kind: ShapeKind, part: Part) -> Shape {
        Shape { kind, parts: Parts::One(part), is_strict: false }
    }

    pub(crate) fn many(kind: ShapeKind, parts: Vec<Part>) -> Shape {
        Shape { kind, parts: Parts::Many(parts), is_strict: false }
    }

    pub(crate) fn into_parts(self) -> Vec<Part> {
        match self.parts {
            Parts::One(part) => vec![part],
            Parts::Many(parts) => parts,
        }
    }

    /// The same as one whose winding counts.
    pub(crate) fn strict(self) -> Shape {
        Shape { is_strict: true, ..self }
    }

    /// What it was called.
    pub fn kind(&self) -> ShapeKind {
        self.kind
    }

    /// Whether its winding counts, so that it may be more than half of the sphere.
    pub fn is_strict(&self) -> bool {
        self.is_strict
    }

    /// What it consists of.
    pub fn parts(&self) -> &[Part] {
        match &self.parts {
            Parts::One(part) => std::slice::from_ref(part),
            Parts::Many(parts) => parts,
        }
    }

    /// The point, if it is one.
    pub fn as_point(&self) -> Option<Vector> {
        match &self.parts {
            Parts::One(Part::Point(point)) => Some(*point),
            _ => None,
        }
    }

    /// How far a point is from the nearest of it, in radians.
    pub fn distance(&self, point: Vector) -> f64 {
        self.parts().iter().map(|part| part.distance(point)).fold(f64::INFINITY, f64::min)
    }
}

impl Part {
    /// Its edges.
    pub(crate) fn arcs(&self) -> Box<dyn Iterator<Item = (Vector, Vector)> + '_> {
        match self {
            Part::Point(_) => Box::new(std::iter::empty()),
            Part::Line(line) => Box::new(line.iter().zip(line.iter().skip(1)).map(|(a, b)| (*a, *b))),
            Part::Polygon(polygon) => Box::new(polygon.arcs()),
        }
    }

    fn distance(&self, point: Vector) -> f64 {
        match self {
            Part::Point(own) => own.angle_to(point),
            Part::Line(line) => {
                document::work::count(line.len());
                self.arcs().map(|(a, b)| distance_to_arc(point, a, b)).fold(f64::INFINITY, f64::min)
            }
            Part::Polygon(polygon) => polygon.distance(point),
        }
    }
}
