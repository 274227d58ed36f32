//! `$near` and `$nearSphere`: documents in the order of their distance from a point.
//!
//! ```text
//! {$near: {$geometry: point, $minDistance: metres, $maxDistance: metres}}       on the sphere; $nearSphere is the same
//! {$nearSphere: [lng, lat], $minDistance: radians, $maxDistance: radians}      on the sphere
//! {$near: [x, y], $minDistance: d, $maxDistance: d}                            in the plane
//! ```
//!
//! The order is that of a plan with an index (`planner`); as a condition it asks whether a distance is within the
//! limits. Source: the manual's pages on `$near` and `$nearSphere`.

use std::ops::ControlFlow;
use std::sync::Arc;

use bson::raw::{RawBson, cstr};
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use document::{FieldPath, LeafArrays, Number, ValueView, get_element, walk_path};
use geometry::{Check, EARTH_RADIUS_METRES, FlatPoint, Location, Vector, parse_flat_point, parse_geojson};

use super::evaluate::Outcome;
use super::geo::{check_memory, location_of};
use super::parse::{FieldOperand, Parser, Place, bad_value};
use super::{FilterNode, Nearness, value_text};
use crate::error::{ErrorKind, QueryError, Result};

/// The point whose neighbours are asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NearCenter {
    /// On the sphere, from GeoJSON: distances are in metres.
    Metres(Vector),
    /// On the sphere, from a pair: distances are in radians.
    Radians(Vector, FlatPoint),
    /// In the plane.
    Plane(FlatPoint),
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct NearFilter {
    /// Where the places are.
    pub path: FieldPath,
    near: Arc<Near>,
    operators: Arc<RawDocumentBuf>,
}

/// The point and the limits: on the sphere in radians, in the plane in its units.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Near {
    /// The point.
    pub center: NearCenter,
    /// What is nearer is left out.
    pub min_distance: f64,
    /// What is farther is left out.
    pub max_distance: f64,
}

impl Near {
    /// How many of the client's units one of ours is.
    pub fn scale(&self) -> f64 {
        match self.center {
            NearCenter::Metres(_) => EARTH_RADIUS_METRES,
            NearCenter::Radians(..) | NearCenter::Plane(_) => 1.0,
        }
    }

    /// How far a place is.
    fn distance(&self, location: &Location) -> Option<f64> {
        match self.center {
            NearCenter::Metres(center) | NearCenter::Radians(center, _) => {
                location.shape.as_ref().map(|shape| shape.distance(center))
            }
            NearCenter::Plane(center) => location.flat.map(|point| point.distance(center)),
        }
    }

    fn allows(&self, distance: f64) -> bool {
        (self.min_distance..=self.max_distance).contains(&distance)
    }
}

/// Where a document is nearest.
#[derive(Debug, Clone)]
pub struct Nearest {
    /// How far, in our units.
    pub distance: f64,
    /// What is there.
    pub place: RawBson,
}

impl NearFilter {
    /// The point and the limits.
    pub fn near(&self) -> &Near {
        &self.near
    }

    /// As the client has written it, with the limits that stood beside it.
    pub(crate) fn operators(&self) -> &RawDocument {
        &self.operators
    }

    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> Outcome {
        let distance = location_of(value)?.and_then(|location| self.near.distance(&location));
        Ok(distance.is_some_and(|distance| self.near.allows(distance)))
    }

    /// Which of a document's places within the limits is nearest, if there is one.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn nearest(&self, document: &RawDocument) -> Result<Option<Nearest>> {
        let mut best: Option<(f64, RawBsonRef<'_>)> = None;
        let walked = walk_path(document, &self.path, LeafArrays::Expand, |item| {
            let Some(element) = item.element else { return ControlFlow::Continue(()) };
            match location_of(Some(element.view())) {
                Err(error) => return ControlFlow::Break(error),
                Ok(None) => {}
                Ok(Some(location)) => {
                    let distance = self.near.distance(&location).filter(|distance| self.near.allows(*distance));
                    if let Some(distance) = distance
                        && best.is_none_or(|(least, _)| distance < least)
                    {
                        best = Some((distance, element.value()));
                    }
                }
            }
            ControlFlow::Continue(())
        });
        match walked {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => {
                Ok(best.map(|(distance, place)| Nearest { distance, place: RawBson::from(place) }))
            }
        }
    }
}

/// `{path: {$near: ...}}`, with what stands beside it.
pub(crate) fn parse(parser: &Parser<'_>, operand: &FieldOperand<'_>) -> Result<FilterNode> {
    if parser.options.nearness == Nearness::Refused {
        return Err(not_allowed());
    }
    if operand.place == Place::Element {
        return bad_value("geo $near must be top-level expr");
    }
    check_memory(operand.value)?;
    let mut operators = RawDocumentBuf::new();
    let is_sphere = operand.name == "$nearSphere";
    operators.append(if is_sphere { cstr!("$nearSphere") } else { cstr!("$near") }, operand.value);
    let near = match operand.value {
        RawBsonRef::Document(arguments) if get_element(arguments, "$geometry").is_some() => {
            refuse_siblings(operand)?;
            parse_metres(operand, arguments)?
        }
        value => parse_pair(operand, value, &mut operators)?,
    };
    Ok(FilterNode::Near(NearFilter {
        path: operand.path.clone(),
        near: Arc::new(near),
        operators: Arc::new(operators),
    }))
}

