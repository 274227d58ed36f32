//! All plans for a query that are worth considering.

use std::sync::Arc;

use collection::{Collection, Index};
use document::work;
use query_language::filter::{FilterNode, Literal, NearFilter, TextFilter};
use transaction::ReadView;

use crate::canonical_query::{CanonicalQuery, ProjectionUse};
use crate::collation_agreement::Agreement;
use crate::covered;
use crate::distinct_plan;
use crate::error::{PlanError, Result};
use crate::exploded_sort;
use crate::geo_near;
use crate::hint::{Hint, ScanDirection};
use crate::index_assignment::{Assignment, joined};
use crate::index_filters::IndexFilter;
use crate::interval::IntervalList;
use crate::min_max;
use crate::or_plan;
use crate::plan::{IndexScanPlan, Plan, PlanNode, ScanKind};
use crate::predicates::conjuncts;
use crate::sort_order;
use crate::text_plan;

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
    needs_text_score: bool,
}

impl Usable {
    pub(crate) fn indexes(&self) -> &[Arc<Index>] {
        &self.indexes
    }

    pub(crate) fn needs_text_score(&self) -> bool {
        self.needs_text_score
    }
}

/// The plans for a query, at least one. The first is not the best: see `heuristic_rank`.
///
/// # Errors
/// `BadValue` for a hint that names no index; `NoQueryExecutionPlans`; MongoDB's for `min` and `max`.
pub fn candidates(target: &Target<'_>, query: &CanonicalQuery, purpose: Purpose) -> Result<Vec<Plan>> {
    text_plan::check(query)?;
    let roots = match target.hint(query) {
        Hint::Natural(direction) if query.filter.near().is_none() && query.min.is_none() && query.max.is_none() => {
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
    if let Some(near) = query.filter.near() {
        return near_plans(target, query, &usable, near);
    }
    if query.min.is_some() || query.max.is_some() {
        return Ok(vec![min_max_scan(query, &usable)?]);
    }
    if let Some(text) = query.filter.text() {
        return Ok(vec![sorted(text_root(&usable, text, query)?, query)]);
    }
    if let (Some(id), Some(index)) = (query.id_equality(), list.id_index_at(target.view.timestamp()))
        && Agreement::of(&index).can_find(id.element_type())
    {
        return Ok(vec![PlanNode::IdLookup { index, id: Literal::new(id) }]);
    }
    let root = query.filter.root();
    if matches!(root, FilterNode::AlwaysFalse) && !usable.hinted {
        return Ok(vec![PlanNode::Eof]);
    }
    let mut assignments = Vec::new();
    for index in &usable.indexes {
        work::check()?;
        assignments.extend(Assignment::all(index, root)?);
    }
    if let Some(distinct) = distinct_plan::best(&assignments, query) {
        work::step()?;
        return Ok(vec![distinct]);
    }
    let mut roots = Vec::new();
    for assignment in &assignments {
        work::check()?;
        roots.extend(index_plan(assignment, query, purpose, usable.hinted));
        if purpose == Purpose::Documents {
            roots.extend(exploded_sort::plan(assignment, query));
        }
    }
    let order = query.sort.as_ref().filter(|_| purpose == Purpose::Documents && !query.return_key);
    if let Some(merged) = order.map(|order| or_plan::merged(&usable, root, order)).transpose()?.flatten() {
        roots.push(merged);
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

/// Only an index of places gives documents in the order of their distance.
fn near_plans(
    target: &Target<'_>,
    query: &CanonicalQuery,
    usable: &Usable,
    near: &NearFilter,
) -> Result<Vec<PlanNode>> {
    if query.min.is_some() || query.max.is_some() {
        return Err(PlanError::BadValue("min and max cannot be used with $near".to_owned()));
    }
    let scans = matches!(target.hint(query), Hint::Natural(_));
    let plans = if scans { Vec::new() } else { geo_near::plans(&usable.indexes, query.filter.root(), near)? };
    if plans.is_empty() {
        let message = no_plan(target, query);
        let message = message.trim_end_matches("No query solutions").trim_end_matches("planner returned error: ");
        return Err(PlanError::NoQueryExecutionPlans(format!(
            "{message}planner returned error :: caused by :: unable to find index for $geoNear query"
        )));
    }
    Ok(plans.into_iter().map(|plan| sorted(plan, query)).collect())
}

/// Documents that a search finds, by the one index that can find them.
fn text_root(usable: &Usable, text: &TextFilter, query: &CanonicalQuery) -> Result<PlanNode> {
    let root = query.filter.root();
    if let Some(plan) = text_plan::plan(&usable.indexes, root, query.needs_text_score())? {
        return Ok(plan);
    }
    text_plan::bind(text, &usable.indexes)?;
    or_plan::plan(usable, root)?.ok_or_else(|| {
        let message = "Failed to produce a solution for TEXT under OR - other non-TEXT clauses under OR have to be indexed as well.";
        PlanError::NoQueryExecutionPlans(message.to_owned())
    })
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
    let needs_text_score = query.needs_text_score();
    let visible = ready.filter(|index| !index.is_hidden());
    if let Some(filter) = target.filter {
        let indexes = visible.filter(|index| filter.allows(index)).collect();
        return Ok(Usable { indexes, hinted: false, needs_text_score });
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
    Ok(Usable { indexes, hinted, needs_text_score })
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
    if !assignment.is_bounded() && !hinted && order.is_none() && !is_asked_for_presence(assignment, root) {
        return None;
    }
    if assignment.is_empty() {
        return Some(PlanNode::Eof);
    }
    let sorted_by_index = query.sort.is_none() || order.is_some();
    let direction = order.unwrap_or(ScanDirection::Forward);
    let counts_keys = purpose == Purpose::Count && assignment.residual.is_empty();
    if counts_keys {
        return Some(assignment.count());
    }
    if let (Some(needed), true, false) = (covered, sorted_by_index, query.show_record_id || query.return_key) {
        return Some(PlanNode::CoveredProjection { input: Box::new(assignment.scan(direction)), needed });
    }
    let fetched = assignment.fetch(direction);
    Some(if sorted_by_index { fetched } else { sorted(fetched, query) })
}

/// Whether the filter asks for documents that have a field, and the index has those alone.
fn is_asked_for_presence(assignment: &Assignment, root: &FilterNode) -> bool {
    let [field] = assignment.pattern().fields() else { return false };
    let asks = |node: &FilterNode| matches!(node, FilterNode::Exists(_)) && node.path() == Some(&field.path);
    assignment.index.specification().sparse && conjuncts(root).iter().any(asks)
}

fn min_max_scan(query: &CanonicalQuery, usable: &Usable) -> Result<PlanNode> {
    let (true, Some(index)) = (usable.hinted, usable.indexes.first()) else {
        let message = "When using min()/max() a hint of which index to use must be provided";
        return Err(PlanError::Location(51173, message.to_owned()));
    };
    if index.pattern().text().is_some() {
        return Err(PlanError::Location(51174, "The index chosen is not compatible with min/max".to_owned()));
    }
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
        kind: ScanKind::Entries,
        expanded: None,
        has_several: false,
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

/// Without the first few, which are passed over before their documents are read where that makes no difference.
fn skipped(root: PlanNode, count: u64) -> PlanNode {
    match root {
        PlanNode::Fetch { input, filter: None } => {
            PlanNode::Fetch { input: Box::new(skipped(*input, count)), filter: None }
        }
        PlanNode::CoveredProjection { input, needed } => {
            PlanNode::CoveredProjection { input: Box::new(skipped(*input, count)), needed }
        }
        root => PlanNode::Skip { input: Box::new(root), count },
    }
}

/// With skip, limit and projection.
fn finish(mut root: PlanNode, query: &CanonicalQuery, purpose: Purpose) -> PlanNode {
    if query.skip > 0 {
        root = skipped(root, query.skip);
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
        Some(projection)
            if !is_covered && query.projection_use == ProjectionUse::Shown && !projection.is_identity() =>
        {
            PlanNode::Projection { input: Box::new(root) }
        }
        _ => root,
    }
}
