//! The fields that a filter says to be equal to something, which an upsert starts its document from.

use std::collections::BTreeSet;

use bson::RawBsonRef;
use document::work;

use super::{ComparisonOperator, FilterNode};
use crate::error::{ErrorKind, QueryError, Result};

/// Equalities at the top level and under `$and`, by path. Normalization has made equalities of an `$or` or `$in` with a
/// single entry.
pub(crate) fn of(root: &FilterNode) -> Result<Vec<(&str, RawBsonRef<'_>)>> {
    let found = unchecked(root);
    let mut earlier: BTreeSet<&str> = BTreeSet::new();
    for (path, _) in &found {
        work::done(work::of_bytes(path.len()))?;
        let parents = path.match_indices('.').filter_map(|(end, _)| path.get(..end));
        if let Some(shorter) = parents.chain([*path]).find(|shorter| earlier.contains(shorter)) {
            check_apart(shorter, path)?;
        }
        earlier.insert(path);
    }
    Ok(found)
}

/// The same with contradictions.
pub(crate) fn unchecked(root: &FilterNode) -> Vec<(&str, RawBsonRef<'_>)> {
    let mut found: Vec<(&str, RawBsonRef<'_>)> = Vec::new();
    collect(root, &mut found);
    found.sort_by_key(|(path, _)| *path);
    found
}

fn collect<'a>(node: &'a FilterNode, found: &mut Vec<(&'a str, RawBsonRef<'a>)>) {
    match node {
        FilterNode::And(children) => children.iter().for_each(|child| collect(child, found)),
        FilterNode::Comparison(leaf) if leaf.operator == ComparisonOperator::Eq => {
            found.push((leaf.path.as_str(), leaf.value().value()));
        }
        _ => {}
    }
}

fn check_apart(shorter: &str, longer: &str) -> Result<()> {
    let message = match longer.strip_prefix(shorter) {
        Some("") => format!("cannot infer query fields to set, path '{shorter}' is matched twice"),
        Some(rest) if rest.starts_with('.') => {
            format!("cannot infer query fields to set, both paths '{shorter}' and '{longer}' are matched")
        }
        _ => return Ok(()),
    };
    Err(QueryError::new(ErrorKind::NotSingleValueField, message))
}
