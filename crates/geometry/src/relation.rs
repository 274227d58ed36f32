//! Whether shapes on the sphere have something in common, and whether one is in another.
//!
//! Borders belong to shapes. An area contains a line whose ends and bends are in it and that nowhere leaves it; it
//! contains another area whose border it contains and in whose inside nothing of its own border lies.

use document::{Interruption, work};

use crate::polygon::Polygon;
use crate::ring::Place;
use crate::shape::{Part, Shape};
use crate::vector::{Vector, arcs_cross, arcs_touch, is_on_arc};

type Answer = Result<bool, Interruption>;

impl Shape {
    /// Whether both have a point in common.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn intersects(&self, other: &Shape) -> Answer {
        for own in self.parts() {
            for part in other.parts() {
                work::step()?;
                if parts_intersect(own, part)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Whether all of another shape is in it: each part of that in one area of this one.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn contains(&self, other: &Shape) -> Answer {
        for part in other.parts() {
            let mut is_inside = false;
            for own in self.parts() {
                work::step()?;
                if let Part::Polygon(area) = own
                    && area_contains(area, part)?
                {
                    is_inside = true;
                    break;
                }
            }
            if !is_inside {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn parts_intersect(left: &Part, right: &Part) -> Answer {
    match (left, right) {
        (Part::Point(point), other) | (other, Part::Point(point)) => Ok(has_point(other, *point)),
        (Part::Line(_), Part::Line(_)) => edges_touch(left, right),
        (Part::Line(line), Part::Polygon(area)) | (Part::Polygon(area), Part::Line(line)) => {
            let begins_inside = line.first().is_some_and(|vertex| area.contains(*vertex));
            Ok(begins_inside || edges_touch(left, right)?)
        }
        (Part::Polygon(first), Part::Polygon(second)) => {
            // Where no borders meet, each ring is as a whole in the other area or out of it.
            let is_in = |area: &Polygon, other: &Polygon| {
                other.rings().iter().any(|ring| ring.vertices().first().is_some_and(|vertex| area.contains(*vertex)))
            };
            Ok(is_in(first, second) || is_in(second, first) || edges_touch(left, right)?)
        }
    }
}

/// Whether a point is on or in a part.
fn has_point(part: &Part, point: Vector) -> bool {
    match part {
        Part::Point(own) => is_on_arc(point, *own, *own),
        Part::Line(_) => part.arcs().any(|(a, b)| is_on_arc(point, a, b)),
        Part::Polygon(area) => area.contains(point),
    }
}

fn edges_touch(left: &Part, right: &Part) -> Answer {
    let others: Vec<(Vector, Vector)> = right.arcs().collect();
    for (a, b) in left.arcs() {
        work::done(others.len())?;
        if others.iter().any(|(c, d)| arcs_touch(a, b, *c, *d)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn area_contains(area: &Polygon, part: &Part) -> Answer {
    if let Part::Point(point) = part {
        return Ok(area.contains(*point));
    }
    for (a, b) in part.arcs() {
        if !contains_arc(area, a, b)? {
            return Ok(false);
        }
    }
    let Part::Polygon(inner) = part else { return Ok(true) };
    // Beside a vertex of the border is something that is outside.
    for vertex in area.vertices() {
        work::step()?;
        if inner.place(vertex) == Place::Inside {
            return Ok(false);
        }
    }
    // All of a hole's vertices may be on the border of what is looked at.
    let holes = area.rings().iter().skip(1);
    Ok(!holes.filter_map(|hole| hole.inner_point()).any(|point| inner.place(point) == Place::Inside))
}

/// Whether an area contains an arc: both ends, no crossing of the border, and what is between two touches of it.
fn contains_arc(area: &Polygon, a: Vector, b: Vector) -> Answer {
    if !area.contains(a) || !area.contains(b) {
        return Ok(false);
    }
    let mut touches = Vec::new();
    for (c, d) in area.arcs() {
        work::step()?;
        if arcs_cross(a, b, c, d) {
            return Ok(false);
        }
        if is_on_arc(c, a, b) {
            touches.push(c);
        }
    }
    touches.sort_by(|left, right| left.angle_to(a).total_cmp(&right.angle_to(a)));
    let stops: Vec<Vector> = std::iter::once(a).chain(touches).chain([b]).collect();
    work::done(stops.len())?;
    let mut middles = stops.windows(2).filter_map(|pair| match pair {
        [from, to] => Some(from.midpoint(*to)),
        _ => None,
    });
    Ok(middles.all(|middle| area.contains(middle)))
}
