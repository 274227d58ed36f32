//! `$geoNear`: the documents of the collection in the order of their distance from a point.
//!
//! The host finds them by an index of places; the stage writes how far each is, and which of its places that is.
//! Source: the manual's page on `$geoNear`.

use std::sync::Arc;

use bson::raw::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, cstr};
use document::{FieldPath, Number};
use query_language::ErrorKind;
use query_language::expression::{DependencySet, Metadata};
use query_language::filter::Filter;

use super::type_of;
use crate::context::{PipelineContext, RunContext};
use crate::document_edit::with_path;
use crate::error::{AggregationError, Result};
use crate::host::{BoxSource, DocumentSource, NearQuery, NearSource};
use crate::stage::{Needs, PipelineStage, Placement, Stage, stage_document};

#[derive(Debug)]
struct GeoNear {
    source: RawDocumentBuf,
    query: NearQuery,
    distance_field: FieldPath,
    locs_field: Option<FieldPath>,
    multiplier: f64,
}

/// What was given, before it is put together.
#[derive(Default)]
struct Arguments<'a> {
    near: Option<RawBsonRef<'a>>,
    is_spherical: bool,
    min: Option<f64>,
    max: Option<f64>,
    distance_field: Option<FieldPath>,
    locs_field: Option<FieldPath>,
    multiplier: Option<f64>,
    key: Option<String>,
    query: Option<RawDocumentBuf>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(source) = argument else {
        return Err(AggregationError::numbered(10272, "the $geoNear stage specification must be an object"));
    };
    let mut given = Arguments::default();
    for element in source {
        let (name, value) = element?;
        given.set(name.as_str(), value)?;
    }
    let Some(distance_field) = given.distance_field.take() else {
        return Err(AggregationError::numbered(16605, "$geoNear requires a 'distanceField' option as a String"));
    };
    let operators = given.operators()?;
    let query = NearQuery {
        operators,
        key: given.key,
        query: given.query.unwrap_or_default(),
        variables: Arc::clone(&context.variables),
    };
    // What is wrong with it is wrong with the command, not with some document.
    Filter::parse(&query.filter("key"), &context.filters().with_nearness())?;
    Ok(vec![Stage::other(GeoNear {
        source: source.to_owned(),
        query,
        distance_field,
        locs_field: given.locs_field,
        multiplier: given.multiplier.unwrap_or(1.0),
    })])
}

impl<'a> Arguments<'a> {
    fn set(&mut self, name: &str, value: RawBsonRef<'a>) -> Result<()> {
        match name {
            "near" => self.near = Some(value),
            "spherical" => self.is_spherical = truth_of(name, value)?,
            "minDistance" => self.min = Some(number_of(name, value)?),
            "maxDistance" => self.max = Some(number_of(name, value)?),
            "distanceMultiplier" => self.multiplier = Some(number_of(name, value)?),
            "distanceField" => self.distance_field = Some(path_of(16605, name, value)?),
            "includeLocs" => self.locs_field = Some(path_of(16607, name, value)?),
            "key" => match value {
                RawBsonRef::String("") => return bad_value("$geoNear parameter 'key' must not be an empty string"),
                RawBsonRef::String(key) => self.key = Some(key.to_owned()),
                _ => {
                    let message =
                        format!("$geoNear parameter 'key' must be of type string but found type: {}", type_of(value));
                    return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
                }
            },
            "query" => match value {
                RawBsonRef::Document(query) => self.query = Some(query.to_owned()),
                _ => {
                    let message =
                        format!("$geoNear parameter 'query' must be an object but found type: {}", type_of(value));
                    return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
                }
            },
            "limit" | "num" => {
                let message =
                    format!("$geoNear no longer supports the '{name}' parameter. Use a $limit stage instead.");
                return Err(AggregationError::numbered(if name == "limit" { 50858 } else { 50857 }, message));
            }
            "start" => {
                let message = "$geoNear no longer supports the 'start' argument. Use a $skip stage instead.";
                return Err(AggregationError::numbered(50856, message));
            }
            // Documents have been yielded once each for long: MongoDB ignores it, whatever it says.
            "uniqueDocs" => drop(truth_of(name, value)?),
            _ => return bad_value(format!("Unknown argument to $geoNear: {name}")),
        }
        Ok(())
    }

