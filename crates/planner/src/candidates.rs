//! All plans for a query that are worth considering.

use std::sync::Arc;

use collection::{Collection, Index};
use document::work;
use query_language::filter::{FilterNode, Literal};
use transaction::ReadView;

use crate::canonical_query::CanonicalQuery;
use crate::covered;
use crate::error::{PlanError, Result};
use crate::hint::{Hint, ScanDirection};
use crate::index_assignment::{Assignment, joined};
use crate::index_filters::IndexFilter;
use crate::interval::IntervalList;
use crate::min_max;
use crate::or_plan;
use crate::plan::{IndexScanPlan, Plan, PlanNode};
use crate::predicates::conjuncts;
use crate::sort_order;

/// What the documents are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To be yielded.
    Documents,
    /// To be counted: nothing is fetched that the filter does not ask for.
    Count,
}

/// What is queried.
#[derive(Clone)]
pub struct Target<'t> {
    /// The collection.
    pub collection: &'t Arc<Collection>,
    /// The view it is read through; opened before planning.
    pub view: &'t ReadView,
    /// What an administrator has said about such queries.
    pub filter: Option<&'t IndexFilter>,
}

impl Target<'_> {
    /// An index filter stands above the hint.
    fn hint<'q>(&self, query: &'q CanonicalQuery) -> &'q Hint {
        if self.filter.is_some() { &Hint::None } else { &query.hint }
    }
}

/// The indexes that may be used.
pub(crate) struct Usable {
    indexes: Vec<Arc<Index>>,
    hinted: bool,
}

impl Usable {
    pub(crate) fn indexes(&self) -> &[Arc<Index>] {
        &self.indexes
    }
}

/// The plans for a query, at least one. The first is not the best: see `heuristic_rank`.
///
/// # Errors
/// `BadValue` for a hint that names no index; `NoQueryExecutionPlans`; MongoDB's for `min` and `max`.
pub fn candidates(target: &Target<'_>, query: &CanonicalQuery, purpose: Purpose) -> Result<Vec<Plan>> {
    let roots = match target.hint(query) {
        Hint::Natural(direction) if query.min.is_none() && query.max.is_none() => {
            vec![collection_scan(query, *direction)]
        }
        _ => indexed(target, query, purpose)?,
    };
    let finished = roots.into_iter().map(|root| Plan { root: finish(root, query, purpose) });
    Ok(finished.collect())
}

fn indexed(target: &Target<'_>, query: &CanonicalQuery, purpose: Purpose) -> Result<Vec<PlanNode>> {
    let list = target.collection.indexes().clone();
    let usable = usable(target, query, list.ready_at(target.view.timestamp()))?;
    if query.min.is_some() || query.max.is_some() {
        return Ok(vec![min_max_scan(query, &usable)?]);
    }
    if let (Some(id), Some(index)) = (query.id_equality(), list.id_index_at(target.view.timestamp())) {
        return Ok(vec![PlanNode::IdLookup { index, id: Literal::new(id) }]);
    }
    let root = query.filter.root();
    if matches!(root, FilterNode::AlwaysFalse) && !usable.hinted {
        return Ok(vec![PlanNode::Eof]);
    }
    let mut roots = Vec::new();
    for index in &usable.indexes {
        work::check()?;
        let assignment = Assignment::new(index, root)?;
        roots.extend(index_plan(&assignment, query, purpose, usable.hinted));
    }
    if let Some(or) = or_plan::plan(&usable, root)? {
        roots.push(sorted(or, query));
    }
    // Bounds that were left off in their midst are not used.
    work::step()?;
    match roots.is_empty() {
        false => Ok(roots),
        true if usable.hinted => Err(PlanError::NoQueryExecutionPlans(no_plan(target, query))),
        true => Ok(vec![collection_scan(query, ScanDirection::Forward)]),
    }
}

fn no_plan(target: &Target<'_>, query: &CanonicalQuery) -> String {
    let namespace = target.collection.namespace();
    let filter = query_language::expression::show_value(bson::RawBsonRef::Document(&query.filter.to_document()));
    format!(
        "error processing query: ns={} Tree: {filter} planner returned error: No query solutions",
        namespace.as_str()
    )
}

/// What the index filter, or else the hint, leaves of the indexes. A hidden index cannot be hinted either.
fn usable(target: &Target<'_>, query: &CanonicalQuery, ready: impl Iterator<Item = Arc<Index>>) -> Result<Usable> {
    let visible = ready.filter(|index| !index.is_hidden());
    if let Some(filter) = target.filter {
        return Ok(Usable { indexes: visible.filter(|index| filter.allows(index)).collect(), hinted: false });
    }
    let (indexes, hinted): (Vec<Arc<Index>>, bool) = match &query.hint {
        Hint::None | Hint::Natural(_) => (visible.collect(), false),
        Hint::Name(name) => (visible.filter(|index| index.name() == name).collect(), true),
        Hint::KeyPattern(pattern) => {
            let pattern = index_key::KeyPattern::parse(pattern).ok();
            (visible.filter(|index| Some(index.pattern()) == pattern.as_ref()).take(1).collect(), true)
        }
    };
    if hinted && indexes.is_empty() {
        let namespace = target.collection.namespace();
        let message = "planner returned error :: caused by :: hint provided does not correspond to an existing index";
        return Err(PlanError::BadValue(format!("error processing query: ns={} {message}", namespace.as_str())));
    }
    Ok(Usable { indexes, hinted })
}

