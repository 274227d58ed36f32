//! Shapes of pipelines: what each stage has of paths, names, filters and expressions. Of stages that are not named here
//! options are kept by their names, and values are not.

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use document::elements;

use super::{Shaping, append, is_operator, literal, step};
use crate::request::error::Result;

/// What an option of a stage is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The name of a collection, of a database or of a field that is made.
    Name,
    /// A path, or several.
    Path,
    Filter,
    Expression,
    /// Fields with expressions.
    Fields,
    Sort,
    Pipeline,
    /// A document of pipelines by names.
    Pipelines,
    /// Says how, and is kept.
    Kept,
    Value,
}

/// The options of stages whose argument is a document of them.
const OPTIONS: &[(&str, &[(&str, Part)])] = &[
    ("$bucket", &[("groupBy", Part::Expression), ("output", Part::Fields)]),
    ("$bucketAuto", &[("groupBy", Part::Expression), ("output", Part::Fields), ("granularity", Part::Kept)]),
    ("$densify", &[("field", Part::Path), ("partitionByFields", Part::Path)]),
    ("$fill", &[("partitionBy", Part::Expression), ("partitionByFields", Part::Path), ("sortBy", Part::Sort)]),
    (
        "$geoNear",
        &[
            ("distanceField", Part::Path),
            ("includeLocs", Part::Path),
            ("key", Part::Path),
            ("query", Part::Filter),
            ("spherical", Part::Kept),
        ],
    ),
    (
        "$graphLookup",
        &[
            ("from", Part::Name),
            ("startWith", Part::Expression),
            ("connectFromField", Part::Path),
            ("connectToField", Part::Path),
            ("as", Part::Path),
            ("depthField", Part::Path),
            ("restrictSearchWithMatch", Part::Filter),
        ],
    ),
    (
        "$lookup",
        &[
            ("from", Part::Name),
            ("localField", Part::Path),
            ("foreignField", Part::Path),
            ("as", Part::Path),
            ("let", Part::Fields),
            ("pipeline", Part::Pipeline),
        ],
    ),
    (
        "$merge",
        &[
            ("into", Part::Name),
            ("on", Part::Path),
            ("let", Part::Fields),
            ("whenMatched", Part::Pipeline),
            ("whenNotMatched", Part::Kept),
        ],
    ),
    ("$replaceRoot", &[("newRoot", Part::Expression)]),
    ("$score", &[("score", Part::Expression), ("normalization", Part::Kept), ("scoreDetails", Part::Kept)]),
    ("$setWindowFields", &[("partitionBy", Part::Expression), ("sortBy", Part::Sort), ("output", Part::Fields)]),
    ("$unionWith", &[("coll", Part::Name), ("pipeline", Part::Pipeline)]),
    (
        "$unwind",
        &[("path", Part::Expression), ("includeArrayIndex", Part::Path), ("preserveNullAndEmptyArrays", Part::Kept)],
    ),
];

