//! The collation of a command or of one of its statements: what it asks for, or else the default of its collection.
//!
//! Called by whatever reads or changes documents by a query, before it parses that; the collation is in force as long
//! as the guard is held.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument};
use collection::Namespace;
use document::collation::{self, Collator, InForce};

use crate::handlers::{time_series, views};
use crate::request::arguments::{Arguments, Field};
use crate::request::error::Result;
use crate::state::reading::Reading;

/// Puts the collation of a command in force.
///
/// # Errors
/// It is not right.
pub(crate) fn enter_of_command(
    reading: Reading<'_>,
    arguments: &Arguments<'_>,
    namespace: &Namespace,
) -> Result<InForce> {
    let field = arguments.fields().find(|field| field.name() == "collation");
    let given = field.map(|field| field.document()).transpose()?.flatten();
    enter(reading, namespace, given)
}

/// The same with the collection named as in the command.
///
/// # Errors
/// Those of `enter_of_command`.
pub(crate) fn enter_of_named(reading: Reading<'_>, arguments: &Arguments<'_>) -> Result<InForce> {
    match arguments.target().map(|field| field.value()) {
        Some(RawBsonRef::String(name)) => {
            enter_of_command(reading, arguments, &Namespace::new(reading.database, name)?)
        }
        _ => enter_of_command(reading, arguments, &Namespace::of_database(reading.database)?),
    }
}

/// Puts a collation in force; without one, or with an empty one, the default of the collection.
///
/// # Errors
/// It is not right.
pub(crate) fn enter(reading: Reading<'_>, namespace: &Namespace, given: Option<&RawDocument>) -> Result<InForce> {
    let collator = match given.filter(|given| !given.is_empty()) {
        Some(given) => collation::parse(given)?,
        None => default_of(reading, namespace)?,
    };
    Ok(collation::enter(collator))
}

fn default_of(reading: Reading<'_>, namespace: &Namespace) -> Result<Option<Arc<Collator>>> {
    if let Some(collection) = reading.collection(namespace)? {
        return Ok(collection.definition().options.collator.clone());
    }
    let queries = reading.queries;
    if let Some(series) = time_series::of(queries, namespace) {
        return Ok(series.collection.definition().options.collator.clone());
    }
    let view = views::definition(queries, namespace)?;
    Ok(view.map(|view| view.collator()).transpose()?.flatten())
}

/// Reads the collation of a statement, which is used when the statement is run. What is wrong with it is wrong with the
/// whole command.
///
/// # Errors
/// It is not right.
pub(crate) fn of_statement(field: Field<'_>) -> Result<Option<&RawDocument>> {
    let given = field.document()?;
    if let Some(given) = given.filter(|given| !given.is_empty()) {
        collation::parse(given)?;
    }
    Ok(given)
}
