//! How one index can serve a filter: bounds for its fields, a filter for its keys, and what is left for the documents.
//!
//! Over arrays a document has several keys, so predicates combine only when one key must satisfy them all:
//! - two on the same field, if no array is on its path, or all arrays on it are those of an `$elemMatch` around both;
//! - two on different fields, if their paths share no array, or only those of an `$elemMatch` around both.

use std::sync::Arc;

use collection::Index;
use document::{FieldPath, Interruption, work};
use query_language::filter::FilterNode;

use crate::hint::ScanDirection;
use crate::interval::IntervalList;
use crate::key_ranges::KeyRanges;
use crate::plan::{IndexScanPlan, PlanNode};
use crate::predicate_bounds::{Field, Tightness, bounds, rank};
use crate::predicates::{Predicate, conjuncts, predicates};

/// Predicates of other fields that are passed over in the time of a unit of work.
const PREDICATES_PER_UNIT: usize = 4;

/// An index with its part of a filter.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) index: Arc<Index>,
    pub(crate) bounds: Vec<IntervalList>,
    pub(crate) fields: Vec<Field>,
    pub(crate) multikey_paths: Vec<u64>,
    /// Checked on keys.
    pub(crate) key_filter: Vec<FilterNode>,
    /// Checked on documents.
    pub(crate) residual: Vec<FilterNode>,
    /// Whether some predicate on its fields cannot be satisfied by a document that has none of them.
    pub(crate) rejects_missing: bool,
}

impl Assignment {
    /// Assigns what it can of a filter.
    ///
    /// # Errors
    /// The command is to stop.
    pub(crate) fn new(index: &Arc<Index>, root: &FilterNode) -> Result<Assignment, Interruption> {
        let multikey_paths = index.multikey_paths();
        let fields = classify(index, &multikey_paths);
        let nodes = conjuncts(root);
        let all = predicates(nodes)?;
        let mut assigner = Assigner {
            paths: index.pattern().fields().iter().map(|field| field.path.clone()).collect(),
            multikey_paths: &multikey_paths,
            used: Vec::new(),
            exact: vec![false; nodes.len()],
        };
        let mut bounds = Vec::with_capacity(fields.len());
        for (position, field) in fields.iter().enumerate() {
            bounds.push(assigner.field(position, *field, &all)?);
        }
        let exact = assigner.exact;
        let rejects_missing = rejects_missing(index, &all)?;
        let (mut key_filter, mut residual) = (Vec::new(), Vec::new());
        for (node, exact) in nodes.iter().zip(exact) {
            if exact {
                continue;
            }
            work::step()?;
            let on_keys = can_check_on_keys(node, index, &fields);
            if on_keys { &mut key_filter } else { &mut residual }.push(node.clone());
        }
        Ok(Assignment { index: index.clone(), bounds, fields, multikey_paths, key_filter, residual, rejects_missing })
    }

    /// Whether the scan reads less than the whole index.
    pub(crate) fn is_bounded(&self) -> bool {
        self.bounds.first().is_some_and(|list| !list.is_full()) || !self.key_filter.is_empty()
    }

    /// Whether nothing can be inside the bounds.
    pub(crate) fn is_empty(&self) -> bool {
        self.bounds.iter().any(IntervalList::is_empty)
    }

    /// Whether the index holds every document that can match.
    pub(crate) fn holds_all_matches(&self, root: &FilterNode) -> bool {
        let specification = self.index.specification();
        let partial = specification.partial_filter.as_ref();
        partial.is_none_or(|partial| crate::partial_index::implies(root, partial.filter().root()))
            && (!specification.sparse || self.rejects_missing)
    }

    /// The scan.
    pub(crate) fn scan(&self, direction: ScanDirection) -> PlanNode {
        PlanNode::IndexScan(Arc::new(IndexScanPlan {
            index: self.index.clone(),
            ranges: KeyRanges::new(self.index.pattern(), &self.bounds),
            bounds: self.bounds.clone(),
            direction,
            key_filter: joined(&self.key_filter),
            multikey_paths: self.multikey_paths.clone(),
        }))
    }

    /// The scan with its documents.
    pub(crate) fn fetch(&self, direction: ScanDirection) -> PlanNode {
        PlanNode::Fetch { input: Box::new(self.scan(direction)), filter: joined(&self.residual) }
    }
}

/// All of several conditions; `None` when there are none.
pub(crate) fn joined(nodes: &[FilterNode]) -> Option<FilterNode> {
    match nodes {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(FilterNode::And(several.to_vec())),
    }
}