impl Shaping<'_> {
    pub(super) fn pipeline(&self, stages: &RawArray) -> Result<RawArrayBuf> {
        self.each(stages, |stage| match stage {
            RawBsonRef::Document(stage) => Ok(RawBson::Document(self.stage(stage)?)),
            other => literal(other),
        })
    }

    fn stage(&self, stage: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for element in elements(stage) {
            step()?;
            let argument = self.argument(element.name(), element.value())?;
            append(&mut out, element.name(), argument.as_raw_bson_ref());
        }
        Ok(out)
    }

    fn argument(&self, stage: &str, argument: RawBsonRef<'_>) -> Result<RawBson> {
        let part = match stage {
            "$match" => Part::Filter,
            "$addFields" | "$set" => Part::Fields,
            "$redact" | "$replaceWith" | "$sortByCount" => Part::Expression,
            "$sort" => Part::Sort,
            "$count" | "$out" => Part::Name,
            "$unset" => Part::Path,
            "$facet" => Part::Pipelines,
            "$unwind" if matches!(argument, RawBsonRef::String(_)) => Part::Expression,
            "$unionWith" | "$merge" if matches!(argument, RawBsonRef::String(_)) => Part::Name,
            _ => Part::Value,
        };
        let options = OPTIONS.iter().find(|(name, _)| *name == stage).map(|(_, options)| *options);
        match (argument, options) {
            (RawBsonRef::Document(fields), _) if stage == "$group" => Ok(RawBson::Document(self.group(fields)?)),
            (RawBsonRef::Document(fields), _) if stage == "$project" => Ok(RawBson::Document(self.projection(fields)?)),
            (RawBsonRef::Document(given), Some(options)) => {
                let mut out = RawDocumentBuf::new();
                for option in elements(given) {
                    step()?;
                    let known = options.iter().find(|(name, _)| *name == option.name());
                    let shown = self.part(known.map_or(Part::Value, |(_, part)| *part), option.value())?;
                    append(&mut out, option.name(), shown.as_raw_bson_ref());
                }
                Ok(RawBson::Document(out))
            }
            _ => self.part(part, argument),
        }
    }

    fn part(&self, part: Part, value: RawBsonRef<'_>) -> Result<RawBson> {
        Ok(match (part, value) {
            (Part::Name, RawBsonRef::String(name)) => RawBson::String(self.name(name).into_owned()),
            // `{db, coll}`.
            (Part::Name, RawBsonRef::Document(place)) => {
                let mut out = RawDocumentBuf::new();
                for name in elements(place) {
                    append(&mut out, name.name(), self.part(Part::Name, name.value())?.as_raw_bson_ref());
                }
                RawBson::Document(out)
            }
            (Part::Path, RawBsonRef::String(path)) => RawBson::String(self.path(path).into_owned()),
            (Part::Path, RawBsonRef::Array(paths)) => {
                RawBson::Array(self.each(paths, |path| self.part(Part::Path, path))?)
            }
            (Part::Filter, RawBsonRef::Document(filter)) => RawBson::Document(self.filter(filter)?),
            (Part::Fields, RawBsonRef::Document(fields)) => RawBson::Document(self.fields_of(fields)?),
            (Part::Sort, RawBsonRef::Document(sort)) => RawBson::Document(self.sort(sort)?),
            (Part::Pipeline, RawBsonRef::Array(stages)) => RawBson::Array(self.pipeline(stages)?),
            (Part::Pipelines, RawBsonRef::Document(facets)) => {
                let mut out = RawDocumentBuf::new();
                for facet in elements(facets) {
                    let shown = self.part(Part::Pipeline, facet.value())?;
                    append(&mut out, &self.name(facet.name()), shown.as_raw_bson_ref());
                }
                RawBson::Document(out)
            }
            (Part::Expression, value) => self.expression(value)?,
            // The name of what is done where `$merge` has no pipeline for it.
            (Part::Kept, value) | (Part::Pipeline, value @ RawBsonRef::String(_)) => RawBson::from(value),
            (_, value) => self.options(value)?,
        })
    }

    /// Fields with expressions, accumulators or functions over windows.
    fn fields_of(&self, fields: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for field in elements(fields) {
            step()?;
            let shown = match field.value() {
                RawBsonRef::Document(function) if has_window(function) => self.function(function)?,
                value => self.expression(value)?,
            };
            append(&mut out, &self.path(field.name()), shown.as_raw_bson_ref());
        }
        Ok(out)
    }

    /// `{$sum: expression, window: {documents: [...]}}`.
    fn function(&self, function: &RawDocument) -> Result<RawBson> {
        let mut out = RawDocumentBuf::new();
        for part in elements(function) {
            let shown = match is_operator(part.name()) {
                true => self.expression(part.value())?,
                false => self.options(part.value())?,
            };
            append(&mut out, part.name(), shown.as_raw_bson_ref());
        }
        Ok(RawBson::Document(out))
    }

    fn group(&self, fields: &RawDocument) -> Result<RawDocumentBuf> {
        let mut out = RawDocumentBuf::new();
        for field in elements(fields) {
            let name = if field.name() == "_id" { field.name().into() } else { self.name(field.name()) };
            append(&mut out, &name, self.expression(field.value())?.as_raw_bson_ref());
        }
        Ok(out)
    }
}

fn has_window(function: &RawDocument) -> bool {
    elements(function).any(|part| part.name() == "window")
}
