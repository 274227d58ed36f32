//! `$unset`: leaves fields out, given as a path or a list of paths.

use bson::raw::{RawBsonRef, cstr};
use query_language::expression::FieldPath;
use query_language::projection::Projection;

use super::project::Project;
use crate::context::PipelineContext;
use crate::error::{AggregationError, Result};
use crate::stage::Stage;

pub(crate) fn parse(argument: RawBsonRef<'_>, _: &PipelineContext) -> Result<Vec<Stage>> {
    let mut paths = Vec::new();
    match argument {
        RawBsonRef::String(path) => paths.push(path),
        RawBsonRef::Array(array) => {
            for path in array {
                let RawBsonRef::String(path) = path? else {
                    let message = "$unset specification must be a string or an array containing only string values";
                    return Err(AggregationError::numbered(31120, message));
                };
                paths.push(path);
            }
        }
        _ => {
            let message = "$unset specification must be a string or an array";
            return Err(AggregationError::numbered(31002, message));
        }
    }
    if paths.is_empty() {
        let message = "$unset specification must be a string or an array with at least one field";
        return Err(AggregationError::numbered(31119, message));
    }
    for path in &paths {
        FieldPath::parse(path).map_err(|error| AggregationError::from(error).within("$unset"))?;
    }
    let projection = Projection::excluding(paths).map_err(|error| AggregationError::from(error).within("$unset"))?;
    Ok(vec![Stage::other(Project::new(cstr!("$project"), projection))])
}
