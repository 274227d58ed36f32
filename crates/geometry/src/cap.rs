//! Circles on the sphere, and rings between two of them.

use crate::plane::{FlatPoint, Rectangle};
use crate::shape::{Part, Shape};
use crate::vector::{Vector, distance_to_arc};

/// Degrees that numbers may be off by.
const SLACK_DEGREES: f64 = 1e-9;

/// All that is within an angle of a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cap {
    /// The point.
    pub center: Vector,
    /// The angle in radians; that of half a turn and more is everything.
    pub radius: f64,
}

/// All whose angle to a point is between two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Annulus {
    /// The point.
    pub center: Vector,
    /// The smaller angle.
    pub inner: f64,
    /// The greater one.
    pub outer: f64,
}

impl Cap {
    /// Whether a point is in it.
    pub fn has(&self, point: Vector) -> bool {
        self.radius >= std::f64::consts::PI || self.center.angle_to(point) <= self.radius
    }

    /// Whether all of a shape is in it.
    pub fn contains(&self, shape: &Shape) -> bool {
        shape.parts().iter().all(|part| self.contains_part(part))
    }

    fn contains_part(&self, part: &Part) -> bool {
        if self.radius >= std::f64::consts::PI {
            return true;
        }
        match part {
            Part::Point(point) => self.has(*point),
            Part::Line(line) => line.windows(2).all(|pair| matches!(pair, [a, b] if self.contains_arc(*a, *b))),
            // One that goes around the cap has its border outside as well, so only its far side could be inside.
            Part::Polygon(polygon) => {
                polygon.arcs().all(|(a, b)| self.contains_arc(a, b)) && !polygon.contains(self.center.antipode())
            }
        }
    }

    /// The farthest of an arc is the nearest to the other side of the sphere.
    fn contains_arc(&self, a: Vector, b: Vector) -> bool {
        std::f64::consts::PI - distance_to_arc(self.center.antipode(), a, b) <= self.radius
    }
}

impl Cap {
    /// Rectangles of longitudes and latitudes that have all of it, by either name of the date line.
    pub fn rectangles(&self) -> Vec<Rectangle> {
        let (longitude, latitude) = self.center.to_degrees();
        let radius = self.radius.min(std::f64::consts::PI).to_degrees() + SLACK_DEGREES;
        let (south, north) = ((latitude - radius).max(-90.0), (latitude + radius).min(90.0));
        let rectangle = |west: f64, east: f64| Rectangle {
            low: FlatPoint { x: west, y: south },
            high: FlatPoint { x: east, y: north },
        };
        let sine = radius.to_radians().sin() / latitude.to_radians().cos();
        if radius >= 90.0 || south <= -90.0 || north >= 90.0 || sine >= 1.0 {
            return vec![rectangle(-180.0, 180.0)];
        }
        let reach = sine.asin().to_degrees() + SLACK_DEGREES;
        let (west, east) = (longitude - reach, longitude + reach);
        let mut found = vec![rectangle(west.max(-180.0), east.min(180.0))];
        if west <= -180.0 {
            found.push(rectangle(west + 360.0, 180.0));
        }
        if east >= 180.0 {
            found.push(rectangle(-180.0, east - 360.0));
        }
        found
    }
}
