//! Points on the sphere as vectors of length one, and what can be said of three of them.
//!
//! The side of an arc is exact for the numbers that there are. Lengths are right to about 1e-15: no more than some
//! nanometres on the earth.

use robust::{Coord3D, orient3d};

/// A point on the sphere.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub struct Vector {
    pub x: f64,
    pub y: f64,
    pub z: f64,
}

/// What is this near, in radians, is the same place: twelve nanometres on the earth.
pub(crate) const TOUCHES: f64 = 2e-15;

impl Vector {
    /// By longitude and latitude. Quarter turns are exact, so that the poles and the date line are one place each.
    pub fn from_degrees(longitude: f64, latitude: f64) -> Vector {
        let (sin_latitude, cos_latitude) = sin_cos_degrees(latitude);
        let (sin_longitude, cos_longitude) = sin_cos_degrees(longitude);
        Vector { x: cos_latitude * cos_longitude, y: cos_latitude * sin_longitude, z: sin_latitude }
    }

    /// Longitude and latitude.
    pub fn to_degrees(self) -> (f64, f64) {
        let latitude = self.z.atan2(self.x.hypot(self.y));
        (self.y.atan2(self.x).to_degrees(), latitude.to_degrees())
    }

    pub(crate) fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub(crate) fn plus(self, other: Vector) -> Vector {
        Vector { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }

    pub(crate) fn minus(self, other: Vector) -> Vector {
        Vector { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }

    pub(crate) fn cross(self, other: Vector) -> Vector {
        Vector {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        }
    }

    pub(crate) fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The other side of the sphere.
    #[must_use]
    pub fn antipode(self) -> Vector {
        Vector { x: -self.x, y: -self.y, z: -self.z }
    }

    /// On the sphere in this direction; `None` of nothing.
    pub(crate) fn normalized(self) -> Option<Vector> {
        let length = self.length();
        (length > 0.0).then(|| Vector { x: self.x / length, y: self.y / length, z: self.z / length })
    }

    /// The angle between both, in radians.
    pub fn angle_to(self, other: Vector) -> f64 {
        normal(self, other).length().atan2(self.dot(other))
    }

    /// Halfway to another one.
    pub(crate) fn midpoint(self, other: Vector) -> Vector {
        self.plus(other).normalized().unwrap_or(self)
    }
}

/// Twice half of the cross product, taken so that it is right for points that are near to one another, too.
fn normal(a: Vector, b: Vector) -> Vector {
    let doubled = a.plus(b).cross(b.minus(a));
    Vector { x: doubled.x / 2.0, y: doubled.y / 2.0, z: doubled.z / 2.0 }
}

/// Sine and cosine, exact for multiples of a quarter turn.
fn sin_cos_degrees(degrees: f64) -> (f64, f64) {
    let quarters = (degrees / 90.0).round();
    let (sin, cos) = (degrees - quarters * 90.0).to_radians().sin_cos();
    match (quarters as i64).rem_euclid(4) {
        0 => (sin, cos),
        1 => (cos, -sin),
        2 => (-sin, -cos),
        _ => (-cos, sin),
    }
}

/// On which side of the great circle from `a` to `b` a point is: 1 on the left, -1 on the right, 0 on the circle.
pub(crate) fn side(a: Vector, b: Vector, point: Vector) -> i8 {
    let coordinates = |vector: Vector| Coord3D { x: vector.x, y: vector.y, z: vector.z };
    let origin = Coord3D { x: 0.0, y: 0.0, z: 0.0 };
    let determinant = orient3d(coordinates(a), coordinates(b), coordinates(point), origin);
    i8::from(determinant > 0.0) - i8::from(determinant < 0.0)
}

/// Whether two arcs cross, each at a point that is no end of either.
pub(crate) fn arcs_cross(a: Vector, b: Vector, c: Vector, d: Vector) -> bool {
    let side_of_c = side(a, b, c);
    if side_of_c == 0 || side(a, b, d) != -side_of_c {
        return false;
    }
    // Otherwise one crosses the other's far side.
    side(c, d, a) == -side_of_c && side(c, d, b) == side_of_c
}

/// Whether two arcs have a point in common.
pub(crate) fn arcs_touch(a: Vector, b: Vector, c: Vector, d: Vector) -> bool {
    arcs_cross(a, b, c, d) || is_on_arc(c, a, b) || is_on_arc(d, a, b) || is_on_arc(a, c, d) || is_on_arc(b, c, d)
}

/// Whether a point is on an arc.
pub(crate) fn is_on_arc(point: Vector, a: Vector, b: Vector) -> bool {
    // Most are not, and that is told by the nearer end alone.
    let reach = a.minus(b).length() + 1e-14;
    if point.minus(a).length() > reach * std::f64::consts::SQRT_2 {
        return false;
    }
    distance_to_arc(point, a, b) <= TOUCHES
}

/// How far a point is from the nearest of an arc, in radians.
pub(crate) fn distance_to_arc(point: Vector, a: Vector, b: Vector) -> f64 {
    let ends = point.angle_to(a).min(point.angle_to(b));
    let normal = normal(a, b);
    let length = normal.length();
    // Between the planes through both ends that stand upright on the arc.
    let is_beside = normal.cross(a).dot(point) >= 0.0 && b.cross(normal).dot(point) >= 0.0;
    if length == 0.0 || !is_beside {
        return ends;
    }
    (point.dot(normal) / length).abs().min(1.0).asin().min(ends)
}

/// The solid angle of a triangle; negative when it goes round to the right.
pub(crate) fn solid_angle(a: Vector, b: Vector, c: Vector) -> f64 {
    let volume = a.dot(normal(b, c));
    2.0 * volume.atan2(1.0 + a.dot(b) + b.dot(c) + c.dot(a))
}
