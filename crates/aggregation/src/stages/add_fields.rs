//! `$addFields` and `$set`: computed fields added to each document, or put in the place of old ones.

use bson::raw::{RawBsonRef, cstr};

use super::project::parse_adding;
use crate::context::PipelineContext;
use crate::error::Result;
use crate::stage::Stage;

pub(crate) fn parse_add_fields(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    parse_adding(cstr!("$addFields"), argument, context)
}

pub(crate) fn parse_set(argument: RawBsonRef<'_>, context: &PipelineContext) -> Result<Vec<Stage>> {
    parse_adding(cstr!("$set"), argument, context)
}
