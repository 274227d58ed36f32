//! The fields by which commands name a shape of query: `query`, `sort`, `projection` and `collation`.
//!
//! Used by `planCacheClear` and the commands of index filters.

use bson::{RawDocument, RawDocumentBuf};
use planner::query_shape;

use super::find::{FindArguments, canonical_query};
use super::query_arguments::check_collation;
use crate::arguments::Field;
use crate::context::Context;
use crate::error::{CommandError, Result};

/// An example of a query.
#[derive(Default)]
pub(crate) struct ShapeArguments<'a> {
    pub(crate) query: Option<&'a RawDocument>,
    pub(crate) sort: Option<&'a RawDocument>,
    pub(crate) projection: Option<&'a RawDocument>,
    pub(crate) collation: Option<&'a RawDocument>,
}

impl<'a> ShapeArguments<'a> {
    /// Takes a field; `false` when it is another's.
    pub(crate) fn take(&mut self, field: Field<'a>) -> Result<bool> {
        match field.name() {
            "query" => self.query = field.document()?,
            "sort" => self.sort = field.document()?,
            "projection" => self.projection = field.document()?,
            "collation" => {
                check_collation(field)?;
                self.collation = field.document()?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The shape; `None` without a query, and then there must be nothing else.
    pub(crate) fn shape(&self, context: &Context<'_>) -> Result<Option<String>> {
        if self.query.is_none() {
            return match [self.sort, self.projection, self.collation].into_iter().flatten().all(RawDocument::is_empty) {
                true => Ok(None),
                false => Err(CommandError::bad_value("sort, projection, or collation provided without query")),
            };
        }
        let example = FindArguments {
            filter: self.query,
            sort: self.sort,
            projection: self.projection,
            ..FindArguments::default()
        };
        Ok(Some(query_shape(&canonical_query(context, &example)?)))
    }
}

/// A part of an example as it was given; empty when it was not.
pub(crate) fn given(part: Option<&RawDocument>) -> RawDocumentBuf {
    part.map(ToOwned::to_owned).unwrap_or_default()
}
