//! How a wildcard index serves a filter: by the predicates on one path, of which its keys have the values.
//!
//! Called by `index_assignment`. An index has what `index_key::WildcardPaths` says, so a document without a value at the path is not in it.
//! What could be an object or an array as a whole has its keys below the path: then all of them are read, and each document once. Bounds
//! are never taken to say all of a condition: a name with a dot in it could have made a key with the same path.

use std::collections::BTreeSet;
use std::sync::Arc;

use bson::RawBsonRef;
use collection::Index;
use document::{CanonicalType, FieldPath, Interruption, work};
use index_key::WildcardPaths;
use query_language::filter::FilterNode;

use crate::bracket;
use crate::collation_agreement::Agreement;
use crate::index_assignment::{Assignment, bounds_at};
use crate::interval::{Bound, Interval, IntervalList};
use crate::predicate_bounds::Field;
use crate::predicates::{Predicate, conjuncts, predicates};

/// Paths of a filter that are tried.
const PATHS_MAX: usize = 16;

/// One for each path on which the filter wants a value.
///
/// # Errors
/// The command is to stop.
pub(crate) fn assignments(
    index: &Arc<Index>,
    paths: &WildcardPaths,
    root: &FilterNode,
) -> Result<Vec<Assignment>, Interruption> {
    // Its keys tell text apart by its bytes.
    if !Agreement::of(index).is_same {
        return Ok(Vec::new());
    }
    let nodes = conjuncts(root);
    let wanting: Vec<Predicate<'_>> =
        predicates(nodes)?.into_iter().filter(|predicate| predicate.rejects_missing()).collect();
    work::done(wanting.len())?;
    let wanted: BTreeSet<&str> = wanting.iter().map(|predicate| predicate.path.as_str()).collect();
    let usable = wanted.into_iter().filter(|path| paths.has(path) && !has_position(path));
    // What is said of the other fields of a compound one. A key has any of their values beside any of a path's, so all bounds combine.
    let base = Assignment::new(index, root)?;
    let mut found = Vec::new();
    for path in usable.take(PATHS_MAX) {
        found.extend(assignment(&base, paths, nodes, &FieldPath::new(path), &wanting)?);
    }
    found.extend(by_other_fields(base, nodes));
    Ok(found)
}

/// Without a path: all documents have their values of the fields before the wildcard in the index, each with every path.
fn by_other_fields(base: Assignment, nodes: &[FilterNode]) -> Option<Assignment> {
    let position = base.index.pattern().wildcard_position()?;
    let (has_fields_before, is_bound) = (position > 1, base.bounds.first().is_some_and(|list| !list.is_full()));
    (has_fields_before && is_bound).then(|| Assignment {
        expanded: Some(Arc::new(base.index.pattern().at_path(None))),
        has_several: true,
        key_filter: Vec::new(),
        residual: nodes.to_vec(),
        ..base
    })
}

/// What is meant by a number, a position or a name, the path of a key does not tell.
fn has_position(path: &str) -> bool {
    path.split('.').any(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
}

fn assignment(
    base: &Assignment,
    paths: &WildcardPaths,
    nodes: &[FilterNode],
    path: &FieldPath,
    wanting: &[Predicate<'_>],
) -> Result<Option<Assignment>, Interruption> {
    let index = &base.index;
    let Some(position) = index.pattern().wildcard_position() else { return Ok(None) };
    let met_arrays = base.multikey_paths.get(position).is_some_and(|components| *components != 0);
    let (field, multikey) = match met_arrays {
        false => (Field::Plain, 0),
        // The index does not know on which paths.
        true => (Field::Multikey, 1u64.checked_shl(path.len() as u32).map_or(u64::MAX, |bit| bit - 1)),
    };
    let values = bounds_at(index, path, multikey, field, wanting)?;
    let is_below = may_be_below(&values);
    if is_below && !paths.has_all_below(path.as_str()) {
        return Ok(None);
    }
    let at_path = if is_below { [below(path), IntervalList::full()] } else { [at(path), values] };
    let (mut bounds, mut fields) = (base.bounds.clone(), base.fields.clone());
    for (bound, list) in bounds.iter_mut().skip(position.saturating_sub(1)).zip(at_path) {
        *bound = list;
    }
    if let Some(kind) = fields.get_mut(position) {
        *kind = field;
    }
    Ok(Some(Assignment {
        index: index.clone(),
        expanded: Some(Arc::new(index.pattern().at_path(Some(path)))),
        has_several: is_below,
        bounds,
        fields,
        multikey_paths: base.multikey_paths.clone(),
        key_filter: Vec::new(),
        residual: nodes.to_vec(),
        rejects_missing: true,
    }))
}

/// Whether an object or an array as a whole is among the values.
fn may_be_below(values: &IntervalList) -> bool {
    let whole = [CanonicalType::Object, CanonicalType::Array].map(bracket::interval);
    let common = IntervalList::intersection_of([values.clone(), IntervalList::new(whole.into())]);
    !common.is_empty()
}

fn at(path: &FieldPath) -> IntervalList {
    IntervalList::one(Interval::point(RawBsonRef::String(path.as_str())))
}

/// The path and all below it: `/` comes after `.`.
fn below(path: &FieldPath) -> IntervalList {
    let (first, after) = (format!("{}.", path.as_str()), format!("{}/", path.as_str()));
    let inner =
        Interval::new(Bound::inclusive(RawBsonRef::String(&first)), Bound::exclusive(RawBsonRef::String(&after)));
    IntervalList::new(vec![Interval::point(RawBsonRef::String(path.as_str())), inner])
}