/// What is said of it where there is no order of documents to be had.
pub(crate) fn not_allowed() -> QueryError {
    let message = "$geoNear, $near, and $nearSphere are not allowed in this context";
    QueryError::new(ErrorKind::Location(5_626_500), message)
}

fn refuse_siblings(operand: &FieldOperand<'_>) -> Result<()> {
    for name in ["$minDistance", "$maxDistance"] {
        if let Some(element) = get_element(operand.siblings, name) {
            let shown = value_text::element(name, element.value());
            return bad_value(format!(
                "geo near accepts just one argument when querying for a GeoJSON point. Extra field found: {shown}"
            ));
        }
    }
    Ok(())
}

fn parse_metres(operand: &FieldOperand<'_>, arguments: &RawDocument) -> Result<Near> {
    let mut near = None;
    let (mut min, mut max) = (0.0, f64::INFINITY);
    for argument in document::elements(arguments) {
        match argument.name() {
            "$geometry" => near = Some(parse_point(operand, argument.value())?),
            name @ "$minDistance" => min = parse_distance(name, argument.value())? / EARTH_RADIUS_METRES,
            name @ "$maxDistance" => max = parse_distance(name, argument.value())? / EARTH_RADIUS_METRES,
            name => return bad_value(format!("invalid argument in geo near query: {name}")),
        }
    }
    match near {
        Some(center) => Ok(Near { center: NearCenter::Metres(center), min_distance: min, max_distance: max }),
        None => bad_value(format!("{} requires a point", operand.name)),
    }
}

fn parse_point(operand: &FieldOperand<'_>, value: RawBsonRef<'_>) -> Result<Vector> {
    let refused = |why: String| {
        let shown = value_text::element("$geometry", value);
        bad_value(format!("invalid point in geo near query $geometry argument: {shown}  {why}"))
    };
    let RawBsonRef::Document(shape) = value else { return refused("it is no object".to_owned()) };
    match parse_geojson(shape, Check::Full) {
        Ok(shape) => match shape.as_point() {
            Some(point) => Ok(point),
            None => bad_value(format!(
                "{} requires a point, given {}",
                operand.name,
                value_text::element("$geometry", value)
            )),
        },
        Err(geometry::GeometryError::Invalid(why)) => refused(why),
        Err(other) => Err(other.into()),
    }
}

/// A pair, of which a third number is a greatest distance.
fn parse_pair(operand: &FieldOperand<'_>, value: RawBsonRef<'_>, operators: &mut RawDocumentBuf) -> Result<Near> {
    let point = parse_flat_point(value)?;
    let third = match value {
        RawBsonRef::Array(array) => document::array_elements(array).nth(2),
        RawBsonRef::Document(pair) => document::elements(pair).nth(2),
        _ => None,
    };
    let mut near = Near { center: NearCenter::Plane(point), min_distance: 0.0, max_distance: f64::INFINITY };
    if operand.name == "$nearSphere" {
        let location = geometry::parse_location(value, Check::Numbers)?;
        let Some(center) = location.shape.and_then(|shape| shape.as_point()) else {
            return bad_value(format!("longitude/latitude is out of bounds, lng: {} lat: {}", point.x, point.y));
        };
        near.center = NearCenter::Radians(center, point);
    }
    if let Some(third) = third {
        near.max_distance = parse_distance("$maxDistance", third.value())?;
    }
    for name in [cstr!("$minDistance"), cstr!("$maxDistance")] {
        let Some(element) = get_element(operand.siblings, name.as_str()) else { continue };
        operators.append(name, element.value());
        let distance = parse_distance(name.as_str(), element.value())?;
        match name.as_str() {
            "$minDistance" => near.min_distance = distance,
            _ => near.max_distance = distance,
        }
    }
    Ok(near)
}

/// A distance in the client's units.
fn parse_distance(name: &str, value: RawBsonRef<'_>) -> Result<f64> {
    match Number::from_bson(value).map(Number::to_f64) {
        None => bad_value(format!("{name} must be a number")),
        Some(distance) if distance >= 0.0 => Ok(distance),
        Some(_) => bad_value(format!("{name} must be non-negative")),
    }
}

/// `$minDistance` and `$maxDistance` belong to a `$near` beside them.
pub(crate) fn check_limit(operand: &FieldOperand<'_>) -> Result<()> {
    let is_beside =
        ["$near", "$nearSphere", "$geoNear"].iter().any(|name| get_element(operand.siblings, name).is_some());
    if is_beside { Ok(()) } else { bad_value(format!("{} needs a $near or $nearSphere beside it", operand.name)) }
}

/// Refuses a second one, and one that is not among the conditions that all must hold.
pub(crate) fn check_places(root: &FilterNode) -> Result<()> {
    let conditions = match root {
        FilterNode::And(children) => children,
        other => std::slice::from_ref(other),
    };
    let (near, others): (Vec<&FilterNode>, Vec<&FilterNode>) =
        conditions.iter().partition(|node| matches!(node, FilterNode::Near(_)));
    if others.into_iter().any(has_near) {
        return bad_value("geo $near must be top-level expr");
    }
    if near.len() > 1 { bad_value("Too many geoNear expressions") } else { Ok(()) }
}

fn has_near(node: &FilterNode) -> bool {
    let inner = match node {
        FilterNode::ElemMatchObject(leaf) => Some(&*leaf.filter),
        FilterNode::ElemMatchValue(leaf) => Some(&*leaf.predicate),
        _ => None,
    };
    matches!(node, FilterNode::Near(_)) || node.children().iter().chain(inner).any(has_near)
}
