//! The grammar of `$graphLookup`.

use std::sync::Arc;

use bson::raw::{RawBsonRef, RawDocument};
use document::Number;
use query_language::ErrorKind;
use query_language::expression::{Expression, FieldPath, show_value};

use super::GraphLookup;
use crate::context::{Namespace, PipelineContext};
use crate::error::{AggregationError, Result};
use crate::stage::Stage;
use crate::stages::match_stage::Match;
use crate::stages::type_of;

/// The fields as given.
#[derive(Default)]
struct Specification<'d> {
    from: Option<&'d str>,
    output: Option<&'d str>,
    start: Option<RawBsonRef<'d>>,
    connect_from: Option<&'d str>,
    connect_to: Option<&'d str>,
    depth_field: Option<&'d str>,
    depth_max: Option<u64>,
    restriction: Option<&'d RawDocument>,
}

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    let RawBsonRef::Document(document) = argument else {
        let message =
            format!("the $graphLookup stage specification must be an object, but found {}", type_of(argument));
        return Err(AggregationError::new(ErrorKind::FailedToParse, message));
    };
    let specification = read(document)?;
    let (Some(from), Some(output), Some(start), Some(connect_from), Some(connect_to)) = (
        specification.from,
        specification.output,
        specification.start,
        specification.connect_from,
        specification.connect_to,
    ) else {
        let message = "$graphLookup requires 'from', 'as', 'startWith', 'connectFromField', and 'connectToField' to be \
                       specified.";
        return Err(AggregationError::numbered(40105, message));
    };
    let from = Namespace::new(context.namespace.database.clone(), from);
    if let Some(restriction) = specification.restriction {
        let inner = PipelineContext { namespace: from.clone(), ..context.clone() };
        Match::new(restriction.to_owned(), &inner)?;
    }
    Ok(vec![Stage::other(GraphLookup {
        from,
        output: FieldPath::parse(output)?,
        start: Arc::new(Expression::parse(start, &context.expressions())?),
        connect_from: FieldPath::parse(connect_from)?,
        connect_to: FieldPath::parse(connect_to)?,
        depth_max: specification.depth_max,
        depth_field: specification.depth_field.map(FieldPath::parse).transpose()?,
        restriction: specification.restriction.map(RawDocument::to_owned),
        unwinds: None,
    })])
}

fn read(document: &RawDocument) -> Result<Specification<'_>> {
    let mut specification = Specification::default();
    for element in document {
        let (name, value) = element?;
        let text = match name.as_str() {
            "startWith" => {
                specification.start = Some(value);
                continue;
            }
            "maxDepth" => {
                specification.depth_max = Some(depth(value)?);
                continue;
            }
            "restrictSearchWithMatch" => {
                let RawBsonRef::Document(filter) = value else {
                    let message = format!(
                        "$graphLookup argument 'restrictSearchWithMatch' must be an object, is type {}",
                        type_of(value)
                    );
                    return Err(AggregationError::numbered(40185, message));
                };
                specification.restriction = Some(filter);
                continue;
            }
            "from" => &mut specification.from,
            "as" => &mut specification.output,
            "connectFromField" => &mut specification.connect_from,
            "connectToField" => &mut specification.connect_to,
            "depthField" => &mut specification.depth_field,
            other => {
                return Err(AggregationError::numbered(40104, format!("unknown argument to $graphLookup: {other}")));
            }
        };
        match value {
            RawBsonRef::String(given) => *text = Some(given),
            RawBsonRef::Document(_) if name == "from" => {
                let message = "A $graphLookup from another database is not implemented";
                return Err(AggregationError::new(ErrorKind::NotImplemented, message));
            }
            other => {
                let (name, shown) = (name.as_str(), show_value(other));
                let message = format!("expected string as argument for {name}, found: {shown}");
                return Err(AggregationError::numbered(40103, message));
            }
        }
    }
    Ok(specification)
}

fn depth(value: RawBsonRef<'_>) -> Result<u64> {
    let Some(number) = Number::from_bson(value) else {
        let message = format!("maxDepth requires numeric argument, found type: {}", type_of(value));
        return Err(AggregationError::numbered(40100, message));
    };
    if number.to_i64_truncated().is_some_and(|depth| depth < 0) {
        let message = format!("maxDepth requires a nonnegative argument, found: {}", show_value(value));
        return Err(AggregationError::numbered(40101, message));
    }
    number.to_i64_exact().and_then(|depth| u64::try_from(depth).ok()).ok_or_else(|| {
        let message = format!("maxDepth could not be represented as a long long: {}", show_value(value));
        AggregationError::numbered(40102, message)
    })
}
