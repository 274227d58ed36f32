//! How one index can serve a filter: bounds for its fields, a filter for its keys, and what is left for the documents.
//!
//! Over arrays a document has several keys, so predicates combine only when one key must satisfy them all:
//! - two on the same field, if no array is on its path, or all arrays on it are those of an `$elemMatch` around both;
//! - two on different fields, if their paths share no array, or only those of an `$elemMatch` around both.

use std::sync::Arc;

use collection::Index;
use document::{FieldPath, Interruption, collation, work};
use index_key::{FieldKind, KeyPattern, PlaceCells};
use query_language::filter::FilterNode;

use crate::collation_agreement::Agreement;
use crate::hint::ScanDirection;
use crate::interval::IntervalList;
use crate::key_ranges::KeyRanges;
use crate::place_bounds;
use crate::plan::{IndexScanPlan, PlanNode, ScanKind};
use crate::predicate_bounds::{Field, PredicateBounds, Tightness, bounds, rank};
use crate::predicates::{Predicate, conjuncts, predicates};
use crate::wildcard;

/// Predicates of other fields that are passed over in the time of a unit of work.
const PREDICATES_PER_UNIT: usize = 4;

/// An index with its part of a filter.
#[derive(Debug, Clone)]
pub(crate) struct Assignment {
    pub(crate) index: Arc<Index>,
    /// What its keys are for one path, if it is a wildcard index.
    pub(crate) expanded: Option<Arc<KeyPattern>>,
    /// Whether a document may have several keys within the bounds although there are no arrays.
    pub(crate) has_several: bool,
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
    /// All ways in which the index can serve: one, but of a wildcard index one for each path.
    ///
    /// # Errors
    /// The command is to stop.
    pub(crate) fn all(index: &Arc<Index>, root: &FilterNode) -> Result<Vec<Assignment>, Interruption> {
        match index.pattern().wildcard() {
            // A text index serves `$text` alone.
            None if index.pattern().text().is_some() => Ok(Vec::new()),
            None => Ok(vec![Assignment::new(index, root)?]),
            Some(paths) => wildcard::assignments(index, paths, root),
        }
    }

    /// What the keys are.
    pub(crate) fn pattern(&self) -> &KeyPattern {
        self.expanded.as_deref().unwrap_or_else(|| self.index.pattern())
    }

    /// Assigns what it can of a filter.
    ///
    /// # Errors
    /// The command is to stop.
    pub(crate) fn new(index: &Arc<Index>, root: &FilterNode) -> Result<Assignment, Interruption> {
        let agreement = Agreement::of(index);
        // Bounds are compared with one another as the keys are.
        let _order_of_keys = collation::enter(index.pattern().shared_collator().cloned());
        let multikey_paths = index.multikey_paths();
        let fields = classify(index, &multikey_paths);
        let nodes = conjuncts(root);
        let all = predicates(nodes)?;
        let mut assigner = Assigner {
            paths: index.pattern().fields().iter().map(|field| field.path.clone()).collect(),
            multikey_paths: &multikey_paths,
            agreement,
            places: index.pattern().places(),
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
            let on_keys = agreement.has_text && can_check_on_keys(node, index, &fields);
            if on_keys { &mut key_filter } else { &mut residual }.push(node.clone());
        }
        Ok(Assignment {
            index: index.clone(),
            expanded: None,
            // A shape is covered by several cells.
            has_several: index.pattern().places().is_some(),
            bounds,
            fields,
            multikey_paths,
            key_filter,
            residual,
            rejects_missing,
        })
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
        let agreement = Agreement::of(&self.index);
        let implies = |condition| agreement.can_bound(condition) && crate::partial_index::implies(root, condition);
        partial.is_none_or(|partial| implies(partial.filter().root()))
            && (!(specification.sparse || self.index.pattern().places().is_some()) || self.rejects_missing)
    }

    /// The scan.
    pub(crate) fn scan(&self, direction: ScanDirection) -> PlanNode {
        self.scan_for(ScanKind::Entries, direction)
    }

    /// The scan that only counts, which is one where a single range decides.
    pub(crate) fn count(&self) -> PlanNode {
        let ranges = KeyRanges::new(self.pattern(), &self.bounds);
        let decides = ranges.ranges.len() == 1 && ranges.checks.is_empty() && self.key_filter.is_empty();
        self.scan_for(if decides { ScanKind::Count } else { ScanKind::Entries }, ScanDirection::Forward)
    }