    /// The point and the limits as a filter says them.
    fn operators(&self) -> Result<RawDocumentBuf> {
        let Some(near) = self.near else {
            return Err(AggregationError::numbered(5_860_400, "$geoNear requires a 'near' argument"));
        };
        let limits = [(cstr!("$minDistance"), self.min), (cstr!("$maxDistance"), self.max)];
        let limits = limits.into_iter().filter_map(|(name, limit)| Some((name, limit?)));
        let mut operators = RawDocumentBuf::new();
        match near {
            RawBsonRef::Document(point) if document::get_field(point, "type").is_some() => {
                let mut inner = RawDocumentBuf::new();
                inner.append(cstr!("$geometry"), near);
                limits.for_each(|(name, limit)| inner.append(name, limit));
                operators.append(cstr!("$nearSphere"), inner);
            }
            RawBsonRef::Document(_) | RawBsonRef::Array(_) => {
                operators.append(if self.is_spherical { cstr!("$nearSphere") } else { cstr!("$near") }, near);
                limits.for_each(|(name, limit)| operators.append(name, limit));
            }
            _ => {
                let message =
                    format!("$geoNear requires near argument to be an array or object, found type: {}", type_of(near));
                return Err(AggregationError::new(ErrorKind::TypeMismatch, message));
            }
        }
        Ok(operators)
    }
}

fn bad_value<T>(message: impl Into<String>) -> Result<T> {
    Err(AggregationError::new(ErrorKind::BadValue, message))
}

fn truth_of(name: &str, value: RawBsonRef<'_>) -> Result<bool> {
    match (value, Number::from_bson(value)) {
        (RawBsonRef::Boolean(truth), _) => Ok(truth),
        (_, Some(number)) => Ok(!number.is_zero()),
        _ => {
            let message =
                format!("$geoNear parameter '{name}' must be of type bool but found type: {}", type_of(value));
            Err(AggregationError::new(ErrorKind::TypeMismatch, message))
        }
    }
}

fn number_of(name: &str, value: RawBsonRef<'_>) -> Result<f64> {
    match Number::from_bson(value).map(Number::to_f64) {
        Some(number) if number >= 0.0 => Ok(number),
        Some(_) => bad_value(format!("$geoNear parameter '{name}' must be nonnegative")),
        None => {
            let message = format!("$geoNear parameter '{name}' must be numeric but found type: {}", type_of(value));
            Err(AggregationError::new(ErrorKind::TypeMismatch, message))
        }
    }
}

fn path_of(code: u32, name: &str, value: RawBsonRef<'_>) -> Result<FieldPath> {
    let RawBsonRef::String(path) = value else {
        return Err(AggregationError::numbered(code, format!("$geoNear requires that '{name}' option is a String")));
    };
    let path = FieldPath::new(path);
    if path.has_empty_component() || path.names().any(|part| part.starts_with('$')) {
        return bad_value(format!("$geoNear parameter '{name}' is no path of a field"));
    }
    Ok(path)
}

impl PipelineStage for GeoNear {
    fn open(self: Arc<Self>, _: BoxSource, run: &RunContext) -> Result<BoxSource> {
        let source = run.host.near(&run.pipeline.namespace, &self.query)?;
        Ok(Box::new(Neighbours { stage: self, source, metadata: Metadata::default() }))
    }

    fn dependencies(&self, _: &mut DependencySet) -> Needs {
        Needs::Nothing
    }

    fn placement(&self) -> Placement {
        Placement::First
    }

    fn to_bson(&self) -> Result<RawDocumentBuf> {
        Ok(stage_document(cstr!("$geoNear"), self.source.clone()))
    }
}

struct Neighbours {
    stage: Arc<GeoNear>,
    source: Box<dyn NearSource>,
    /// Of the document that was given last.
    metadata: Metadata,
}

impl DocumentSource for Neighbours {
    fn next(&mut self) -> Result<Option<RawDocumentBuf>> {
        let Some(found) = self.source.next()? else { return Ok(None) };
        let distance = found.metadata.distance.map(|distance| RawBsonRef::Double(distance * self.stage.multiplier));
        let mut document = with_path(&found.document, &self.stage.distance_field, distance)?;
        if let Some(field) = &self.stage.locs_field {
            let place = found.metadata.place.as_deref().map(RawBson::as_raw_bson_ref);
            document = with_path(&document, field, place)?;
        }
        self.metadata = found.metadata;
        Ok(Some(document))
    }

    fn metadata(&self) -> Metadata {
        self.metadata.clone()
    }
}

impl NearQuery {
    /// The filter of a query for the neighbours by the places at a path.
    pub fn filter(&self, key: &str) -> RawDocumentBuf {
        let mut filter = RawDocumentBuf::new();
        if let Ok(key) = <&bson::raw::CStr>::try_from(key) {
            filter.append(key, RawBson::Document(self.operators.clone()));
        }
        if !self.query.is_empty() {
            let both: bson::raw::RawArrayBuf = [&*self.query].into_iter().map(RawDocument::to_owned).collect();
            filter.append(cstr!("$and"), both);
        }
        filter
    }
}
