//! Pipeline updates: `[{$set: ...}, {$unset: ...}, {$replaceWith: ...}]`.
//!
//! The few stages an update may have, each a function from a document to a document; their work is done by
//! `projection` and `expression`. The stages of aggregations live in another crate, which this one must not know.

use bson::raw::{RawArray, RawBsonRef, RawDocument, RawDocumentBuf};

use super::UpdateContext;
use super::display::type_name;
use super::replacement::finish;
use crate::depth::{DepthBudget, check_document_depth, levels_added};
use crate::error::{ErrorKind, QueryError, Result};
use crate::expression::{EvaluationContext, Expression, ParseContext, Variables};
use crate::filter::value_text;
use crate::projection::{Projection, ProjectionKind};

/// Stages that exist but that an update may not have.
const OTHER_STAGES: &[&str] = &[
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listClusterCatalog",
    "$listLocalSessions",
    "$listSampledQueries",
    "$listSearchIndexes",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$planCacheStats",
    "$querySettings",
    "$queryStats",
    "$rankFusion",
    "$redact",
    "$sample",
    "$score",
    "$scoreFusion",
    "$search",
    "$searchMeta",
    "$setWindowFields",
    "$shardedDataDistribution",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unwind",
    "$vectorSearch",
];

/// The stages of a pipeline update.
#[derive(Debug)]
pub(super) struct UpdatePipeline {
    /// Each with the levels that it may add.
    stages: Vec<(Stage, usize)>,
}

#[derive(Debug)]
enum Stage {
    /// `$set`, `$addFields`, `$unset`, `$project`.
    Projection(Projection),
    /// `$replaceRoot`, `$replaceWith`.
    Replace { new_root: Expression, subject: &'static str },
}

impl UpdatePipeline {
    /// Parses the stages; variables are those of the command.
    pub(super) fn parse(stages: &RawArray, variables: &Variables) -> Result<Self> {
        let context = ParseContext::for_variables(variables);
        let mut parsed = Vec::new();
        for stage in stages {
            let RawBsonRef::Document(stage) = stage? else {
                let message = "Each element of the 'pipeline' array must be an object";
                return Err(QueryError::new(ErrorKind::TypeMismatch, message));
            };
            parsed.push((Stage::parse(stage, &context)?, levels_added(RawBsonRef::Document(stage))));
        }
        Ok(Self { stages: parsed })
    }

    /// The document that the stages make of `before`; `None` when it is the same.
    pub(super) fn apply(&self, before: &RawDocument, context: &UpdateContext<'_>) -> Result<Option<Vec<u8>>> {
        let mut current: Option<RawDocumentBuf> = None;
        let mut depth = DepthBudget::new();
        for (stage, levels) in &self.stages {
            let document = current.as_deref().unwrap_or(before);
            let changed = stage.apply(document, context.variables)?;
            if depth.add(*levels) {
                check_document_depth(&changed)?;
            }
            current = Some(changed);
        }
        match current {
            None => Ok(None),
            Some(after) => finish(&after, before, None, context.purpose),
        }
    }
}

impl Stage {
    fn parse(stage: &RawDocument, context: &ParseContext) -> Result<Self> {
        let mut fields = stage.iter();
        let (Some(field), None) = (fields.next(), fields.next()) else {
            let message = "A pipeline stage specification object must contain exactly one field.";
            return Err(numbered(40323, message));
        };
        let (name, argument) = field?;
        match name.as_str() {
            name @ ("$set" | "$addFields") => match argument {
                RawBsonRef::Document(fields) => {
                    Projection::parse(fields, ProjectionKind::AddFields, context).map(Stage::Projection)
                }
                other => {
                    let kind = type_name(other.element_type());
                    Err(numbered(40272, format!("{name} specification stage must be an object, got {kind}")))
                }
            },
            "$project" => match argument {
                RawBsonRef::Document(fields) => {
                    Projection::parse(fields, ProjectionKind::Aggregate, context).map(Stage::Projection)
                }
                _ => Err(numbered(15969, "$project specification must be an object")),
            },
            "$unset" => Projection::excluding(unset_paths(argument)?).map(Stage::Projection),
            "$replaceRoot" => {
                let new_root = Expression::parse(new_root(argument)?, context)?;
                Ok(Stage::Replace { new_root, subject: "'newRoot' expression " })
            }
            "$replaceWith" => {
                let new_root = Expression::parse(argument, context)?;
                Ok(Stage::Replace { new_root, subject: "'replacement document' " })
            }
            other if OTHER_STAGES.contains(&other) => {
                let message = format!("{other} is not allowed to be used within an update");
                Err(QueryError::new(ErrorKind::InvalidOptions, message))
            }
            other => Err(numbered(40324, format!("Unrecognized pipeline stage name: '{other}'"))),
        }
    }

    fn apply(&self, document: &RawDocument, variables: &Variables) -> Result<RawDocumentBuf> {
        match self {
            Stage::Projection(projection) => projection.apply(document, None, variables),
            Stage::Replace { new_root, subject } => {
                let value = new_root.evaluate(&EvaluationContext::new(document, variables))?;
                match value.as_document() {
                    Some(new_root) => Ok(new_root.to_owned()),
                    None => {
                        let shown = value.get().map_or_else(|| "MISSING".to_owned(), value_text::value);
                        let kind = value.type_name();
                        let input = value_text::document(document);
                        let message = format!(
                            "{subject} must evaluate to an object, but resulting value was: {shown}. Type of resulting \
                             value: '{kind}'. Input document: {input}"
                        );
                        Err(numbered(40228, message))
                    }
                }
            }
        }
    }
}

/// The paths of `$unset`: a string or an array of strings.
fn unset_paths(argument: RawBsonRef<'_>) -> Result<Vec<&str>> {
    const EXPECTED: &str = "$unset specification must be a string or an array";
    match argument {
        RawBsonRef::String(path) => Ok(vec![path]),
        RawBsonRef::Array(paths) if paths.is_empty() => {
            Err(numbered(31119, format!("{EXPECTED} with at least one field")))
        }
        RawBsonRef::Array(paths) => {
            let strings = paths.into_iter().map(|path| match path? {
                RawBsonRef::String(path) => Ok(path),
                _ => Err(numbered(31120, format!("{EXPECTED} containing only string values"))),
            });
            strings.collect()
        }
        _ => Err(numbered(31002, EXPECTED)),
    }
}

/// The expression of `{newRoot: expression}`.
fn new_root(argument: RawBsonRef<'_>) -> Result<RawBsonRef<'_>> {
    let RawBsonRef::Document(fields) = argument else {
        let kind = type_name(argument.element_type());
        let message = format!("expected an object as specification for $replaceRoot stage, got {kind}");
        return Err(numbered(40229, message));
    };
    let mut new_root = None;
    for field in fields {
        let (name, value) = field?;
        if name.as_str() != "newRoot" {
            return Err(numbered(40415, format!("BSON field '$replaceRoot.{name}' is an unknown field.")));
        }
        new_root = Some(value);
    }
    new_root.ok_or_else(|| numbered(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field"))
}

fn numbered(number: u32, message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::Location(number), message)
}
