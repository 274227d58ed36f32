//! The plan of a query with `$text`: the terms of the search are looked up in the collection's text index.
//!
//! Called by `candidates` and, for a branch of an `$or`, by `or_plan`. Fields before the texts must each be bound to
//! values, since keys with one term are apart from one another otherwise; bounds of fields behind the texts are checked
//! on the keys. Source: the manual's pages on `$text` and text indexes.

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use collection::Index;
use index_key::{FieldKind, key_term};
use query_language::expression::metadata::Keyword;
use query_language::filter::{BoundText, FilterNode, TextFilter, no_index};

use crate::canonical_query::CanonicalQuery;
use crate::error::{PlanError, Result};
use crate::hint::{Hint, ScanDirection};
use crate::index_assignment::{Assignment, joined};
use crate::interval::{Interval, IntervalList};
use crate::key_ranges::KeyRanges;
use crate::plan::{IndexScanPlan, PlanNode, ScanKind};
use crate::predicates::conjuncts;

/// A search and the index that answers it.
#[derive(Debug)]
pub struct TextPlan {
    /// The index.
    pub index: Arc<Index>,
    /// What is searched for, in which texts.
    pub bound: Arc<BoundText>,
    /// The values of the fields before the texts, for explain.
    pub prefix: RawDocumentBuf,
}

/// Refuses what does not go with `$text`, and what needs it without it.
///
/// # Errors
/// `BadValue`, 40218.
pub(crate) fn check(query: &CanonicalQuery) -> Result<()> {
    let (wanted, has_text) = (query.metadata(), query.filter.text().is_some());
    let missing = match query.filter.near().is_some() {
        _ if wanted.text_score && !has_text => Some(Keyword::TextScore),
        false if wanted.nearness => Some(Keyword::GeoNearDistance),
        _ if wanted.score => Some(Keyword::Score),
        _ => None,
    };
    if let Some(keyword) = missing {
        return Err(keyword.not_available().into());
    }
    if !has_text {
        return Ok(());
    }
    if query.filter.near().is_some() {
        return Err(PlanError::BadValue("text and geoNear not allowed in same query".to_owned()));
    }
    if matches!(query.hint, Hint::Natural(_)) {
        return Err(PlanError::BadValue("text expression not allowed with $natural sort order or hint".to_owned()));
    }
    if query.hint != Hint::None || query.min.is_some() || query.max.is_some() {
        return Err(PlanError::BadValue("text and hint not allowed in same query".to_owned()));
    }
    Ok(())
}

/// Binds the search to the text index among `indexes`.
///
/// # Errors
/// `IndexNotFound` without one.
pub(crate) fn bind(text: &TextFilter, indexes: &[Arc<Index>]) -> Result<(Arc<Index>, Arc<BoundText>)> {
    let of_text = indexes.iter().find_map(|index| Some((index, index.pattern().text()?)));
    let Some((index, definition)) = of_text else { return Err(no_index().into()) };
    Ok((index.clone(), text.bind(definition)?))
}

/// The plan for a filter of which one conjunct is the search; `None` when none is.
///
/// # Errors
/// `NoQueryExecutionPlans` when the index does not have all that can match.
pub(crate) fn plan(indexes: &[Arc<Index>], root: &FilterNode, needs_score: bool) -> Result<Option<PlanNode>> {
    let nodes = conjuncts(root);
    let Some(FilterNode::Text(text)) = nodes.iter().find(|node| matches!(node, FilterNode::Text(_))) else {
        return Ok(None);
    };
    let (index, bound) = bind(text, indexes)?;
    let assignment = Assignment::new(&index, root)?;
    let fields = index.pattern().fields();
    let prefix = fields.iter().take_while(|field| field.kind != FieldKind::Term).count();
    let is_bound = assignment.bounds.iter().take(prefix).all(IntervalList::is_points);
    if !is_bound || !assignment.holds_all_matches(root) {
        return Err(PlanError::NoQueryExecutionPlans(
            "failed to use text index to satisfy $text query (if text index is compound, are equality predicates given for \
             all prefix fields?)"
                .to_owned(),
        ));
    }
    // A document with such fields of its own is checked as any other.
    let residual: Vec<FilterNode> = nodes.iter().filter(|node| !matches!(node, FilterNode::Text(_))).cloned().collect();
    let scans = bound.query.index_terms().iter().map(|term| scan(&assignment, prefix, term)).collect();
    let prefix = equalities(&assignment, prefix);
    let input = Box::new(found(scans, joined(&residual), needs_score));
    Ok(Some(PlanNode::TextMatch { input, text: Arc::new(TextPlan { index, bound, prefix }) }))
}

/// The entries of one term.
fn scan(assignment: &Assignment, prefix: usize, term: &str) -> PlanNode {
    let mut bounds = assignment.bounds.clone();
    let term = key_term(term);
    let of_term = [IntervalList::one(Interval::point(RawBsonRef::String(&term))), IntervalList::full()];
    for (bound, list) in bounds.iter_mut().skip(prefix).zip(of_term) {
        *bound = list;
    }
    PlanNode::IndexScan(Arc::new(IndexScanPlan {
        index: assignment.index.clone(),
        kind: ScanKind::Entries,
        expanded: None,
        has_several: false,
        ranges: KeyRanges::new(assignment.index.pattern(), &bounds),
        bounds,
        direction: ScanDirection::Forward,
        key_filter: None,
        multikey_paths: assignment.multikey_paths.clone(),
    }))
}

/// The documents of all terms, once each.
fn found(mut scans: Vec<PlanNode>, filter: Option<FilterNode>, needs_score: bool) -> PlanNode {
    if scans.is_empty() {
        return PlanNode::Eof;
    }
    if needs_score {
        return PlanNode::TextOr { inputs: scans, filter };
    }
    let entries = match (scans.pop(), scans.is_empty()) {
        (Some(only), true) => only,
        (last, _) => {
            scans.extend(last);
            PlanNode::Or { inputs: scans }
        }
    };
    PlanNode::Fetch { input: Box::new(entries), filter }
}

fn equalities(assignment: &Assignment, prefix: usize) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for (field, list) in assignment.index.pattern().fields().iter().zip(&assignment.bounds).take(prefix) {
        let Ok(name) = <&bson::raw::CStr>::try_from(field.path.as_str()) else { continue };
        for interval in list.intervals().iter().take(1) {
            document.append(name, interval.start.value.value());
        }
    }
    document
}

impl TextPlan {
    /// Whether a document of one of the terms is what the search asks for.
    ///
    /// # Errors
    /// The command is to stop.
    pub fn accepts(&self, document: &RawDocument) -> std::result::Result<bool, query_language::QueryError> {
        Ok(self.bound.query.accepts_found(&self.bound.definition, document)?)
    }
}
