//! A query as commands hand it over: parsed, and independent of the command it came from.

use std::sync::Arc;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf};
use query_language::expression::Variables;
use query_language::expression::sort_pattern::SortPattern;
use query_language::filter::{ComparisonOperator, Filter, FilterNode};
use query_language::projection::Projection;

use crate::hint::Hint;

/// Whether a sort too large for its memory may go on with the help of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// `allowDiskUse: true`.
    Allowed,
    /// It fails with QueryExceededMemoryLimitNoDiskUseAllowed.
    Forbidden,
}

/// What is to be found, in which order, and how it is to be shown.
#[derive(Debug)]
pub struct CanonicalQuery {
    /// Which documents.
    pub filter: Filter,
    /// In which order; `None`: any.
    pub sort: Option<SortPattern>,
    /// How they are shown; `None`: whole.
    pub projection: Option<Projection>,
    /// Documents passed over first.
    pub skip: u64,
    /// The most documents yielded.
    pub limit: Option<u64>,
    /// The client's choice of index.
    pub hint: Hint,
    /// The least index key, included.
    pub min: Option<RawDocumentBuf>,
    /// The greatest index key, excluded.
    pub max: Option<RawDocumentBuf>,
    /// Yield index keys instead of documents.
    pub return_key: bool,
    /// Add the field `$recordId`.
    pub show_record_id: bool,
    /// The command's variables, for expressions in filter and projection.
    pub variables: Arc<Variables>,
    /// Whether sorting may use the disk.
    pub disk_use: DiskUse,
}

impl CanonicalQuery {
    /// A query for the documents that a filter matches, nothing else asked for.
    pub fn new(filter: Filter) -> CanonicalQuery {
        CanonicalQuery {
            filter,
            sort: None,
            projection: None,
            skip: 0,
            limit: None,
            hint: Hint::None,
            min: None,
            max: None,
            return_key: false,
            show_record_id: false,
            variables: Arc::new(Variables::new(bson::DateTime::from_millis(0), None, 0)),
            disk_use: DiskUse::Forbidden,
        }
    }

    /// The value when the filter is `{_id: value}` and nothing asks for another way than a lookup by `_id`.
    pub fn id_equality(&self) -> Option<RawBsonRef<'_>> {
        let plain = self.min.is_none() && self.max.is_none() && !self.return_key && self.skip == 0;
        if !plain || !self.hint.allows_id_lookup() {
            return None;
        }
        let FilterNode::Comparison(leaf) = self.filter.root() else { return None };
        if leaf.operator != ComparisonOperator::Eq || leaf.path.as_str() != "_id" {
            return None;
        }
        // These can be equal to something else than one key: missing, elements.
        let single = !matches!(
            leaf.value().element_type(),
            ElementType::Array | ElementType::Null | ElementType::Undefined | ElementType::RegularExpression
        );
        single.then(|| leaf.value().value())
    }
}
