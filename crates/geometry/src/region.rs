//! What `$geoWithin` and `$geoIntersects` ask for: an area on the sphere or in the plane.
//!
//! ```text
//! {$geometry: GeoJSON}   {$centerSphere: [point, radians]}            on the sphere
//! {$box: [a, b]}   {$polygon: [a, b, c, ...]}   {$center: [point, r]} in the plane, for points alone
//! ```

use bson::{RawArray, RawBsonRef, RawDocument};
use document::{Interruption, Number, array_elements, elements, work};

use crate::cap::{Annulus, Cap};
use crate::cell::Cell;
use crate::covering::{CellLevels, Target, covering};
use crate::error::{Result, invalid};
use crate::grid::{Grid, GridCell};
use crate::grid_covering::{PlaneTarget, grid_covering};
use crate::parse::{Check, Location, on_sphere, parse_flat_point, parse_geojson};
use crate::plane::{Circle, FlatPoint, FlatPolygon, Rectangle};
use crate::shape::Shape;

/// An area.
#[derive(Debug, Clone)]
pub enum Region {
    /// `$geometry`.
    Shape(Shape),
    /// `$centerSphere`.
    Cap(Cap),
    /// `$box`.
    Rectangle(Rectangle),
    /// `$polygon`.
    Polygon(FlatPolygon),
    /// `$center`.
    Circle(Circle),
}

impl Region {
    /// Reads one operator with its operand: `$geometry` and the like.
    ///
    /// # Errors
    /// Why it makes no sense.
    pub fn parse(operators: &RawDocument) -> Result<Region> {
        let mut all = elements(operators);
        let (Some(element), None) = (all.next(), all.next()) else {
            return invalid("geo query doesn't have exactly one geometry");
        };
        match (element.name(), element.value()) {
            ("$geometry", RawBsonRef::Document(shape)) => Ok(Region::Shape(parse_geojson(shape, Check::Full)?)),
            ("$geometry", _) => invalid("$geometry must be an object"),
            ("$box", value) => parse_box(&points_of("$box", value)?),
            ("$polygon", value) => match points_of("$polygon", value)? {
                points if points.len() < 3 => invalid("Polygon must have at least 3 points"),
                points => Ok(Region::Polygon(FlatPolygon::new(points))),
            },
            ("$center", value) => {
                let (center, radius) = parse_circle("$center", value)?;
                Ok(Region::Circle(Circle { center, radius }))
            }
            ("$centerSphere", value) => {
                let (center, radius) = parse_circle("$centerSphere", value)?;
                Ok(Region::Cap(Cap { center: on_sphere(center)?, radius }))
            }
            (name, _) => invalid(format!("unknown geo specifier: {name}")),
        }
    }

    /// Whether all of what is at a place is in it.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn contains(&self, location: &Location) -> std::result::Result<bool, Interruption> {
        let in_plane = |has: &dyn Fn(FlatPoint) -> bool| location.flat.is_some_and(has);
        Ok(match self {
            Region::Shape(area) => match &location.shape {
                Some(shape) => area.contains(shape)?,
                None => false,
            },
            Region::Cap(cap) => location.shape.as_ref().is_some_and(|shape| cap.contains(shape)),
            Region::Rectangle(rectangle) => in_plane(&|point| rectangle.has(point)),
            Region::Polygon(polygon) => in_plane(&|point| polygon.has(point)),
            Region::Circle(circle) => in_plane(&|point| circle.has(point)),
        })
    }

    /// Whether both have something in common; only shapes are asked.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn intersects(&self, location: &Location) -> std::result::Result<bool, Interruption> {
        match (self, &location.shape) {
            (Region::Shape(area), Some(shape)) => area.intersects(shape),
            _ => Ok(false),
        }
    }

    /// Cells of the sphere that have all of it; `None` of what is in the plane.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn cells(&self, levels: CellLevels, cells_max: usize) -> std::result::Result<Option<Vec<Cell>>, Interruption> {
        let target = match self {
            Region::Shape(shape) => Target::Shape(shape),
            Region::Cap(cap) => Target::Annulus(Annulus { center: cap.center, inner: 0.0, outer: cap.radius }),
            _ => return Ok(None),
        };
        covering(target, levels, cells_max).map(Some)
    }

    /// Cells of a grid that have all points of it; `None` of shapes on the sphere but circles.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn grid_cells(
        &self,
        grid: &Grid,
        cells_max: usize,
    ) -> std::result::Result<Option<Vec<GridCell>>, Interruption> {
        work::step()?;
        let target = match self {
            Region::Rectangle(rectangle) => PlaneTarget::Rectangles(std::slice::from_ref(rectangle)),
            Region::Polygon(polygon) => PlaneTarget::Polygon(polygon),
            Region::Circle(circle) => PlaneTarget::Ring(*circle, 0.0),
            Region::Cap(cap) => {
                let rectangles = cap.rectangles();
                return grid_covering(grid, PlaneTarget::Rectangles(&rectangles), cells_max).map(Some);
            }
            Region::Shape(_) => return Ok(None),
        };
        grid_covering(grid, target, cells_max).map(Some)
    }
}

fn parse_box(corners: &[FlatPoint]) -> Result<Region> {
    match corners {
        [one, other] => Ok(Region::Rectangle(Rectangle::of_corners(*one, *other))),
        _ => invalid("Box must have exactly 2 points"),
    }
}

/// The points in an array, or in a document whatever they are called there.
fn points_of(name: &str, value: RawBsonRef<'_>) -> Result<Vec<FlatPoint>> {
    let items = match value {
        RawBsonRef::Array(array) => array_elements(array),
        RawBsonRef::Document(document) => elements(document),
        _ => return invalid(format!("{name} must be an array or object")),
    };
    let mut points = Vec::new();
    for item in items {
        work::step()?;
        points.push(parse_flat_point(item.value())?);
    }
    Ok(points)
}

fn parse_circle(name: &str, value: RawBsonRef<'_>) -> Result<(FlatPoint, f64)> {
    let RawBsonRef::Array(array) = value else { return invalid(format!("{name} must be an array: [point, radius]")) };
    let (center, radius) = two_of(array).map_or_else(|| invalid(format!("{name} needs a point and a radius")), Ok)?;
    let center = parse_flat_point(center)?;
    match Number::from_bson(radius).map(Number::to_f64) {
        Some(radius) if radius >= 0.0 => Ok((center, radius)),
        _ => invalid("radius must be a non-negative number"),
    }
}

fn two_of(array: &RawArray) -> Option<(RawBsonRef<'_>, RawBsonRef<'_>)> {
    let mut items = array_elements(array);
    let pair = (items.next()?.value(), items.next()?.value());
    items.next().is_none().then_some(pair)
}
