//! Shapes in the plane: what `$box`, `$polygon` and `$center` ask for. Borders belong to them.

use robust::{Coord, orient2d};

/// A point in the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct FlatPoint {
    pub x: f64,
    pub y: f64,
}

impl FlatPoint {
    /// How far it is from another one.
    pub fn distance(self, other: FlatPoint) -> f64 {
        (self.x - other.x).hypot(self.y - other.y)
    }

    fn coordinates(self) -> Coord<f64> {
        Coord { x: self.x, y: self.y }
    }
}

/// A rectangle along the axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rectangle {
    /// The corner with the smaller numbers.
    pub low: FlatPoint,
    /// The one with the greater.
    pub high: FlatPoint,
}

/// A circle with all that is in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Circle {
    /// Its midst.
    pub center: FlatPoint,
    /// How far it reaches.
    pub radius: f64,
}

/// A polygon: a point is inside if a line from it to the left crosses the border an odd number of times.
#[derive(Debug, Clone, PartialEq)]
pub struct FlatPolygon {
    vertices: Vec<FlatPoint>,
}

impl Rectangle {
    /// Of two opposite corners.
    pub fn of_corners(one: FlatPoint, other: FlatPoint) -> Rectangle {
        Rectangle {
            low: FlatPoint { x: one.x.min(other.x), y: one.y.min(other.y) },
            high: FlatPoint { x: one.x.max(other.x), y: one.y.max(other.y) },
        }
    }

    /// Whether a point is in it.
    pub fn has(&self, point: FlatPoint) -> bool {
        (self.low.x..=self.high.x).contains(&point.x) && (self.low.y..=self.high.y).contains(&point.y)
    }

    /// Whether both have a point in common.
    pub(crate) fn meets(&self, other: &Rectangle) -> bool {
        self.low.x <= other.high.x
            && other.low.x <= self.high.x
            && self.low.y <= other.high.y
            && other.low.y <= self.high.y
    }

    pub(crate) fn contains(&self, other: &Rectangle) -> bool {
        self.has(other.low) && self.has(other.high)
    }

    pub(crate) fn center(&self) -> FlatPoint {
        FlatPoint { x: (self.low.x + self.high.x) / 2.0, y: (self.low.y + self.high.y) / 2.0 }
    }

    /// The same, larger by so much on each side.
    pub(crate) fn grown(&self, by: f64) -> Rectangle {
        Rectangle {
            low: FlatPoint { x: self.low.x - by, y: self.low.y - by },
            high: FlatPoint { x: self.high.x + by, y: self.high.y + by },
        }
    }

    /// How far a point is from the nearest of it.
    pub(crate) fn distance(&self, point: FlatPoint) -> f64 {
        let beside = |low: f64, high: f64, at: f64| (low - at).max(at - high).max(0.0);
        beside(self.low.x, self.high.x, point.x).hypot(beside(self.low.y, self.high.y, point.y))
    }

    /// How far a point is from the farthest of it.
    pub fn distance_to_farthest(&self, point: FlatPoint) -> f64 {
        let reach = |low: f64, high: f64, at: f64| (at - low).abs().max((high - at).abs());
        reach(self.low.x, self.high.x, point.x).hypot(reach(self.low.y, self.high.y, point.y))
    }

    /// Whether something of a line is in it.
    pub(crate) fn is_met_by(&self, a: FlatPoint, b: FlatPoint) -> bool {
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        let depths = |point: FlatPoint| {
            [point.x - self.low.x, self.high.x - point.x, point.y - self.low.y, self.high.y - point.y]
        };
        for (at_a, at_b) in depths(a).into_iter().zip(depths(b)) {
            match (at_a >= 0.0, at_b >= 0.0) {
                (true, true) => {}
                (false, false) => return false,
                (false, true) => from = from.max(at_a / (at_a - at_b)),
                (true, false) => to = to.min(at_a / (at_a - at_b)),
            }
        }
        from <= to + 1e-12
    }
}

impl Circle {
    /// Whether a point is in it.
    pub fn has(&self, point: FlatPoint) -> bool {
        self.center.distance(point) <= self.radius
    }
}

impl FlatPolygon {
    /// Of its vertices, the last of which is joined to the first.
    pub fn new(vertices: Vec<FlatPoint>) -> FlatPolygon {
        FlatPolygon { vertices }
    }

    pub(crate) fn edges(&self) -> impl Iterator<Item = (FlatPoint, FlatPoint)> + '_ {
        let nexts = self.vertices.iter().cycle().skip(1);
        self.vertices.iter().zip(nexts).map(|(a, b)| (*a, *b))
    }

    /// Whether a point is in it.
    pub fn has(&self, point: FlatPoint) -> bool {
        document::work::count(self.vertices.len() / 8);
        let mut is_inside = false;
        for (a, b) in self.edges() {
            let turn = orient2d(a.coordinates(), b.coordinates(), point.coordinates());
            if turn == 0.0 && Rectangle::of_corners(a, b).has(point) {
                return true;
            }
            // An end at the height of the point counts as below it, so that edges that meet there are crossed once or
            // not at all.
            if (a.y > point.y) != (b.y > point.y) && (turn > 0.0) == (b.y > a.y) {
                is_inside = !is_inside;
            }
        }
        is_inside
    }
}
