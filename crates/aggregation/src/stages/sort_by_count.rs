//! `$sortByCount`: `$group` with a count, then `$sort` by it.

use bson::raw::{RawBsonRef, RawDocumentBuf, cstr};

use super::{group, sort};
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::{Stage, stage_document};

pub(crate) fn parse(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    match argument {
        RawBsonRef::String(path) if path.starts_with('$') => {}
        RawBsonRef::String(_) => {
            let message =
                "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
            return Err(AggregationError::numbered(40148, message));
        }
        RawBsonRef::Document(document) => {
            let first = document.iter().next().transpose()?;
            if !first.is_some_and(|(name, _)| name.as_str().starts_with('$')) {
                let message =
                    "the sortByCount field must be defined as a $-prefixed path or an expression inside an object";
                return Err(AggregationError::numbered(40147, message));
            }
        }
        _ => {
            let message = "the sortByCount field must be specified as a string or as an object";
            return Err(AggregationError::numbered(40149, message));
        }
    }
    let mut specification = RawDocumentBuf::new();
    specification.append(cstr!("_id"), argument);
    specification.append(cstr!("count"), stage_document(cstr!("$sum"), 1));
    let mut stages = group::parse(RawBsonRef::Document(&specification), context)?;
    let order = stage_document(cstr!("count"), -1);
    stages.extend(sort::parse(RawBsonRef::Document(&order), context)?);
    Ok(stages)
}
