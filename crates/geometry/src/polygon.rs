//! A polygon on the sphere: what is inside of its first ring and of none of the others. Its border belongs to it.

use crate::ring::{Place, Ring};
use crate::vector::{Vector, distance_to_arc};

/// One ring around, and holes.
#[derive(Debug, Clone)]
pub struct Polygon {
    /// At least one.
    rings: Vec<Ring>,
}

impl Polygon {
    /// Of an outer ring and holes.
    pub fn new(outer: Ring, holes: impl IntoIterator<Item = Ring>) -> Polygon {
        Polygon { rings: std::iter::once(outer).chain(holes).collect() }
    }

    /// All rings, the outer one first.
    pub fn rings(&self) -> &[Ring] {
        &self.rings
    }

    /// The edges of all rings.
    pub(crate) fn arcs(&self) -> impl Iterator<Item = (Vector, Vector)> + '_ {
        self.rings.iter().flat_map(Ring::arcs)
    }

    /// The vertices of all rings.
    pub(crate) fn vertices(&self) -> impl Iterator<Item = Vector> + '_ {
        self.rings.iter().flat_map(|ring| ring.vertices().iter().copied())
    }

    /// Where a point is.
    pub fn place(&self, point: Vector) -> Place {
        let mut rings = self.rings.iter();
        match rings.next().map(|outer| outer.place(point)) {
            None | Some(Place::Outside) => return Place::Outside,
            Some(Place::Border) => return Place::Border,
            Some(Place::Inside) => {}
        }
        let in_holes = rings.map(|hole| hole.place(point)).find(|place| *place != Place::Outside);
        match in_holes {
            None => Place::Inside,
            Some(Place::Border) => Place::Border,
            Some(_) => Place::Outside,
        }
    }

    /// Whether a point is in it or on its border.
    pub fn contains(&self, point: Vector) -> bool {
        self.place(point) != Place::Outside
    }

    /// How far a point is from it; 0 inside.
    pub(crate) fn distance(&self, point: Vector) -> f64 {
        if self.contains(point) {
            return 0.0;
        }
        document::work::count(self.vertices().count());
        self.arcs().map(|(a, b)| distance_to_arc(point, a, b)).fold(f64::INFINITY, f64::min)
    }
}
