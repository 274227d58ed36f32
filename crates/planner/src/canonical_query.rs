//! A query as commands hand it over: parsed, and independent of the command it came from.

use std::sync::Arc;

use bson::raw::{CStr, cstr};
use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocumentBuf};
use document::FieldPath;
use document::collation::{Collator, in_force};
use query_language::expression::sort_pattern::SortPattern;
use query_language::expression::{MetadataUse, ParseContext, Variables};
use query_language::filter::{ComparisonOperator, Filter, FilterNode};
use query_language::projection::{Projection, ProjectionKind};

use crate::hint::Hint;
use crate::index_filters::IndexFilter;

/// Whether a sort too large for its memory may go on with the help of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskUse {
    /// `allowDiskUse: true`.
    Allowed,
    /// It fails with QueryExceededMemoryLimitNoDiskUseAllowed.
    Forbidden,
}

/// What a projection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionUse {
    /// Documents are to be shown so.
    Shown,
    /// It only says what of the documents is needed: they may as well come whole.
    Needed,
}

/// The projection that is needed where only these paths are read, for [`ProjectionUse::Needed`]; `None` where no projection can name them.
pub fn needed_projection<'p>(paths: impl IntoIterator<Item = &'p str>) -> Option<Projection> {
    let (mut fields, mut has_id) = (RawDocumentBuf::new(), false);
    for path in paths {
        fields.append(<&CStr>::try_from(path).ok()?, true);
        has_id |= path == "_id" || path.starts_with("_id.");
    }
    if !has_id {
        fields.append(cstr!("_id"), false);
    }
    Projection::parse(&fields, ProjectionKind::Find, &ParseContext::new()).ok()
}

/// A wish for fewer documents: one is enough for each value of a field.
#[derive(Debug, Clone)]
pub struct DistinctField {
    /// The field.
    pub path: FieldPath,
    /// What becomes of documents without it.
    pub missing: Missing,
    /// Which document of each value; `None`: any. It is about the query's order.
    pub which: Option<WhichDocument>,
}

/// What a document without a field counts as, where values are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// As one with null.
    Null,
    /// As none.
    Nothing,
}

/// One of the documents with some value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum WhichDocument {
    First,
    Last,
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
    /// What that is for.
    pub projection_use: ProjectionUse,
    /// Fewer documents that are enough, where an index can find them. All may be yielded as well.
    pub distinct: Option<DistinctField>,
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
    /// What is known of each document beside its fields, and is given to whoever reads it.
    pub passes_metadata: MetadataUse,
    /// What query settings allow; it stands above index filters and hints.
    pub settings: Option<Arc<IndexFilter>>,
    /// Add the field `$recordId`.
    pub show_record_id: bool,
    /// The command's variables, for expressions in filter and projection.
    pub variables: Arc<Variables>,
    /// Whether sorting may use the disk.
    pub disk_use: DiskUse,
    /// What it compares text by: the collation that is in force while it is planned and run.
    pub collator: Option<Arc<Collator>>,
}

impl CanonicalQuery {
    /// A query for the documents that a filter matches, nothing else asked for.
    pub fn new(filter: Filter) -> CanonicalQuery {
        CanonicalQuery {
            filter,
            sort: None,
            projection: None,
            projection_use: ProjectionUse::Shown,
            distinct: None,
            skip: 0,
            limit: None,
            hint: Hint::None,
            min: None,
            max: None,
            return_key: false,
            passes_metadata: MetadataUse::default(),
            settings: None,
            show_record_id: false,
            variables: Arc::new(Variables::new(bson::DateTime::from_millis(0), None, 0)),
            disk_use: DiskUse::Forbidden,
            collator: in_force(),
        }
    }

    /// What is read, or ordered by, of what is known of documents beside their fields.
    pub fn metadata(&self) -> MetadataUse {
        let sort = self.sort.as_ref().map(SortPattern::metadata).unwrap_or_default();
        let projection = self.projection.as_ref().map(Projection::metadata).unwrap_or_default();
        self.passes_metadata | sort | projection
    }

    /// Whether that are the documents' scores for a `$text` query.
    pub fn needs_text_score(&self) -> bool {
        self.metadata().text_score
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
