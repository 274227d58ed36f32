//! A filter together with the document it was parsed from: validators and partial indexes.
//!
//! Called by `options` and `index_specification`, which must be able to show the filter as it was given.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use document::collation::{self, Collator};
use query_language::filter::{Filter, FilterNode, FilterOptions};

use crate::error::{CollectionError, Result};

/// A condition on documents.
#[derive(Clone, Debug)]
pub struct Predicate {
    source: RawDocumentBuf,
    filter: Filter,
    /// Its own, whatever that of the command is that asks.
    collator: Option<Arc<Collator>>,
}

impl Predicate {
    /// Parses a filter.
    ///
    /// # Errors
    /// `Query` with the filter's own error.
    pub fn parse(source: &RawDocument, collator: Option<Arc<Collator>>) -> Result<Predicate> {
        let _own = collation::enter(collator.clone());
        let filter = Filter::parse(source, &FilterOptions::default())?;
        Ok(Predicate { source: source.to_owned(), filter, collator })
    }

    /// Parses the filter of a partial index, which may only ask what an index can be matched against.
    ///
    /// # Errors
    /// Those of `parse`; `CannotCreateIndex` for other operators.
    pub fn parse_partial(source: &RawDocument, collator: Option<Arc<Collator>>) -> Result<Predicate> {
        let predicate = Predicate::parse(source, collator)?;
        check_partial(predicate.filter.root())?;
        Ok(predicate)
    }

    /// The same condition with another order of text.
    ///
    /// # Errors
    /// None that can happen: it has been parsed before.
    pub fn with_collator(&self, collator: Option<Arc<Collator>>) -> Result<Predicate> {
        Predicate::parse(&self.source, collator)
    }

    /// The filter as it was given.
    pub fn source(&self) -> &RawDocument {
        &self.source
    }

    /// The parsed filter.
    pub fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Whether `document` meets the condition.
    ///
    /// # Errors
    /// `Query` when an expression in it fails.
    pub fn matches(&self, document: &RawDocument) -> Result<bool> {
        let _own = collation::enter(self.collator.clone());
        Ok(self.filter.matches(document)?)
    }
}

/// Source: the manual's page on partial indexes lists what their filters may use.
fn check_partial(node: &FilterNode) -> Result<()> {
    match node {
        FilterNode::And(children) | FilterNode::Or(children) => children.iter().try_for_each(check_partial),
        FilterNode::Comparison(_)
        | FilterNode::In(_)
        | FilterNode::Exists(_)
        | FilterNode::Type(_)
        | FilterNode::Geo(_) => Ok(()),
        _ => Err(CollectionError::CannotCreateIndex(
            "unsupported expression in partial index: only equality, $in, $exists: true, $gt, $gte, $lt, $lte, $type, $geoWithin, $geoIntersects, $and and $or can be used".to_owned(),
        )),
    }
}