/// Whether a predicate on a field of the index rejects documents that have none of its fields.
fn rejects_missing(index: &Index, all: &[Predicate<'_>]) -> Result<bool, Interruption> {
    let fields = index.pattern().fields();
    for predicate in all {
        work::step()?;
        if fields.iter().any(|field| field.path.as_str() == predicate.path) && predicate.rejects_missing() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn classify(index: &Index, multikey_paths: &[u64]) -> Vec<Field> {
    let fields = index.pattern().fields().iter().zip(multikey_paths);
    let classified = fields.map(|(field, components)| {
        let has_position = (1..field.path.len()).any(|component| field.path.position(component).is_some());
        if *components == 0 && !has_position { Field::Plain } else { Field::Multikey }
    });
    classified.collect()
}

struct Assigner<'p, 'f> {
    paths: Vec<FieldPath>,
    multikey_paths: &'p [u64],
    /// What bounds the fields so far: of each the first predicate, which shares its elements with the others of the field.
    used: Vec<(usize, Predicate<'f>)>,
    /// By conjunct: whether the bounds say all of it.
    exact: Vec<bool>,
}

impl<'f> Assigner<'_, 'f> {
    /// The bounds of one field.
    fn field(&mut self, position: usize, field: Field, all: &[Predicate<'f>]) -> Result<IntervalList, Interruption> {
        let Some(path) = self.paths.get(position) else { return Ok(IntervalList::full()) };
        let fitting = all.iter().filter(|predicate| predicate.path == path.as_str());
        let fitting = fitting.filter(|predicate| self.combines(position, predicate));
        let ranked = fitting.map(|predicate| {
            let bounds = bounds(predicate.node, field);
            (rank(&bounds.list), predicate, bounds)
        });
        let mut candidates: Vec<_> = ranked.collect();
        work::done(all.len() / PREDICATES_PER_UNIT + candidates.len())?;
        candidates.sort_by_key(|(rank, ..)| std::cmp::Reverse(*rank));
        // A number in a path means an element to the index, and to the filter also a field of the elements.
        let is_positional = path.as_str().split('.').any(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
        let mut lists = Vec::new();
        let mut taken: Vec<&Predicate<'f>> = Vec::new();
        for (rank, predicate, bounds) in candidates {
            if rank == 0 && bounds.tightness == Tightness::Inexact {
                continue;
            }
            // What shares a key with one of them shares it with all.
            if taken.first().is_some_and(|other| !self.on_same_key(position, field, predicate, other)) {
                continue;
            }
            lists.push(bounds.list);
            if bounds.tightness == Tightness::Exact && predicate.scopes.is_empty() && !is_positional {
                self.note_exact(predicate);
            }
            taken.push(predicate);
        }
        self.used.extend(taken.first().map(|predicate| (position, (*predicate).clone())));
        Ok(IntervalList::intersection_of(lists))
    }

    /// A conjunct is a single predicate unless it has an `$elemMatch` in it.
    fn note_exact(&mut self, predicate: &Predicate<'f>) {
        if let Some(exact) = self.exact.get_mut(predicate.conjunct) {
            *exact = true;
        }
    }

    /// Whether one key satisfies both predicates on a field if one document does.
    fn on_same_key(&self, position: usize, field: Field, left: &Predicate<'f>, right: &Predicate<'f>) -> bool {
        if field == Field::Plain {
            return true;
        }
        let components = self.multikey_paths.get(position).copied().unwrap_or_default();
        match components.checked_ilog2() {
            Some(innermost) => left.shares_element(right, innermost as usize),
            // Numbers in the path, so that arrays may be hidden.
            None => false,
        }
    }

    /// Whether the predicate may bound a field beside those that bound others already.
    fn combines(&self, position: usize, predicate: &Predicate<'f>) -> bool {
        self.used.iter().all(|(other_position, other)| match self.shared_array(position, *other_position) {
            None => true,
            Some(component) => predicate.shares_element(other, component),
        })
    }

    /// The innermost component up to which two fields have the same path, and at which both met an array.
    fn shared_array(&self, left: usize, right: usize) -> Option<usize> {
        let (first, second) = (self.paths.get(left)?, self.paths.get(right)?);
        let common = first.names().zip(second.names()).take_while(|(left, right)| left == right).count();
        let met = self.multikey_paths.get(left)? & self.multikey_paths.get(right)?;
        let shared = met & 1u64.checked_shl(common as u32).map_or(u64::MAX, |bit| bit - 1);
        shared.checked_ilog2().map(|component| component as usize)
    }
}

/// Whether a condition can be decided on the values in a key.
fn can_check_on_keys(node: &FilterNode, index: &Index, fields: &[Field]) -> bool {
    work::count(1);
    let on_plain_field = |path: &FieldPath| {
        let mut pairs = index.pattern().fields().iter().zip(fields);
        pairs.any(|(known, field)| *field == Field::Plain && known.path == *path)
    };
    match node {
        FilterNode::AlwaysFalse => true,
        FilterNode::And(children) | FilterNode::Or(children) | FilterNode::Nor(children) => {
            children.iter().all(|child| can_check_on_keys(child, index, fields))
        }
        FilterNode::Not(child) => can_check_on_keys(child, index, fields),
        FilterNode::Comparison(_)
        | FilterNode::In(_)
        | FilterNode::Mod(_)
        | FilterNode::Bits(_)
        | FilterNode::Regex(_) => node.path().is_some_and(on_plain_field),
        // A key does not tell null from missing, and plain fields have no arrays.
        FilterNode::Exists(_)
        | FilterNode::Type(_)
        | FilterNode::Size(_)
        | FilterNode::ElemMatchObject(_)
        | FilterNode::ElemMatchValue(_)
        | FilterNode::Expr(_)
        | FilterNode::SampleRate(_) => false,
    }
}
