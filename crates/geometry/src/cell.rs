//! Cells of the sphere as S2 numbers them: six faces of a cube, each parted in four again and again.
//!
//! The number of a cell says its face, then for each level which of the four it is, along a curve on which neighbours
//! are mostly near to one another. All numbers of the cells in a cell are between two numbers. The edges of a cell are
//! arcs of great circles: on its face a cell is a rectangle, and so are the conditions for being in it linear.
//!
//! Source: s2geometry.io, "S2 Cells". Called by `covering`, `index_key` and `planner`.

use crate::vector::{Vector, distance_to_arc};

/// The level of the smallest cells, which are a centimetre wide.
pub const LEVEL_MAX: u8 = 30;

/// Of each orientation of the curve, the order of the four: two bits, of `i` and `j`.
const PLACES: [[u8; 4]; 4] = [[0, 1, 3, 2], [0, 2, 3, 1], [3, 2, 0, 1], [3, 1, 0, 2]];
/// How the orientation changes in each of the four.
const TURNS: [u8; 4] = [1, 0, 0, 3];

/// So much is a point beside a cell and still taken to be in it: numbers are rounded.
const SLACK: f64 = 1e-14;

/// A cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    face: u8,
    level: u8,
    /// The corner, in units of the smallest cells.
    i: u32,
    j: u32,
}

impl Cell {
    /// The six largest.
    pub fn faces() -> [Cell; 6] {
        [0, 1, 2, 3, 4, 5].map(|face| Cell { face, level: 0, i: 0, j: 0 })
    }

    /// The smallest cell that a point is in.
    pub fn of_point(point: Vector) -> Cell {
        let face = face_of(point);
        let (w, u, v) = on_face(face, point);
        Cell { face, level: LEVEL_MAX, i: unit_of(u / w), j: unit_of(v / w) }
    }

    /// How often its face is parted.
    pub fn level(self) -> u8 {
        self.level
    }

    /// The cell of a level that this one is in.
    #[must_use]
    pub fn parent(self, level: u8) -> Cell {
        let mask = !((1u32 << (LEVEL_MAX - level)) - 1);
        Cell { face: self.face, level, i: self.i & mask, j: self.j & mask }
    }

    /// Its four quarters; none of a smallest cell.
    pub fn children(self) -> impl Iterator<Item = Cell> {
        let half = 1u32 << LEVEL_MAX.saturating_sub(self.level + 1);
        let quarter = move |(i, j)| Cell { level: self.level + 1, i: self.i + i * half, j: self.j + j * half, ..self };
        let all = [(0, 0), (0, 1), (1, 0), (1, 1)];
        all.into_iter().map(quarter).take(if self.level < LEVEL_MAX { 4 } else { 0 })
    }

    /// Its number.
    pub fn number(self) -> i64 {
        let mut number = u64::from(self.face);
        let mut orientation = self.face & 1;
        for level in 0..self.level {
            let bit = u32::from(LEVEL_MAX - 1 - level);
            let place = ((self.i >> bit & 1) << 1 | (self.j >> bit & 1)) as u8;
            let order =
                PLACES.get(usize::from(orientation)).and_then(|places| places.iter().position(|at| *at == place));
            let position = order.unwrap_or_default();
            number = number << 2 | position as u64;
            orientation ^= TURNS.get(position).copied().unwrap_or_default();
        }
        // A one behind says where it ends.
        ((number << 1 | 1) << (2 * u32::from(LEVEL_MAX - self.level))).cast_signed()
    }

    /// The least and the greatest number of the cells in it, its own among them.
    pub fn range(self) -> (i64, i64) {
        let number = self.number();
        let below = (number & number.wrapping_neg()) - 1;
        (number - below, number + below)
    }

    /// The ends of its sides on its face: along `u`, then along `v`.
    fn sides(self) -> [f64; 4] {
        let width = 1u32 << (LEVEL_MAX - self.level);
        [coordinate_of(self.i), coordinate_of(self.i + width), coordinate_of(self.j), coordinate_of(self.j + width)]
    }

    /// Its corners, one after the other.
    pub(crate) fn corners(self) -> [Vector; 4] {
        let [u0, u1, v0, v1] = self.sides();
        [(u0, v0), (u1, v0), (u1, v1), (u0, v1)].map(|(u, v)| from_face(self.face, u, v))
    }

