//! The fields by which commands name a shape of query: `query`, `sort`, `projection` and `collation`.
//!
//! Used by `planCacheClear` and the commands of index filters.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use collection::{Collection, Namespace};
use planner::query_shape;

use super::command_collation;
use super::find_arguments::{FindArguments, canonical_query};
use crate::request::arguments::{Arguments, Field};
use crate::request::error::{CommandError, Result};
use crate::state::reading::Reading;

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
                self.collation = command_collation::of_statement(field)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The shape; `None` without a query, and then there must be nothing else.
    pub(crate) fn shape(&self, reading: Reading<'_>, namespace: &Namespace) -> Result<Option<String>> {
        if self.query.is_none() {
            return match [self.sort, self.projection, self.collation].into_iter().flatten().all(RawDocument::is_empty) {
                true => Ok(None),
                false => Err(CommandError::bad_value("sort, projection, or collation provided without query")),
            };
        }
        let _collation = command_collation::enter(reading, namespace, self.collation)?;
        let example = FindArguments {
            filter: self.query,
            sort: self.sort,
            projection: self.projection,
            ..FindArguments::default()
        };
        Ok(Some(query_shape(&canonical_query(reading, &example)?)))
    }
}

/// What a command names that has no other fields: a collection, and the shape, `None` for all of it. `None` alone when there is no such collection.
///
/// # Errors
/// The fields are not right, whether or not the collection is there.
pub(crate) fn named_shape(
    reading: Reading<'_>,
    arguments: &mut Arguments<'_>,
) -> Result<Option<(Arc<Collection>, Option<String>)>> {
    let namespace = Namespace::new(reading.database, arguments.collection_name()?)?;
    let mut example = ShapeArguments::default();
    for field in arguments.fields() {
        if !example.take(field)? {
            arguments.generic(field)?;
        }
    }
    let shape = example.shape(reading, &namespace)?;
    Ok(reading.collection(&namespace)?.map(|collection| (collection, shape)))
}

/// A part of an example as it was given; empty when it was not.
pub(crate) fn given(part: Option<&RawDocument>) -> RawDocumentBuf {
    part.map(ToOwned::to_owned).unwrap_or_default()
}
