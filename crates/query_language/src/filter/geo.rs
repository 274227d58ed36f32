//! `$geoWithin` and `$geoIntersects`: whether what is at a path is in an area, or meets it.
//!
//! A value that is no shape is in no area. Of an array each element is looked at, then the array, which may be a pair
//! of coordinates. Source: the manual's pages on geospatial query operators.

use std::sync::Arc;

use bson::raw::RawBson;
use bson::{RawBsonRef, RawDocument};
use document::{FieldPath, ValueView, raw_array};
use geometry::{Check, GeometryError, Location, Region, parse_location};

use super::FilterNode;
use super::evaluate::Outcome;
use super::parse::{FieldOperand, bad_value};
use super::value_text;
use crate::error::{ErrorKind, QueryError, Result};
use crate::memory_limit::before_allocating_if_large;

/// What a place and an area are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GeoRelation {
    /// `$geoWithin`: all of the place is in the area.
    Within,
    /// `$geoIntersects`: they have something in common.
    Intersects,
}

impl GeoRelation {
    /// The operator.
    pub fn name(self) -> &'static str {
        match self {
            GeoRelation::Within => "$geoWithin",
            GeoRelation::Intersects => "$geoIntersects",
        }
    }
}

/// A condition on places.
#[derive(Debug, Clone)]
pub struct GeoFilter {
    /// Where the place is.
    pub path: FieldPath,
    /// How it is to be to the area.
    pub relation: GeoRelation,
    region: Arc<Region>,
    operand: Arc<RawBson>,
}

impl GeoFilter {
    /// The area.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// As the client has written it.
    pub(crate) fn operand(&self) -> RawBson {
        RawBson::clone(&self.operand)
    }

    pub(crate) fn accepts(&self, value: Option<ValueView<'_>>) -> Outcome {
        let Some(location) = location_of(value)? else { return Ok(false) };
        let found = match self.relation {
            GeoRelation::Within => self.region.contains(&location),
            GeoRelation::Intersects => self.region.intersects(&location),
        };
        Ok(found?)
    }
}

/// The place that a value is; `None` if it is none.
pub(super) fn location_of(value: Option<ValueView<'_>>) -> std::result::Result<Option<Location>, Box<QueryError>> {
    let value = match value {
        Some(ValueView::Document(bytes)) => RawDocument::from_bytes(bytes).ok().map(RawBsonRef::Document),
        Some(ValueView::Array(bytes)) => raw_array(bytes).map(RawBsonRef::Array),
        _ => None,
    };
    let Some(value) = value else { return Ok(None) };
    check_memory(value)?;
    match parse_location(value, Check::Numbers) {
        Ok(location) => Ok(Some(location)),
        Err(GeometryError::Invalid(_)) => Ok(None),
        Err(GeometryError::Interrupted(interruption)) => Err(interruption.into()),
    }
}

/// A shape takes about as many bytes as the numbers that it is written in.
pub(super) fn check_memory(value: RawBsonRef<'_>) -> Result<()> {
    let bytes = match value {
        RawBsonRef::Document(document) => document.as_bytes().len(),
        RawBsonRef::Array(array) => array.as_bytes().len(),
        _ => 0,
    };
    before_allocating_if_large(2 * bytes)
}

/// What was wrong with a shape, as the client is told; or that the command is to stop.
impl From<GeometryError> for QueryError {
    fn from(error: GeometryError) -> QueryError {
        match error {
            GeometryError::Invalid(message) => QueryError::new(ErrorKind::BadValue, message),
            GeometryError::Interrupted(interruption) => interruption.into(),
        }
    }
}

/// `{path: {$geoWithin: {$box: ...}}}` and the like.
pub(crate) fn parse(operand: &FieldOperand<'_>, relation: GeoRelation) -> Result<FilterNode> {
    let RawBsonRef::Document(operators) = operand.value else {
        return bad_value(format!("{} needs an object with a geometry", operand.name));
    };
    check_memory(operand.value)?;
    let region = Region::parse(operators)?;
    let refuses = match (&region, relation) {
        (Region::Shape(shape), GeoRelation::Within) => !shape.kind().is_area(),
        (Region::Shape(_), GeoRelation::Intersects) | (_, GeoRelation::Within) => false,
        (_, GeoRelation::Intersects) => true,
    };
    if refuses {
        let shown = value_text::element(operand.name, operand.value);
        return bad_value(format!("{} not supported with provided geometry: {shown}", relation.name()));
    }
    Ok(FilterNode::Geo(GeoFilter {
        path: operand.path.clone(),
        relation,
        region: Arc::new(region),
        operand: Arc::new(operand.value.into()),
    }))
}