    /// A point in its midst.
    pub(crate) fn center(self) -> Vector {
        let [u0, u1, v0, v1] = self.sides();
        from_face(self.face, (u0 + u1) / 2.0, (v0 + v1) / 2.0)
    }

    /// How far inside of each of its sides a point is, about; not negative for what is in the cell.
    fn depths(self, point: Vector) -> [f64; 4] {
        let (w, u, v) = on_face(self.face, point);
        let [u0, u1, v0, v1] = self.sides();
        [u - u0 * w, u1 * w - u, v - v0 * w, v1 * w - v]
    }

    /// Whether a point is in it or beside it by no more than numbers are rounded.
    pub(crate) fn has(self, point: Vector) -> bool {
        self.depths(point).iter().all(|depth| *depth >= -SLACK)
    }

    /// Whether something of an arc is in it: what each side leaves of the arc is a piece.
    pub(crate) fn is_met_by(self, a: Vector, b: Vector) -> bool {
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for (at_a, at_b) in self.depths(a).into_iter().zip(self.depths(b)) {
            let (at_a, at_b) = (at_a + SLACK, at_b + SLACK);
            match (at_a >= 0.0, at_b >= 0.0) {
                (true, true) => {}
                (false, false) => return false,
                (false, true) => from = from.max(at_a / (at_a - at_b)),
                (true, false) => to = to.min(at_a / (at_a - at_b)),
            }
        }
        from <= to + SLACK
    }

    /// How far a point is from the nearest of it.
    pub(crate) fn distance(self, point: Vector) -> f64 {
        if self.has(point) {
            return 0.0;
        }
        let [a, b, c, d] = self.corners();
        let sides = [(a, b), (b, c), (c, d), (d, a)];
        sides.into_iter().map(|(from, to)| distance_to_arc(point, from, to)).fold(f64::INFINITY, f64::min)
    }

    /// How far a point is from the farthest of it.
    pub(crate) fn distance_to_farthest(self, point: Vector) -> f64 {
        std::f64::consts::PI - self.distance(point.antipode())
    }
}

fn face_of(point: Vector) -> u8 {
    let (x, y, z) = (point.x.abs(), point.y.abs(), point.z.abs());
    let (axis, value) = if x >= y && x >= z {
        (0, point.x)
    } else if y >= z {
        (1, point.y)
    } else {
        (2, point.z)
    };
    axis + if value < 0.0 { 3 } else { 0 }
}

/// A point in the directions of a face: away from the middle of the cube, and along both sides.
fn on_face(face: u8, point: Vector) -> (f64, f64, f64) {
    let Vector { x, y, z } = point;
    match face {
        0 => (x, y, z),
        1 => (y, -x, z),
        2 => (z, -x, -y),
        3 => (-x, -z, -y),
        4 => (-y, -z, x),
        _ => (-z, y, x),
    }
}

fn from_face(face: u8, u: f64, v: f64) -> Vector {
    let (x, y, z) = match face {
        0 => (1.0, u, v),
        1 => (-u, 1.0, v),
        2 => (-u, -v, 1.0),
        3 => (-1.0, -v, -u),
        4 => (v, -1.0, -u),
        _ => (v, u, -1.0),
    };
    let vector = Vector { x, y, z };
    vector.normalized().unwrap_or(vector)
}

/// The side of a face is parted so that cells of a level are about the same size.
fn coordinate_of(unit: u32) -> f64 {
    let part = f64::from(unit) / f64::from(1u32 << LEVEL_MAX);
    if part >= 0.5 { (4.0 * part * part - 1.0) / 3.0 } else { (1.0 - 4.0 * (1.0 - part) * (1.0 - part)) / 3.0 }
}

fn unit_of(coordinate: f64) -> u32 {
    let part = if coordinate >= 0.0 {
        0.5 * (1.0 + 3.0 * coordinate).sqrt()
    } else {
        1.0 - 0.5 * (1.0 - 3.0 * coordinate).sqrt()
    };
    let units = 1u32 << LEVEL_MAX;
    ((part * f64::from(units)).floor() as u32).min(units - 1)
}
