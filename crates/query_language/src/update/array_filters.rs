//! `arrayFilters`: which array items `$[identifier]` stands for.
//!
//! Parsed before the update's paths, which look identifiers up here; `apply` asks whether an item matches. A filter
//! sees the item as a document of one field, named by the identifier.

use std::collections::HashMap;

use bson::raw::{RawBsonRef, RawDocument};

use super::display;
use super::element::Element;
use crate::error::{ErrorKind, QueryError, Result};
use crate::filter::{Filter, FilterOptions};

/// The array filters of one update.
#[derive(Debug, Default)]
pub(super) struct ArrayFilters {
    filters: Vec<ArrayFilter>,
    /// Their positions by identifier.
    positions: HashMap<String, usize>,
}

#[derive(Debug)]
struct ArrayFilter {
    identifier: String,
    filter: Filter,
    used: bool,
}

impl ArrayFilters {
    /// Parses the filters as the client sent them.
    pub(super) fn parse(filters: &[&RawDocument], options: &FilterOptions) -> Result<Self> {
        let mut parsed = Self::default();
        for document in filters {
            let identifier = identifier_of(document)?;
            if parsed.position(identifier).is_some() {
                let message = format!("Found multiple array filters with the same top-level field name {identifier}");
                return Err(QueryError::new(ErrorKind::FailedToParse, message));
            }
            let filter = Filter::parse(document, options).map_err(in_array_filter)?;
            parsed.positions.insert(identifier.to_owned(), parsed.filters.len());
            parsed.filters.push(ArrayFilter { identifier: identifier.to_owned(), filter, used: false });
        }
        Ok(parsed)
    }

    /// The index of the filter for `identifier`, which is thereby used.
    pub(super) fn resolve(&mut self, identifier: &str) -> Option<usize> {
        let index = self.position(identifier)?;
        if let Some(filter) = self.filters.get_mut(index) {
            filter.used = true;
        }
        Some(index)
    }

    fn position(&self, identifier: &str) -> Option<usize> {
        self.positions.get(identifier).copied()
    }

    /// Refuses filters that no path of the update names.
    pub(super) fn check_all_used(&self, update: &RawDocument) -> Result<()> {
        let Some(unused) = self.filters.iter().find(|filter| !filter.used) else { return Ok(()) };
        let message = format!(
            "The array filter for identifier '{}' was not used in the update {}",
            unused.identifier,
            display::document(update)
        );
        Err(QueryError::new(ErrorKind::FailedToParse, message))
    }

    /// Whether the filter of this index matches an array item.
    pub(super) fn matches(&self, index: usize, item: &Element<'_>) -> Result<bool> {
        let Some(filter) = self.filters.get(index) else { return Ok(false) };
        filter.filter.root().matches_field(&filter.identifier, item.value())
    }
}

/// The one name that all fields of a filter begin with.
fn identifier_of(filter: &RawDocument) -> Result<&str> {
    let mut names = Vec::new();
    collect_names(filter, &mut names)?;
    let Some((first, others)) = names.split_first() else {
        let message = "Cannot use an expression without a top-level field name in arrayFilters";
        return Err(QueryError::new(ErrorKind::FailedToParse, message));
    };
    let identifier = top_level(first);
    if let Some(other) = others.iter().find(|other| top_level(other) != identifier) {
        let message = format!(
            "Error parsing array filter :: caused by :: Expected a single top-level field name, found '{identifier}' and '{}'",
            top_level(other)
        );
        return Err(QueryError::new(ErrorKind::FailedToParse, message));
    }
    let lowercase_first = identifier.starts_with(|first: char| first.is_ascii_lowercase());
    if !lowercase_first || !identifier.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let message = format!(
            "Error parsing array filter :: caused by :: The top-level field name must be an alphanumeric string \
             beginning with a lowercase letter, found '{identifier}'"
        );
        return Err(QueryError::new(ErrorKind::BadValue, message));
    }
    Ok(identifier)
}

/// The field names of a filter, through `$and`, `$or` and `$nor`.
fn collect_names<'a>(filter: &'a RawDocument, names: &mut Vec<&'a str>) -> Result<()> {
    for field in filter {
        let (name, value) = field?;
        match (name.as_str(), value) {
            ("$and" | "$or" | "$nor", RawBsonRef::Array(branches)) => {
                for branch in branches {
                    if let RawBsonRef::Document(branch) = branch? {
                        collect_names(branch, names)?;
                    }
                }
            }
            (operator, _) if operator.starts_with('$') => {}
            (name, _) => names.push(name),
        }
    }
    Ok(())
}

fn top_level(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

fn in_array_filter(error: QueryError) -> QueryError {
    if let ErrorKind::Interrupted(_) = error.kind {
        return error;
    }
    QueryError::new(error.kind, format!("Error parsing array filter :: caused by :: {}", error.message))
}
