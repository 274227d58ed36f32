//! Shapes from documents: GeoJSON, and the pairs of numbers that were there before it.
//!
//! ```text
//! {type: "Point", coordinates: [longitude, latitude]}      and the other six kinds
//! [longitude, latitude]   {lng: longitude, lat: latitude}  a pair: two numbers, whatever they are called
//! ```
//!
//! Source: RFC 7946 and the manual's page on GeoJSON objects.

use bson::{RawArray, RawBsonRef, RawDocument};
use document::{Number, array_elements, elements, get_field, work};

use crate::check::check_polygon;
use crate::error::{Result, invalid};
use crate::plane::FlatPoint;
use crate::polygon::Polygon;
use crate::ring::{Ring, Winding};
use crate::shape::{Part, Shape, ShapeKind};
use crate::vector::Vector;

/// Whether rings are looked at for crossings, which takes longer than all else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Check {
    Full,
    /// For what is only compared: what is no polygon gets some answer.
    Numbers,
}

/// The value of a field, as a place in the plane and on the sphere.
#[derive(Debug, Clone)]
pub struct Location {
    /// The pair of numbers, if it is a point.
    pub flat: Option<FlatPoint>,
    /// On the sphere, if the numbers are longitudes and latitudes.
    pub shape: Option<Shape>,
}

/// The system of coordinates in which winding counts.
const STRICT_WINDING: &str = "urn:x-mongodb:crs:strictwinding:EPSG:4326";
/// Other names for what is meant when nothing is said.
const USUAL_SYSTEMS: [&str; 2] = ["urn:ogc:def:crs:OGC:1.3:CRS84", "EPSG:4326"];

/// Whether a document says of itself that it is GeoJSON.
pub fn is_geojson(document: &RawDocument) -> bool {
    matches!(get_field(document, "type"), Some(RawBsonRef::String(_)))
}

/// Reads what is in a field: either kind.
///
/// # Errors
/// Why it is neither.
pub fn parse_location(value: RawBsonRef<'_>, check: Check) -> Result<Location> {
    match value {
        RawBsonRef::Document(document) if is_geojson(document) => {
            let shape = parse_geojson(document, check)?;
            let flat = shape.as_point().and_then(|_| match get_field(document, "coordinates") {
                Some(RawBsonRef::Array(coordinates)) => parse_flat_point(RawBsonRef::Array(coordinates)).ok(),
                _ => None,
            });
            Ok(Location { flat, shape: Some(shape) })
        }
        value => {
            let flat = parse_flat_point(value)?;
            let shape = on_sphere(flat).ok().map(Shape::point);
            Ok(Location { flat: Some(flat), shape })
        }
    }
}

/// Reads a pair of numbers, in an array or a document.
///
/// # Errors
/// Why it is none.
pub fn parse_flat_point(value: RawBsonRef<'_>) -> Result<FlatPoint> {
    let mut items = match value {
        RawBsonRef::Array(array) => array_elements(array),
        RawBsonRef::Document(document) => elements(document),
        _ => return invalid("Point must be an array or object"),
    };
    let mut next = || match items.next().map(|item| Number::from_bson(item.value())) {
        Some(Some(number)) => Ok(Some(number.to_f64())),
        Some(None) => invalid("Point must only contain numeric elements"),
        None => Ok(None),
    };
    match (next()?, next()?) {
        (Some(x), Some(y)) if x.is_finite() && y.is_finite() => Ok(FlatPoint { x, y }),
        (Some(_), Some(_)) => invalid("Point coordinates must be finite numbers"),
        _ => invalid("Point must contain at least two numeric elements"),
    }
}

/// The place of a longitude and a latitude.
pub(crate) fn on_sphere(flat: FlatPoint) -> Result<Vector> {
    if flat.x.abs() > 180.0 || flat.y.abs() > 90.0 {
        return invalid(format!("longitude/latitude is out of bounds, lng: {} lat: {}", flat.x, flat.y));
    }
    Ok(Vector::from_degrees(flat.x, flat.y))
}

/// Reads GeoJSON of any kind.
///
/// # Errors
/// Why it is none.
pub fn parse_geojson(document: &RawDocument, check: Check) -> Result<Shape> {
    let Some(RawBsonRef::String(name)) = get_field(document, "type") else {
        return invalid("GeoJSON type must be a string");
    };
    let Some(kind) = ShapeKind::parse(name) else { return invalid(format!("unknown GeoJSON type: {name}")) };
    let winding = parse_system(document)?;
    if winding == Winding::Strict && kind != ShapeKind::Polygon {
        return invalid(format!("{STRICT_WINDING} is only valid for a Polygon, not for a {name}"));
    }
    if kind == ShapeKind::GeometryCollection {
        return parse_collection(document, check);
    }
    let coordinates = array_of(document, "coordinates", name)?;
    Ok(match kind {
        ShapeKind::Point => Shape::point(parse_position(RawBsonRef::Array(coordinates))?),
        ShapeKind::LineString => Shape::one(kind, parse_line(coordinates)?),
        ShapeKind::Polygon => {
            let shape = Shape::one(kind, parse_polygon(coordinates, winding, check)?);
            if winding == Winding::Strict { shape.strict() } else { shape }
        }
        ShapeKind::MultiPoint => {
            parse_many(kind, coordinates, |item| parse_position(RawBsonRef::Array(item)).map(Part::Point))?
        }
        ShapeKind::MultiLineString => parse_many(kind, coordinates, parse_line)?,
        ShapeKind::MultiPolygon | ShapeKind::GeometryCollection => {
            parse_many(kind, coordinates, |item| parse_polygon(item, winding, check))?
        }
    })
}