    /// The scan for some of its entries.
    pub(crate) fn scan_for(&self, kind: ScanKind, direction: ScanDirection) -> PlanNode {
        PlanNode::IndexScan(Arc::new(IndexScanPlan {
            index: self.index.clone(),
            kind,
            expanded: self.expanded.clone(),
            has_several: self.has_several,
            ranges: KeyRanges::new(self.pattern(), &self.bounds),
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
    let has_places = index.pattern().places().is_some();
    for predicate in all {
        work::step()?;
        let mut on_path = fields.iter().filter(|field| field.path.as_str() == predicate.path);
        let is_wanted = match has_places {
            // A document without a place is not in the index, whatever else it has at the path.
            true => on_path.any(|field| field.kind.is_place()) && place_bounds::asks_for_place(predicate.node),
            false => on_path.next().is_some() && predicate.rejects_missing(),
        };
        if is_wanted {
            return Ok(true);
        }
    }
    Ok(false)
}

fn classify(index: &Index, multikey_paths: &[u64]) -> Vec<Field> {
    let fields = index.pattern().fields().iter().zip(multikey_paths);
    let classified = fields.map(|(field, components)| {
        let has_position = (1..field.path.len()).any(|component| field.path.position(component).is_some());
        match field.kind {
            // There are no arrays, wherever a number in the path may lead.
            FieldKind::Hashed => Field::Hashed,
            kind @ (FieldKind::Sphere | FieldKind::Plane) => Field::Place(kind),
            FieldKind::Ordered if *components == 0 && !has_position => Field::Plain,
            // What is at no single path bounds nothing.
            FieldKind::Ordered | FieldKind::Path | FieldKind::Wildcard | FieldKind::Term | FieldKind::Score => {
                Field::Multikey
            }
        }
    });
    classified.collect()
}

/// The bounds of the values at one path, on which `multikey` components may have met arrays.
pub(crate) fn bounds_at(
    index: &Index,
    path: &FieldPath,
    multikey: u64,
    field: Field,
    all: &[Predicate<'_>],
) -> Result<IntervalList, Interruption> {
    let conjuncts = all.iter().map(|predicate| predicate.conjunct + 1).max().unwrap_or_default();
    let multikey_paths = [multikey];
    let mut assigner = Assigner {
        paths: vec![path.clone()],
        multikey_paths: &multikey_paths,
        agreement: Agreement::of(index),
        places: None,
        used: Vec::new(),
        exact: vec![false; conjuncts],
    };
    assigner.field(0, field, all)
}

struct Assigner<'p, 'f> {
    paths: Vec<FieldPath>,
    multikey_paths: &'p [u64],
    agreement: Agreement,
    places: Option<&'p PlaceCells>,
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
        let fitting =
            fitting.filter(|predicate| self.combines(position, predicate) && self.agreement.can_bound(predicate.node));
        let mut candidates = Vec::new();
        for predicate in fitting {
            let bounds = self.predicate_bounds(predicate.node, field)?;
            candidates.push((rank(&bounds.list), predicate, bounds));
        }
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

    fn predicate_bounds(&self, node: &FilterNode, field: Field) -> Result<PredicateBounds, Interruption> {
        let (Field::Place(kind), Some(cells)) = (field, self.places) else { return Ok(bounds(node, field)) };
        let list = place_bounds::bounds(node, kind, cells)?;
        Ok(PredicateBounds::inexact(list.unwrap_or_else(IntervalList::full)))
    }

    /// A conjunct is a single predicate unless it has an `$elemMatch` in it.
    fn note_exact(&mut self, predicate: &Predicate<'f>) {
        if let Some(exact) = self.exact.get_mut(predicate.conjunct) {
            *exact = true;
        }
    }

    /// Whether one key satisfies both predicates on a field if one document does.
    fn on_same_key(&self, position: usize, field: Field, left: &Predicate<'f>, right: &Predicate<'f>) -> bool {
        match field {
            Field::Plain | Field::Hashed => return true,
            // Of one shape, different cells may be in the bounds of both.
            Field::Place(_) => return false,
            Field::Multikey => {}
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
        | FilterNode::Geo(_)
        | FilterNode::Near(_)
        | FilterNode::Expr(_)
        | FilterNode::JsonSchema(_)
        | FilterNode::SampleRate(_)
        | FilterNode::Where(_)
        | FilterNode::Text(_) => false,
    }
}