/// The plan with one index, if it is worth having.
fn index_plan(assignment: &Assignment, query: &CanonicalQuery, purpose: Purpose, hinted: bool) -> Option<PlanNode> {
    let specification = assignment.index.specification();
    let root = query.filter.root();
    // A hint accepts that a sparse index does not know all documents.
    let complete = assignment.holds_all_matches(root) || (hinted && specification.sparse);
    if !complete {
        return None;
    }
    let order = query.sort.as_ref().and_then(|sort| sort_order::direction_for(assignment, sort));
    let covered = query.projection.as_ref().and_then(|projection| covered::needed_fields(assignment, projection));
    if !assignment.is_bounded() && !hinted && order.is_none() {
        return None;
    }
    if assignment.is_empty() {
        return Some(PlanNode::Eof);
    }
    let sorted_by_index = query.sort.is_none() || order.is_some();
    let direction = order.unwrap_or(ScanDirection::Forward);
    let counts_keys = purpose == Purpose::Count && assignment.residual.is_empty();
    if counts_keys {
        return Some(assignment.scan(ScanDirection::Forward));
    }
    if let (Some(needed), true, false) = (covered, sorted_by_index, query.show_record_id || query.return_key) {
        return Some(PlanNode::CoveredProjection { input: Box::new(assignment.scan(direction)), needed });
    }
    let fetched = assignment.fetch(direction);
    Some(if sorted_by_index { fetched } else { sorted(fetched, query) })
}

fn min_max_scan(query: &CanonicalQuery, usable: &Usable) -> Result<PlanNode> {
    let (true, Some(index)) = (usable.hinted, usable.indexes.first()) else {
        let message = "When using min()/max() a hint of which index to use must be provided";
        return Err(PlanError::Location(51173, message.to_owned()));
    };
    let mut assignment = Assignment::new(index, query.filter.root())?;
    let partial = index.specification().partial_filter.is_some();
    if partial && !assignment.holds_all_matches(query.filter.root()) {
        return Err(PlanError::NoQueryExecutionPlans("No query solutions".to_owned()));
    }
    // The whole filter is checked on the documents; min and max alone bound the scan.
    assignment.residual = conjuncts(query.filter.root()).to_vec();
    assignment.bounds.fill(IntervalList::full());
    let order = query.sort.as_ref().and_then(|sort| sort_order::direction_for(&assignment, sort));
    let scan = PlanNode::IndexScan(Arc::new(IndexScanPlan {
        index: index.clone(),
        ranges: min_max::key_ranges(query, index)?,
        bounds: assignment.bounds.clone(),
        direction: order.unwrap_or(ScanDirection::Forward),
        key_filter: None,
        multikey_paths: assignment.multikey_paths.clone(),
    }));
    let fetched = PlanNode::Fetch { input: Box::new(scan), filter: joined(&assignment.residual) };
    Ok(if query.sort.is_none() || order.is_some() { fetched } else { sorted(fetched, query) })
}

fn collection_scan(query: &CanonicalQuery, direction: ScanDirection) -> PlanNode {
    let filter = (!query.filter.is_empty()).then(|| query.filter.root().clone());
    sorted(PlanNode::CollectionScan { direction, filter }, query)
}

/// With the query's order, if it asks for one.
fn sorted(root: PlanNode, query: &CanonicalQuery) -> PlanNode {
    let Some(pattern) = query.sort.clone() else { return root };
    let limit = query.limit.map(|limit| limit.saturating_add(query.skip));
    PlanNode::Sort { input: Box::new(root), pattern, limit }
}

/// With skip, limit and projection.
fn finish(mut root: PlanNode, query: &CanonicalQuery, purpose: Purpose) -> PlanNode {
    if query.skip > 0 {
        root = PlanNode::Skip { input: Box::new(root), count: query.skip };
    }
    if let Some(count) = query.limit {
        root = PlanNode::Limit { input: Box::new(root), count };
    }
    if purpose == Purpose::Count {
        return root;
    }
    if query.return_key {
        return PlanNode::ReturnKey { input: Box::new(root) };
    }
    let covers = |node: &PlanNode| matches!(node, PlanNode::CoveredProjection { .. });
    let is_covered =
        covers(&root) || root.inputs().iter().any(|input| covers(input) || input.inputs().iter().any(covers));
    match &query.projection {
        Some(projection) if !is_covered && !projection.is_identity() => PlanNode::Projection { input: Box::new(root) },
        _ => root,
    }
}