fn parse_system(document: &RawDocument) -> Result<Winding> {
    let system = match get_field(document, "crs") {
        None => return Ok(Winding::Any),
        Some(RawBsonRef::Document(system)) => system,
        Some(_) => return invalid("GeoJSON CRS must be an object"),
    };
    if !matches!(get_field(system, "type"), Some(RawBsonRef::String("name"))) {
        return invalid("GeoJSON CRS must have field \"type\": \"name\"");
    }
    let Some(RawBsonRef::Document(properties)) = get_field(system, "properties") else {
        return invalid("CRS must have field \"properties\" which is an object");
    };
    match get_field(properties, "name") {
        Some(RawBsonRef::String(name)) if USUAL_SYSTEMS.contains(&name) => Ok(Winding::Any),
        Some(RawBsonRef::String(STRICT_WINDING)) => Ok(Winding::Strict),
        Some(RawBsonRef::String(name)) => invalid(format!("Unknown CRS name: {name}")),
        _ => invalid("In CRS, \"properties.name\" must be a string"),
    }
}

fn array_of<'d>(document: &'d RawDocument, field: &str, kind: &str) -> Result<&'d RawArray> {
    match get_field(document, field) {
        Some(RawBsonRef::Array(array)) => Ok(array),
        _ => invalid(format!("GeoJSON {kind} must have an array \"{field}\"")),
    }
}

fn parse_collection(document: &RawDocument, check: Check) -> Result<Shape> {
    let mut parts = Vec::new();
    for item in array_elements(array_of(document, "geometries", "GeometryCollection")?) {
        work::step()?;
        let RawBsonRef::Document(inner) = item.value() else {
            return invalid(format!("Element {} of \"geometries\" is not an object", item.name()));
        };
        if matches!(get_field(inner, "type"), Some(RawBsonRef::String("GeometryCollection"))) {
            return invalid("GeometryCollections cannot be nested");
        }
        let shape = parse_geojson(inner, check)?;
        if shape.is_strict() {
            return invalid(format!("{STRICT_WINDING} is not valid in a GeometryCollection"));
        }
        parts.extend(shape.into_parts());
    }
    if parts.is_empty() {
        return invalid("GeometryCollection geometries must have at least 1 element");
    }
    Ok(Shape::many(ShapeKind::GeometryCollection, parts))
}

fn parse_many(kind: ShapeKind, coordinates: &RawArray, parse: impl Fn(&RawArray) -> Result<Part>) -> Result<Shape> {
    let mut parts = Vec::new();
    for item in array_elements(coordinates) {
        work::step()?;
        let RawBsonRef::Array(inner) = item.value() else {
            return invalid(format!("{kind:?} coordinates must be arrays"));
        };
        parts.push(parse(inner)?);
    }
    if parts.is_empty() {
        return invalid(format!("{kind:?} coordinates must have at least 1 element"));
    }
    Ok(Shape::many(kind, parts))
}

/// A position may have an altitude, which counts for nothing.
fn parse_position(value: RawBsonRef<'_>) -> Result<Vector> {
    let RawBsonRef::Array(array) = value else { return invalid("GeoJSON coordinates must be an array of coordinates") };
    for item in array_elements(array).skip(2) {
        if Number::from_bson(item.value()).is_none() {
            return invalid("Point must only contain numeric elements");
        }
    }
    on_sphere(parse_flat_point(value)?)
}

/// Positions, without those that are the same as the one before.
fn parse_positions(coordinates: &RawArray) -> Result<Vec<Vector>> {
    let mut positions: Vec<Vector> = Vec::new();
    for item in array_elements(coordinates) {
        work::step()?;
        let position = parse_position(item.value())?;
        if positions.last() != Some(&position) {
            positions.push(position);
        }
    }
    Ok(positions)
}

fn parse_line(coordinates: &RawArray) -> Result<Part> {
    let positions = parse_positions(coordinates)?;
    if positions.len() < 2 {
        return invalid("GeoJSON LineString must have at least 2 vertices");
    }
    for (number, pair) in positions.windows(2).enumerate() {
        if matches!(pair, [a, b] if a.plus(*b).length() < 1e-14) {
            return invalid(format!("Vertices {number} and {} are antipodal", number + 1));
        }
    }
    Ok(Part::Line(positions))
}

fn parse_polygon(coordinates: &RawArray, winding: Winding, check: Check) -> Result<Part> {
    let mut rings = Vec::new();
    for item in array_elements(coordinates) {
        work::step()?;
        let RawBsonRef::Array(ring) = item.value() else {
            return invalid("Polygon coordinates must be an array of loops");
        };
        rings.push(parse_ring(ring, winding)?);
    }
    if winding == Winding::Strict && rings.len() > 1 {
        return invalid("Only one simple loop is allowed in a big polygon");
    }
    let mut rings = rings.into_iter();
    let Some(outer) = rings.next() else { return invalid("Polygon has no loops.") };
    let polygon = Polygon::new(outer, rings);
    if check == Check::Full {
        check_polygon(&polygon)?;
    }
    Ok(Part::Polygon(polygon))
}

fn parse_ring(coordinates: &RawArray, winding: Winding) -> Result<Ring> {
    let mut vertices = parse_positions(coordinates)?;
    match (vertices.first().copied(), vertices.last()) {
        (Some(first), Some(last)) if first == *last && vertices.len() > 1 => vertices.pop(),
        (Some(_), Some(_)) if vertices.len() > 1 => return invalid("Loop is not closed"),
        _ => return invalid("Loop must have at least 3 different vertices"),
    };
    if vertices.len() < 3 {
        return invalid(format!("Loop must have at least 3 different vertices, not {}", vertices.len()));
    }
    Ok(Ring::new(vertices, winding))
}
